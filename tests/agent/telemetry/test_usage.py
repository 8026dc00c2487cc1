"""What a job uses: counted once, still counted when processes end, on disk before it is reported, and cheap."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import Loop
from jupyter_smx.agent.telemetry import proc_usage, sampler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is a /proc on Linux only")

BURN = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: pass\n"


def rows(agent: Agent, job: str) -> list[list[Any]]:
    head, *lines = [json.loads(line) for line in agent.read(job, "samples").decode().splitlines()]
    assert (head["version"], tuple(head["columns"])) == (1, sampler.COLUMNS)
    assert head["disk"] > 0
    assert head["memory"] > 0
    return lines


def test_a_job_that_burns_a_core_for_a_while_is_seen_to_do_so(agent: Agent) -> None:
    job, _lease = agent.start(BURN.format(1.5))
    told = agent.client.event("sampled", job)
    while "cpu_percent" not in told["now"]:
        told = agent.client.event("sampled", job)
    assert told["total"] <= len(agent.read(job, "samples"))
    record = agent.end_of(job)
    assert 1.4 <= record["usage"]["cpu_seconds"] <= 1.8
    assert 0 < record["usage"]["cpu_percent"] <= 100 * (os.cpu_count() or 1)
    assert 1 << 20 < record["usage"]["memory_bytes"] < 1 << 31
    lines = rows(agent, job)
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)
    assert [line[1] for line in lines] == sorted(line[1] for line in lines)
    assert lines[-1][1] == record["usage"]["cpu_seconds"]
    assert record["samples"] == len(agent.read(job, "samples"))


def test_a_job_of_a_moment_has_its_memory_on_record(agent: Agent) -> None:
    job, _lease = agent.start("import time; time.sleep(0.5)")
    record = agent.end_of(job)
    assert record["usage"]["memory_bytes"] > 1 << 20
    assert "gpu_percent" not in record["usage"], "no GPU is looked at here, and that is not zero"
    assert rows(agent, job)


def test_what_children_used_goes_on_to_count_when_they_end(agent: Agent) -> None:
    burn = BURN.format(0.7)
    source = (
        "import os, subprocess, sys, time\n"
        f"subprocess.run([sys.executable, '-c', {burn!r}])\n"
        # A child that its parent does not reap: the parent exits, the agent adopts it, and it ends before the job.
        f"subprocess.run(['sh', '-c', '\"$0\" -c \"$1\" &', sys.executable, {burn!r}])\n"
        "time.sleep(3)\n"
    )
    job, _lease = agent.start(source)
    record = agent.end_of(job)
    assert 1.35 <= record["usage"]["cpu_seconds"] <= 2.2, "both"


def test_a_job_that_is_killed_between_two_looks_has_all_of_its_cpu_on_record(agent: Agent) -> None:
    job, _lease = agent.start(BURN.format(0.8) + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    record = agent.end_of(job)
    assert record["signal"] == 9
    assert 0.75 <= record["usage"]["cpu_seconds"] <= 1.2
    assert rows(agent, job)[-1][1] == record["usage"]["cpu_seconds"]


def test_orphans_count_as_their_collector_tells_or_as_they_were_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = {10: 1.0, 20: 2.0, 30: 4.0}

    def look(pid: int) -> tuple[proc_usage.Key, proc_usage.ProcessSample] | None:
        return ((pid, 0), proc_usage.ProcessSample(1, cpu[pid], 100, 10, 1, 1)) if pid in cpu else None

    monkeypatch.setattr(proc_usage, "read_process", look)
    monkeypatch.setattr(proc_usage.process, "tree", list)
    tree = proc_usage.ProcessTree()
    assert tree.measure([10, 20, 30]).cpu == 7.0
    del cpu[20]
    assert tree.measure([10, 20, 30]).cpu == 7.0, "as it was seen last"
    tree.add_orphan(30, 5.0)
    del cpu[30]
    assert tree.measure([10, 20, 30]).cpu == 8.0, "as its collector told"
    tree.add_orphan(40, 0.5)
    assert tree.measure([10]).cpu == 8.5, "one that came and went between two looks"


@pytest.mark.parametrize("looked", [True, False])
def test_the_last_word_on_a_job_is_of_its_collector(monkeypatch: pytest.MonkeyPatch, looked: bool) -> None:
    cpu = {10: 1.0}

    def look(pid: int) -> tuple[proc_usage.Key, proc_usage.ProcessSample] | None:
        return ((pid, 0), proc_usage.ProcessSample(1, cpu[pid], 100, 10, 1, 1)) if pid in cpu else None

    monkeypatch.setattr(proc_usage, "read_process", look)
    monkeypatch.setattr(proc_usage.process, "tree", list)
    tree = proc_usage.ProcessTree(0.25)
    assert tree.measure([10]).cpu == 0.75
    cpu.clear()
    if looked:
        assert tree.measure([10]).pids == ()
    assert tree.finish(3.0) == 2.75
    assert tree.finish(0.0) == 2.75, "nobody said how much"


def test_a_restart_of_the_counters_is_not_a_negative_share(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = {1: 5.0, 2: 3.0}

    def look(pid: int) -> tuple[proc_usage.Key, proc_usage.ProcessSample] | None:
        return ((pid, 0), proc_usage.ProcessSample(pid - 1, cpu[pid], 100, 10, 1, 1)) if pid in cpu else None

    monkeypatch.setattr(proc_usage, "read_process", look)
    monkeypatch.setattr(proc_usage.process, "tree", list)
    tree = proc_usage.ProcessTree(8.0)
    assert tree.measure([1, 2]).cpu == 0
    cpu[2] = 4.0
    assert tree.measure([1, 2]).cpu == 1
    del cpu[2]  # its parent ignores SIGCHLD: its CPU time was added to no other process
    assert tree.measure([1, 2]).cpu == 1
    cpu[1] = 9.0 + 0.5  # its parent reaped it after all, and ran on
    assert tree.measure([1, 2]).cpu == 1.5
    del cpu[1]
    assert tree.measure([1, 2]).cpu == 1.5


def test_memory_that_children_share_is_counted_once() -> None:
    source = (
        "import os, sys\n"
        "held = bytearray(os.urandom(1 << 20) * 64)\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        sys.stdin.read()\n"
        "        os._exit(0)\n"
        "print('on', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = proc_usage.ProcessTree().measure([process.pid])
        process.kill()
    assert len(found.pids) == 4
    assert 64 << 20 < found.memory < 120 << 20, "not four times 64 MiB"


def test_looking_at_twenty_processes_costs_less_than_half_a_percent_of_a_core() -> None:
    source = (
        "import subprocess, sys\nkids = [subprocess.Popen(['sleep', '60']) for _ in range(19)]\nprint(flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source + "sys.stdin.read()\n[kid.kill() for kid in kids]\n"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tree, costs = proc_usage.ProcessTree(), []
        for _ in range(5):
            began = time.thread_time()
            assert len(tree.measure([process.pid]).pids) == 20
            costs.append(time.thread_time() - began)
        process.communicate()
    assert sorted(costs)[2] < 0.005 * sampler.INTERVAL, costs


class Paused(Loop):
    """A loop that records the scheduled calls, and the pauses before them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.asked.append((seconds, call))
        return super().later(seconds, call)


@pytest.fixture
def told() -> list[dict[str, float]]:
    return []


@pytest.fixture
def loop() -> Paused:
    return Paused()


@pytest.fixture
def of_us(tmp_path: Path, told: list[dict[str, float]], loop: Paused) -> sampler.Sampler:
    """Return a sampler of this process."""
    return sampler.Sampler(loop, str(tmp_path), str(tmp_path), lambda: [os.getpid()], told.append)


def test_a_look_that_was_slow_is_followed_by_a_long_pause(
    of_us: sampler.Sampler, loop: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 0.05, 1.0, 1.0])
    monkeypatch.setattr(sampler.time, "thread_time", lambda: next(clock))
    of_us.start(os.getpid())
    for _ in range(3):
        loop.asked[-1][1]()
    assert [seconds for seconds, _call in loop.asked] == [
        sampler.FIRST_DELAY,
        sampler.SECOND_DELAY,
        pytest.approx(10.0),
        sampler.INTERVAL,
    ]


def test_no_pause_follows_the_time_that_finding_the_driver_takes(
    of_us: sampler.Sampler, loop: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = [0.0]

    @functools.cache
    def find() -> None:
        spent[0] += 0.05

    monkeypatch.setattr(sampler.time, "thread_time", lambda: spent[0])
    monkeypatch.setattr(sampler.gpu, "find", find)
    of_us.start(os.getpid())
    for _ in range(2):
        loop.asked[-1][1]()
    assert spent == [0.05]
    assert loop.asked[-1][0] == sampler.INTERVAL


def test_a_long_job_keeps_fewer_lines_and_all_of_its_counters(
    of_us: sampler.Sampler, loop: Paused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "STRIDE_LINES", 8)
    of_us.start(os.getpid())
    for _ in range(100):
        loop.asked[-1][1]()
    of_us.finish()
    lines = [json.loads(line) for line in (tmp_path / "samples").read_text().splitlines()][1:]
    assert 8 * 3 <= len(lines) <= 8 * 5, "every doubling of the time is so many lines more"
    assert all(line[2] > 0 for line in lines)


def test_a_full_disk_leaves_a_hole_and_no_half_line_in_another(
    of_us: sampler.Sampler, loop: Paused, tmp_path: Path, told: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_us.start(os.getpid())
    loop.asked[-1][1]()
    really = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: really(fd, data[:5]))
    loop.asked[-1][1]()
    monkeypatch.setattr(os, "write", really)
    loop.asked[-1][1]()
    texts = (tmp_path / "samples").read_text().splitlines()
    assert len(texts) == 4
    assert [len(text) == 5 for text in texts] == [False, False, True, False]
    assert len(json.loads(texts[3])) == len(sampler.COLUMNS)
    assert len(told) == 3


def test_what_cannot_be_read_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    really = process.read_file
    monkeypatch.setattr(
        process, "read_file", lambda path: "" if path.endswith("/io") or "net" in path else really(path)
    )
    found = proc_usage.ProcessTree().measure([os.getpid()])
    assert (found.read, found.written) == (None, None)
    assert proc_usage.network() is None
    assert proc_usage.disk("/no/such/place") is None
