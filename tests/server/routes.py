"""Every route and verb of the extension, once, for the tests that go through all of them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Route(Struct, frozen=True, kw_only=True):
    """A request of the browser, and the request that the controller sees for it."""

    verb: str
    path: str
    upstream: str
    upstream_verb: str = ""
    body: str | None = None
    query: dict[str, str] = {}
    upstream_query: dict[str, str] = {}
    answer: Mapping[str, object] = {}
    """What the controller says."""

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


ROUTES = [
    Route(verb="GET", path="controller", upstream="/v1/"),
    Route(verb="POST", path="controller", upstream="/v1/", upstream_verb="GET", body=""),
    Route(
        verb="GET",
        path="jobs",
        upstream="/v1/jobs",
        query={"limit": "5", "status": "Failed", "_xsrf": "x"},
        upstream_query={"limit": "5", "status": "Failed"},
    ),
    Route(verb="POST", path="jobs", upstream="/v1/jobs", body='{"id": "abc", "spec": {}}'),
    Route(
        verb="GET",
        path="jobs/digits",
        upstream="/v1/jobs/digits",
        query={"wait": "999", "until": "final"},
        upstream_query={"wait": "60", "until": "final"},
    ),
    Route(verb="DELETE", path="jobs/digits", upstream="/v1/jobs/digits"),
    Route(verb="POST", path="jobs/digits/delete", upstream="/v1/jobs/digits", upstream_verb="DELETE", body=""),
    Route(verb="POST", path="jobs/digits/stop", upstream="/v1/jobs/digits/stop", body=""),
    Route(verb="POST", path="jobs/digits/interrupt", upstream="/v1/jobs/digits/interrupt", body=""),
    Route(
        verb="POST",
        path="jobs/digits/rerun",
        upstream="/v1/jobs/digits/rerun",
        body='{"id": "abc"}',
    ),
    Route(
        verb="GET",
        path="jobs/digits/logs",
        upstream="/v1/jobs/digits/logs",
        query={"offset": "7", "last": "9", "limit": "10", "host": "algo-1"},
        upstream_query={"offset": "7", "last": "9", "limit": "10", "host": "algo-1"},
    ),
    Route(
        verb="GET",
        path="jobs/digits/logs/search",
        upstream="/v1/jobs/digits/logs/search",
        query={
            "text": " a b ",
            "case": "1",
            "host": "algo-2",
            "attempt": "1",
            "after": "3",
            "before": "9",
            "_xsrf": "x",
        },
        upstream_query={"text": " a b ", "case": "1", "host": "algo-2", "attempt": "1", "after": "3", "before": "9"},
    ),
    Route(
        verb="GET",
        path="jobs/digits/logs/whole",
        upstream="/v1/jobs/digits/logs/whole",
        query={"host": "algo-2", "attempt": "1", "name": "x.log"},
        upstream_query={"host": "algo-2", "attempt": "1"},
    ),
    Route(
        verb="GET",
        path="jobs/digits/metrics",
        upstream="/v1/jobs/digits/metrics",
        query={"attempt": "2", "since": "17.5", "_xsrf": "x"},
        upstream_query={"attempt": "2", "since": "17.5"},
    ),
    Route(
        verb="GET",
        path="jobs/digits/usage",
        upstream="/v1/jobs/digits/usage",
        query={"host": "algo-2", "attempt": "1", "since": "17.5", "_xsrf": "x"},
        upstream_query={"host": "algo-2", "attempt": "1", "since": "17.5"},
    ),
    Route(
        verb="GET",
        path="jobs/digits/advice",
        upstream="/v1/jobs/digits/advice",
        query={"attempt": "1", "_xsrf": "x"},
        upstream_query={"attempt": "1"},
    ),
    Route(
        verb="GET",
        path="jobs/digits/diff",
        upstream="/v1/jobs/digits/diff",
        query={"from": "digits-a1", "_xsrf": "x"},
        upstream_query={"from": "digits-a1"},
    ),
    *(
        Route(
            verb="GET",
            path=f"{of}/digits/shell",
            upstream=f"/v1/{of}/digits/shell",
            query={"host": "algo-2", "_xsrf": "x"},
            upstream_query={"host": "algo-2"},
        )
        for of in ("jobs", "pools")
    ),
    Route(
        verb="GET",
        path="jobs/digits/places",
        upstream="/v1/jobs/digits",
        answer={"id": "a", "name": "digits-a", "spec": {"kind": "train", "source": ""}},
    ),
    Route(
        verb="GET",
        path="jobs/digits/artifacts/outputs/a b.csv",
        upstream="/v1/jobs/digits/artifacts/outputs/a%20b.csv",
    ),
    Route(
        verb="GET",
        path="arrays",
        upstream="/v1/arrays",
        query={"limit": "9", "_xsrf": "x"},
        upstream_query={"limit": "9"},
    ),
    Route(
        verb="GET",
        path="arrays/sweep",
        upstream="/v1/arrays/sweep",
        query={"wait": "999", "ended": "3", "tasks": "0"},
        upstream_query={"wait": "60", "ended": "3", "tasks": "0"},
    ),
    Route(verb="POST", path="arrays/sweep/stop", upstream="/v1/arrays/sweep/stop", body=""),
    Route(verb="GET", path="pools", upstream="/v1/pools"),
    Route(verb="PATCH", path="pools/m5-1", upstream="/v1/pools/m5-1", body='{"keep_alive": 900}'),
    Route(verb="DELETE", path="pools/m5-1", upstream="/v1/pools/m5-1"),
    Route(
        verb="POST",
        path="pools/m5-1/extend",
        upstream="/v1/pools/m5-1",
        upstream_verb="PATCH",
        body='{"keep_alive": 900}',
    ),
    Route(verb="POST", path="pools/m5-1/release", upstream="/v1/pools/m5-1", upstream_verb="DELETE", body=""),
    Route(
        verb="GET",
        path="changes",
        upstream="/v1/changes",
        query={"since": "3"},
        upstream_query={"since": "3"},
    ),
    Route(verb="GET", path="doctor", upstream="/v1/doctor"),
]
