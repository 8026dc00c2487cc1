"""Events of CloudWatch Logs: pages of one stream from both ends, and searches of several."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from aws.recorded_jobs import BEGIN, CALLER, RecordedJobs
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.aws.logs.service import make_service
from jupyter_smx.aws.service import AwsError

GROUP = "/aws/sagemaker/TrainingJobs"
STREAM = f"train-1/algo-1-{BEGIN}"


class Client:
    """Calls the operations."""

    def __init__(self, jobs: RecordedJobs) -> None:
        self.jobs = jobs
        self.service = make_service(jobs)

    async def call(self, operation: str, **members: Any) -> dict[str, Any]:
        found: dict[str, Any] = await self.service.operations[operation]({"logGroupName": GROUP} | members, CALLER)
        return found

    async def get(self, stream: str = STREAM, **members: Any) -> dict[str, Any]:
        return await self.call("GetLogEvents", logStreamName=stream, **members)

    async def all_forward(self, stream: str = STREAM, **members: Any) -> list[tuple[str, int]]:
        """Read to the end as SDK 2 does, and as Syne Tune does: until the token comes back."""
        found = []
        page = await self.get(stream, startFromHead=True, **members)
        for _ in range(200):
            found += rows(page)
            token = page["nextForwardToken"]
            page = await self.get(stream, nextToken=token, **members)
            if page["nextForwardToken"] == token:
                assert page["events"] == []
                return found
        pytest.fail("the token does not come back")

    async def filter(self, **members: Any) -> list[tuple[str, str, int]]:
        found, token = [], None
        for _ in range(200):
            page = await self.call("FilterLogEvents", **members, **({"nextToken": token} if token else {}))
            found += [
                (e["logStreamName"].split("/")[0], e["message"], e["timestamp"] - BEGIN * 1000) for e in page["events"]
            ]
            assert len(page["events"]) <= members.get("limit", 10_000)
            if (token := page.get("nextToken")) is None:
                return found
        pytest.fail("the search does not end")

    async def refusal(self, operation: str, **members: Any) -> tuple[str, str]:
        with pytest.raises(AwsError) as caught:
            await self.call(operation, **members)
        return caught.value.code, caught.value.message


def rows(page: dict[str, Any]) -> list[tuple[str, int]]:
    return [(event["message"], event["timestamp"] - BEGIN * 1000) for event in page["events"]]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    jobs = RecordedJobs(tmp_path)
    jobs.add("train-1")
    return Client(jobs)


class TestGetLogEvents:
    async def test_lines_come_with_their_times_and_an_empty_one_is_a_blank(self, client: Client) -> None:
        client.jobs.write("train-1", b"one\ntw", 10)
        client.jobs.write("train-1", b"o\n\n", 50)
        page = await client.get(startFromHead=True)
        assert rows(page) == [("one", 10), ("two", 50), (" ", 50)]
        assert page["events"][0]["ingestionTime"] == BEGIN * 1000 + 10

    async def test_the_token_of_the_end_comes_back_until_there_is_more(self, client: Client) -> None:
        client.jobs.write("train-1", b"one\ntw", 10)
        end = (await client.get(startFromHead=True))["nextForwardToken"]
        for _ in "ab":
            page = await client.get(nextToken=end)
            assert (page["events"], page["nextForwardToken"]) == ([], end)
        client.jobs.write("train-1", b"o\n", 50)
        assert rows(await client.get(nextToken=end)) == [("two", 50)]

    async def test_a_reader_goes_on_from_the_time_of_the_last_line_as_the_sdk_does(self, client: Client) -> None:
        client.jobs.write("train-1", b"a\nb\n", 10)
        first = await client.get(startFromHead=True, startTime=0)
        client.jobs.write("train-1", b"c\n", 25)
        again = await client.get(startFromHead=True, startTime=first["events"][-1]["timestamp"])
        assert rows(again) == [("a", 10), ("b", 10), ("c", 25)]
        assert rows(await client.get(startFromHead=True, startTime=BEGIN * 1000 + 25)) == [("c", 25)]
        assert rows(await client.get(startFromHead=True, endTime=BEGIN * 1000 + 25)) == [("a", 10), ("b", 10)]

    async def test_without_a_direction_the_last_lines_come_and_the_token_back_gives_those_before(
        self, client: Client
    ) -> None:
        client.jobs.write("train-1", b"a\nb\nc\nd\ne\n", 10)
        page = await client.get(limit=2)
        texts = [[text for text, _ in rows(page)]]
        while page["events"]:
            page = await client.get(limit=2, nextToken=page["nextBackwardToken"])
            texts.append([text for text, _ in rows(page)])
        assert texts == [["d", "e"], ["b", "c"], ["a"], []]
        assert (await client.get(nextToken=page["nextBackwardToken"]))["nextBackwardToken"] == page["nextBackwardToken"]
        assert [text for text, _ in rows(await client.get(nextToken=page["nextForwardToken"]))] == [
            "a",
            "b",
            "c",
            "d",
            "e",
        ]

    async def test_a_job_that_runs_again_continues_its_stream_and_no_time_goes_back(self, client: Client) -> None:
        client.jobs.write("train-1", b"a\nb", 500)
        token = (await client.get(startFromHead=True))["nextForwardToken"]
        client.jobs.retry("train-1")
        assert rows(await client.get(nextToken=token)) == [("b", 500)]
        client.jobs.write("train-1", b"c\nd\n", 400)
        client.jobs.write("train-1", b"e\n", 600)
        assert await client.all_forward() == [("a", 500), ("b", 500), ("c", 500), ("d", 500), ("e", 600)]
        assert await client.all_forward(limit=1, startTime=BEGIN * 1000 + 500) == await client.all_forward()
        assert await client.all_forward(startTime=BEGIN * 1000 + 501) == [("e", 600)]
        assert await client.all_forward(endTime=BEGIN * 1000 + 600) == (await client.all_forward())[:-1]
        assert [text for text, _ in rows(await client.get(limit=2))] == ["d", "e"]

    @pytest.mark.parametrize(
        "stream",
        ["train-1/algo-2-1700000000", "train-1/algo-1-1700000001", "none/algo-1-1700000000", "train-1", ""],
    )
    async def test_a_stream_that_does_not_exist_is_not_found(self, client: Client, stream: str) -> None:
        client.jobs.write("train-1", b"a\n", 1)
        code, text = await client.refusal("GetLogEvents", logStreamName=stream)
        assert (code, text) == ("ResourceNotFoundException", "The specified log stream does not exist.")

    async def test_a_stream_exists_when_its_host_has_printed(self, client: Client) -> None:
        assert (await client.refusal("GetLogEvents", logStreamName=STREAM))[0] == "ResourceNotFoundException"
        client.jobs.write("train-1", b"begin of a line", 1)
        assert (await client.get(startFromHead=True))["events"] == []

    async def test_the_group_of_another_kind_has_no_such_stream(self, client: Client) -> None:
        client.jobs.write("train-1", b"a\n", 1)
        for group in ("/aws/sagemaker/ProcessingJobs", "/aws/sagemaker/Nothing"):
            code, _ = await client.refusal("GetLogEvents", logStreamName=STREAM, logGroupName=group)
            assert code == "ResourceNotFoundException"

    @pytest.mark.parametrize(
        "members",
        [
            {"limit": 0},
            {"limit": 10_001},
            {"startTime": -1},
            {"startTime": 5, "endTime": 4},
            {"nextToken": "x"},
            {"nextToken": "f/" + "9" * 56},
            {"logGroupName": None},
            {"logGroupIdentifier": GROUP},
        ],
    )
    async def test_members_that_make_no_sense_are_refused(self, client: Client, members: dict[str, Any]) -> None:
        client.jobs.write("train-1", b"a\n", 1)
        code, _ = await client.refusal("GetLogEvents", **{"logStreamName": STREAM} | members)
        assert code == "InvalidParameterException"

    async def test_a_group_may_be_named_by_its_arn(self, client: Client) -> None:
        client.jobs.write("train-1", b"a\n", 1)
        arn = f"arn:aws:logs:eu-west-1:000000000000:log-group:{GROUP}:*"
        assert rows(await client.get(logGroupName=None, logGroupIdentifier=arn)) == [("a", 1)]


class TestFilterLogEvents:
    @pytest.fixture
    def two(self, client: Client) -> Client:
        client.jobs.add("train-2", hosts=2)
        client.jobs.add("other")
        client.jobs.write("train-1", b"a ERROR\nb\n", 10)
        client.jobs.write("train-2", b"c\n", 10)
        client.jobs.write("train-2", b"d\n", 5, host="algo-2")
        client.jobs.write("train-1", b"e ERROR 7\n", 30)
        client.jobs.write("other", b"f\n", 20)
        return client

    @pytest.mark.parametrize("limit", [1, 2, 3, 10_000])
    async def test_events_of_all_streams_come_by_time_once(self, two: Client, limit: int) -> None:
        assert await two.filter(limit=limit, logStreamNamePrefix="train-") == [
            ("train-2", "d", 5),
            ("train-1", "a ERROR", 10),
            ("train-1", "b", 10),
            ("train-2", "c", 10),
            ("train-1", "e ERROR 7", 30),
        ]

    @pytest.mark.parametrize("limit", [1, 10_000])
    @pytest.mark.parametrize(
        ("pattern", "texts"),
        [
            ("ERROR", ["a ERROR", "e ERROR 7"]),
            ("ERROR 7", ["e ERROR 7"]),
            ('"ERROR 7"', ["e ERROR 7"]),
            ("ERROR -7", ["a ERROR"]),
            ("?b ?f", ["b", "f"]),
            ("-ERROR", ["d", "b", "c", "f"]),
            ("error", []),
        ],
    )
    async def test_a_pattern_selects_messages(self, two: Client, pattern: str, texts: list[str], limit: int) -> None:
        assert [text for _, text, _ in await two.filter(filterPattern=pattern, limit=limit)] == texts

    async def test_streams_and_moments_select_events(self, two: Client) -> None:
        names = [STREAM]
        assert [text for _, text, _ in await two.filter(logStreamNames=names, startTime=BEGIN * 1000 + 11)] == [
            "e ERROR 7"
        ]
        assert [text for _, text, _ in await two.filter(logStreamNames=names, endTime=BEGIN * 1000 + 11)] == [
            "a ERROR",
            "b",
        ]
        assert [text for _, text, _ in await two.filter(logStreamNamePrefix="train-1/")] == [
            "a ERROR",
            "b",
            "e ERROR 7",
        ]

    async def test_each_event_has_an_id_of_its_own(self, two: Client) -> None:
        page = await two.call("FilterLogEvents")
        ids = [(event["logStreamName"], event["eventId"]) for event in page["events"]]
        assert len(set(ids)) == 6
        assert {len(identifier) for _, identifier in ids} == {56}

    async def test_many_jobs_are_searched_part_by_part(self, two: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jupyter_smx.aws.logs.service.JOBS_AT_ONCE", 2)
        found = await two.filter(limit=1)
        assert sorted(text for _, text, _ in found) == ["a ERROR", "b", "c", "d", "e ERROR 7", "f"]

    @pytest.mark.parametrize(
        ("members", "code"),
        [
            ({"filterPattern": "{ $.x = 1 }"}, "InvalidParameterException"),
            ({"filterPattern": '"open'}, "InvalidParameterException"),
            ({"nextToken": "AAAA"}, "InvalidParameterException"),
            ({"logStreamNames": ["a"], "logStreamNamePrefix": "a"}, "InvalidParameterException"),
            ({"logStreamNames": ["a/b"] * 101}, "InvalidParameterException"),
            ({"logStreamNames": ["train-1/algo-7-1700000000"]}, "ResourceNotFoundException"),
            ({"logStreamNames": ["train-2/algo-1-1700000100"]}, ""),
        ],
    )
    async def test_members_that_make_no_sense_are_refused(
        self, two: Client, members: dict[str, Any], code: str
    ) -> None:
        if code:
            assert (await two.refusal("FilterLogEvents", **members))[0] == code
        else:
            assert await two.filter(**members) == [("train-2", "c", 10)]


LINES = st.lists(
    st.tuples(st.sampled_from(["one", "two"]), st.integers(0, 3), st.sampled_from([0, 5, 40])), max_size=12
)


@settings(deadline=None, max_examples=60)
@given(LINES, st.integers(1, 4), st.integers(0, 200), st.sets(st.integers(0, 11), max_size=2))
async def test_pages_of_any_size_give_each_line_once_in_order(
    steps: list[tuple[str, int, int]], limit: int, since: int, retries: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = Client(jobs := RecordedJobs(Path(folder)))
        jobs.add("one", created_at=float(BEGIN), started_at=float(BEGIN))
        jobs.add("two", created_at=float(BEGIN), started_at=float(BEGIN))
        now, number = 0, 0
        written: list[tuple[str, str]] = []
        for step, (name, count, pause) in enumerate(steps):
            now += pause
            for _ in range(count):
                jobs.write(name, f"{number}\n".encode(), now)
                written.append((name, str(number)))
                number += 1
            if step in retries:
                jobs.retry(name)
        start = BEGIN * 1000 + since
        everything = []
        for name in ("one", "two"):
            stream = f"{name}/algo-1-{BEGIN}"
            if name not in {owner for owner, _ in written}:
                continue
            whole = await client.all_forward(stream)
            assert [text for text, _ in whole] == [text for owner, text in written if owner == name]
            assert [at for _, at in whole] == sorted(at for _, at in whole)
            late = [row for row in whole if row[1] >= since]
            assert await client.all_forward(stream, limit=limit, startTime=start) == late
            everything += [(name, *row) for row in late]
        everything.sort(key=lambda row: (row[2], row[0], int(row[1])))
        assert await client.filter(limit=limit, startTime=start) == everything
