"""What a server could say of a job, made up: no test has a GPU, or a hundred thousand seconds."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

BEGIN = 1_700_000_000.0
GIB = 2**30


def host(name: str, count: int, *, every: float = 1.0, gpus: int = 0, skew: float = 0.0) -> dict[str, Any]:
    """Make up the samples of one host."""
    turns = range(count)
    wave = [math.sin(turn * 12 / count) for turn in turns]
    return {
        "host": name,
        "at": [BEGIN + skew + turn * every for turn in turns],
        "cpu_percent": [None, *(round(250 + 120 * each, 1) for each in wave[1:])],
        "memory_bytes": [int((6 + 3 * turn / count) * GIB) for turn in turns],
        "read_rate": [None, *(3e6 * (1 + each) for each in wave[1:])],
        "write_rate": [None, *(1e6 * (1 - each) for each in wave[1:])],
        "receive_rate": [None, *(8e5 * (1 + each) for each in wave[1:])],
        "send_rate": [None, *(2e5 * (1 + each) for each in wave[1:])],
        "disk_bytes": [90_000_000_000 + turn * 1000 for turn in turns],
        "gpus": [gpu(turn, wave) for turn in range(gpus)],
        "cpus": 8,
        "memory_total_bytes": 32 * GIB,
        "disk_total_bytes": 500_000_000_000,
        "notes": ["Network and disk values are for the whole host, including other processes."],
    }


def gpu(turn: int, wave: list[float]) -> dict[str, Any]:
    """Make up one GPU."""
    return {
        "id": f"GPU-{turn}",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_total_bytes": 80 * GIB,
        "percent": [round(70 + 25 * each - 8 * turn, 1) for each in wave],
        "memory_bytes": [int((40 + 4 * turn + 5 * each) * GIB) for each in wave],
    }


def metric(name: str, count: int, where: str = "algo-1", every: float = 1.0, start: float = 2.0) -> dict[str, Any]:
    """Make up a metric that falls, and is no number once."""
    values: list[float | None] = [start / (1 + 9 * turn / count) for turn in range(count)]
    values[count // 2] = None
    at = [BEGIN + 0.5 + turn * every for turn in range(count)]
    return {
        "name": name,
        "host": where,
        "steps": [None] * count,
        "at": at,
        "values": values,
        "count": count,
        "stride": 1,
    }


class ChartWorld:
    """Answers what a page asks about the history of jobs, and counts how often it asks."""

    def __init__(self, hosts: list[dict[str, Any]], metrics: list[dict[str, Any]]) -> None:
        self.run = {"job": "made-up", "attempt": 1, "attempts": 1, "is_final": True}
        self.hosts = hosts
        self.metrics = metrics
        self.asked = 0
        self.status = 200

    def answer(self, page: Page) -> None:
        """Answer what this page requests from now on; with a route a page uses no HTTP cache."""
        page.route(re.compile(r"/jupyter-smx/jobs/[^/]+/(usage|metrics)"), self._answer)

    def _answer(self, route: Route, request: Request) -> None:
        what = request.url.partition("?")[0].rpartition("/")[2]
        body: dict[str, Any] = dict(self.run)
        if self.status != 200:
            body = {"code": "ServiceUnavailable", "message": "No controller runs."}
        elif what == "usage":
            self.asked += 1
            body |= {"hosts": self.hosts, "peak": None}
        else:
            body |= {"series": self.metrics, "progress": None, "notes": []}
        route.fulfill(status=self.status, content_type="application/json", body=json.dumps(body))
