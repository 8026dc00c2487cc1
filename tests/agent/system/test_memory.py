"""Memory that runs out: refused to the code, or taken with its life; said with how much, and told from other deaths."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from far_side import is_alive, pid_of_job

from jupyter_smx.agent.forkserver import zygote
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import memory
from jupyter_smx.testing.cgroup import bounded_group, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from far_side import Agent

LIMIT = 160 << 20
HUNGRY = (
    "print('begun', flush=True)\nx = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('never')"
)


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


# A request that is refused


@pytest.mark.parametrize(
    "demand", ["x = bytearray(1 << 30)", "x = []\nwhile True: x.append(bytes(1000))", "x = 'x' * (1 << 30)"]
)
def test_memory_that_is_refused_is_said_with_how_much_there_was(agent: Agent, demand: str) -> None:
    allowed = 400 << 20
    record = agent.run(f"import resource\nresource.setrlimit(resource.RLIMIT_AS, ({allowed}, {allowed}))\n{demand}")
    assert (record["cause"], record["exit_code"], record["signal"]) == ("exit", 1, None), record
    assert record["exception"]["type"] == "MemoryError"
    assert record["failure"].startswith("MemoryError. Its process had ")
    assert record["failure"].endswith("and 400.0 MiB of addresses is its own limit (RLIMIT_AS).")
    agent.serves()


def test_an_array_that_cannot_be_is_told_in_the_librarys_words_and_with_the_machines_memory(agent: Agent) -> None:
    pytest.importorskip("numpy")
    record = agent.run("import numpy\nnumpy.ones(1 << 46)")
    assert record["failure"].startswith("MemoryError: Unable to allocate 512. TiB for an array with shape")
    assert "of memory, and " in record["failure"]
    assert (record["cause"], record["exit_code"]) == ("exit", 1)


# A process that is ended


@pytest.fixture
def group() -> Iterator[Path]:
    with bounded_group(LIMIT) as folder:
        yield folder


@pytest.fixture
def bounded(group: Path, start_agent: Callable[..., Agent]) -> Agent:
    """Give an agent that lives with all its jobs within the limit."""
    words = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
    agent = start_agent(options={"program": ("sh", "-c", words, "sh", sys.executable, "-m", "jupyter_smx.agent")})
    assert agent.process.pid in processes(group)
    return agent


def test_bug_27_a_job_that_the_system_ends_for_memory_is_said_to_be_that_and_its_host_lives(bounded: Agent) -> None:
    record = bounded.run(HUNGRY)
    assert (record["cause"], record["signal"], record["exit_code"], record["text"]) == ("memory", 9, None, "begun\n")
    had = float(record["failure"].partition("its process had ")[2].split()[0])
    assert 50 < had <= LIMIT / 2**20, "megabytes of a job that was to have 400"
    assert record["failure"] == (
        f"The system killed the job for lack of memory: its process had {had} MiB, and 160.0 MiB is the limit of its "
        "control group. Use less memory, or a larger instance type."
    )
    bounded.serves()


def test_bug_27_an_operators_kill_beside_a_limit_is_no_lack_of_memory(bounded: Agent) -> None:
    bounded.run(HUNGRY)
    job, _lease = bounded.start("import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()")
    os.kill(pid_of_job(bounded, job), signal.SIGKILL)
    record = bounded.end_of(job)
    assert (record["cause"], record["signal"], record["failure"]) == ("signal", 9, "")


def test_a_worker_that_is_ended_for_memory_is_told_beside_the_end_of_its_job(bounded: Agent) -> None:
    record = bounded.run(f"import os, sys\nif not os.fork():\n    exec({HUNGRY!r})\nsys.exit(os.wait()[1] and 3)")
    assert (record["cause"], record["exit_code"]) == ("exit", 3)
    (said,) = record["errors"]
    assert said == (
        "host: while the job ran the system ended 1 process for lack of memory; "
        "160.0 MiB is the limit of its control group."
    )
    bounded.serves()


def test_the_agent_is_never_the_victim(bounded: Agent) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may ask to be spared")
    for _ in range(3):
        assert bounded.run(HUNGRY)["cause"] == "memory"
    assert is_alive(bounded.process.pid)


# Reading the limits


def write(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_the_tightest_limit_is_the_one_that_is_told(tmp_path: Path) -> None:
    root = write(tmp_path, proc__meminfo="MemTotal:  8388608 kB\nMemFree: 1 kB\n")
    assert memory.limit(root) == (8 << 30, "the memory of this machine")
    write(tmp_path, proc__self__cgroup="0::/a/b\n", sys__fs__cgroup__a__memory_DOT_max="1048576\n")
    write(tmp_path, sys__fs__cgroup__a__b__memory_DOT_max="max\n")
    assert memory.limit(root) == (1 << 20, "the limit of its control group")
    write(tmp_path, proc__self__cgroup="4:memory:/docker/x\n2:cpu:/\n")
    write(tmp_path, sys__fs__cgroup__memory__memory_DOT_limit_in_bytes="2097152\n")
    assert memory.limit(root) == (2 << 20, "the limit of its control group"), "its own path is hidden in a container"
    assert memory.limit(str(tmp_path / "nothing")) == (0, "")


def test_ends_for_memory_are_counted_in_the_own_group_and_else_on_the_machine(tmp_path: Path) -> None:
    root = write(tmp_path, proc__vmstat="pgfree 1\noom_kill 7\n")
    counter = memory.OomCounter(root)
    assert counter.find() == 7
    write(tmp_path, proc__vmstat="pgfree 1\noom_kill 8\n")
    assert counter.read() == 8
    write(tmp_path, proc__self__cgroup="0::/a\n", sys__fs__cgroup__a__memory_DOT_events="low 0\noom 3\noom_kill 2\n")
    assert counter.find() == 2
    write(tmp_path, sys__fs__cgroup__a__memory_DOT_events="low 0\noom 3\noom_kill 3\n")
    assert counter.read() == 3
    assert memory.OomCounter(str(tmp_path / "nothing")).find() == 0


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 29, "1.5 GiB"), (1 << 70, "1048576.0 PiB")],
)
def test_amounts_are_written_for_people(count: int, text: str) -> None:
    assert memory.format_size(count) == text


@pytest.mark.parametrize("few", [True, False])
def test_a_process_that_had_a_small_part_of_what_there_is_did_not_fill_it_alone(tmp_path: Path, few: bool) -> None:
    root = write(tmp_path, proc__self__cgroup="0::/a\n", sys__fs__cgroup__a__memory_DOT_max=f"{256 << 20}\n")
    said = memory.format_oom_kill((14 if few else 200) << 20, root)
    assert ("processes that it started and files in memory (/dev/shm) the rest, and 256.0 MiB is" in said) == few


def test_nothing_is_made_up_where_nothing_is_known(tmp_path: Path) -> None:
    assert memory.format_oom_kill(0, str(tmp_path)) == (
        "The system killed the job for lack of memory: its memory use is unknown, and the limit is unknown. "
        "Use less memory, or a larger instance type."
    )


@pytest.mark.parametrize(("linux", "amount"), [(True, "3.0 GiB"), (False, "3.0 MiB")], ids=["Linux", "macOS"])
def test_what_a_process_had_is_counted_in_the_units_of_its_system(
    monkeypatch: pytest.MonkeyPatch, linux: bool, amount: str
) -> None:
    monkeypatch.setattr(process, "LINUX", linux)
    used = SimpleNamespace(ru_maxrss=3 << 20)
    monkeypatch.setattr(memory.resource, "getrusage", lambda _who: used)
    monkeypatch.setattr(zygote.os, "wait4", lambda pid, _flags: (pid, signal.SIGKILL, used))
    assert f"had {amount} of memory" in memory.format_own_memory()
    assert memory.format_size(zygote._reap(1)) == amount
