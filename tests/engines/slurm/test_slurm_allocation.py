"""Pilot and step parent on this machine, with an ``srun`` and a ``squeue`` that stand in for Slurm's."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.remote import allocation
from jupyter_smx.engines.slurm import pilot_source
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes
IDLE = 210.0
SRUN = """\
#!/bin/sh
echo "$*" >>"{log}"
while case $1 in --*) true ;; *) false ;; esac; do shift; done
exec "$@"
"""
SQUEUE = """\
#!/bin/sh
echo "$*" >>"{folder}/squeue.log"
cat "{queue}"
"""
AGENT = """\
import os, signal, sys
words = sys.argv[1:]
ready, parent = (int(words[words.index(name) + 1]) for name in ("--ready-fd", "--parent-fd"))
signal.signal(signal.SIGTERM, lambda *_: print("notice", flush=True))
signal.signal(signal.SIGUSR1, lambda *_: (print("end", flush=True), os._exit(0)))
print("begun", os.environ["MARK"], os.getcwd(), flush=True)
os.write(ready, b"1")
os.close(ready)
while os.read(parent, 1):
    pass
print("orphan", flush=True)
"""


class Pilot:
    """A pilot with one group of one node."""

    def __init__(self, folder: Path, queue: str = "", **changes: Any) -> None:
        self.folder = folder
        self.job = str(secrets.randbelow(10**9) + 100)
        self.log = folder / "agent.log"
        (folder / "queue").write_text(queue)
        programs = folder / "bin"
        programs.mkdir()
        for name, text in {"srun": SRUN, "squeue": SQUEUE}.items():
            (programs / name).write_text(text.format(log=folder / "srun.log", queue=folder / "queue", folder=folder))
            (programs / name).chmod(0o755)
        plan = {
            "job": self.job,
            "name": "smx-test",
            "groups": [{"nodes": 1, "cpus": 2}],
            "folder": os.fspath(folder / "hosts"),
            "home": os.fspath(folder / "home"),
            "seconds": 3_600.0,
            "idle": 60.0,
            "others": [],
            "notice": 120.0,
            **changes,
        }
        source = pilot_source.read()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", source, "pilot", json.dumps(plan), source],
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
            stderr=(folder / "pilot.log").open("wb"),
            start_new_session=True,
        )

    def start_agent(self, *words: str, group: int | None = None, after: tuple[str, ...] = ()) -> dict[str, Any]:
        """Ask the parent of a group for an agent."""
        asked = {
            "words": list(words) or [sys.executable, "-c", AGENT],
            "folder": os.fspath(self.folder),
            "log": os.fspath(self.log),
            "variables": {"MARK": "f00d/algo-1"},
            "after": list(after),
            "question": {"cluster": "f00d"},
        }
        return allocation.ask_parent(allocation.parent_name(self.job, group), asked, 20.0)

    def until_it_listens(self) -> None:
        """Wait for the parent."""
        eventually_blocking(lambda: f"jupyter_smx-{os.getuid()}-{self.job}" in _sockets(), "the parent listens")

    def said(self) -> list[str]:
        """Give what the agents printed."""
        return self.log.read_text().splitlines() if self.log.exists() else []


def _sockets() -> str:
    return Path("/proc/net/unix").read_text()


@pytest.fixture
def pilots() -> Iterator[list[Pilot]]:
    """Give a list of pilots that are ended after the test."""
    made: list[Pilot] = []
    yield made
    for pilot in made:
        with contextlib.suppress(ProcessLookupError):  # a parent may have outlived its pilot, and agents end with it
            os.killpg(pilot.process.pid, signal.SIGKILL)
        pilot.process.wait()


@pytest.fixture
def pilot(tmp_path: Path, pilots: list[Pilot]) -> Pilot:
    """Give a pilot whose parent listens."""
    made = Pilot(tmp_path)
    pilots.append(made)
    made.until_it_listens()
    return made


def test_a_parent_starts_an_agent_and_the_pilot_ends_with_it(pilot: Pilot) -> None:
    assert pilot.start_agent() == {"ready": True}
    assert pilot.said() == [f"begun f00d/algo-1 {pilot.folder}"]
    assert pilot.process.poll() is None
    (agent,) = _agents(pilot)
    os.kill(agent, signal.SIGUSR1)
    assert pilot.process.wait(20) == 0
    assert pilot.said()[1:] == ["end"]


def test_two_groups_on_one_node_have_a_parent_each(tmp_path: Path, pilots: list[Pilot]) -> None:
    pilot = Pilot(tmp_path, groups=[{"nodes": 1, "cpus": 1}] * 2)
    pilots.append(pilot)
    pilot.until_it_listens()
    assert [pilot.start_agent(group=group) for group in (0, 1)] == [{"ready": True}] * 2
    assert [line.split()[0] for line in pilot.said()] == ["begun", "begun"]
    first, second = _agents(pilot)
    os.kill(first, signal.SIGUSR1)
    assert pilot.process.wait(20) == 0, "the other host ends, too"
    assert process_scan.read_process(second) is None


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([3_700.0, None, None], 600.0),
        ([400.0, None, None], 298.0),
        ([3_700.0, 220.0, None], 118.0),
        ([3_700.0, None, 130.0], 28.0),
        ([90.0, None, None], 1.0),
    ],
)
def test_results_are_copied_until_the_first_end_of_the_node_that_is_known(
    ends: list[float | None], expected: float
) -> None:
    assert allocation.after_limit(100.0, ends) == expected


def test_what_follows_an_agent_gets_its_question_and_the_pilot_waits_for_it(pilot: Pilot) -> None:
    pilot.start_agent(after=("/bin/sh", "-c", f"cat >{pilot.folder / 'copied'}"))
    os.kill(_agents(pilot)[0], signal.SIGUSR1)
    assert pilot.process.wait(20) == 0
    assert json.loads((pilot.folder / "copied").read_text()) == {"cluster": "f00d"}


def test_a_copy_is_ended_before_the_allocation_ends(tmp_path: Path, pilots: list[Pilot]) -> None:
    pilot = Pilot(tmp_path, seconds=0.0)
    pilots.append(pilot)
    pilot.until_it_listens()
    os.mkfifo(tmp_path / "fifo")
    pilot.start_agent(after=("/bin/cat", os.fspath(tmp_path / "fifo")))
    os.kill(_agents(pilot)[0], signal.SIGUSR1)
    assert pilot.process.wait(20) == 0
    assert "timed out" in (tmp_path / "pilot.log").read_text()


def test_the_folder_of_hosts_is_made_for_this_user_alone(pilot: Pilot) -> None:
    assert (pilot.folder / "hosts").stat().st_mode & 0o777 == 0o700


def test_a_notice_of_the_scheduler_reaches_the_agent_as_sigterm(pilot: Pilot) -> None:
    pilot.start_agent()
    pilot.process.send_signal(signal.SIGUSR1)
    eventually_blocking(lambda: "notice" in pilot.said(), "the agent got its notice")
    assert pilot.process.poll() is None


def test_a_notice_that_came_before_the_agent_reaches_it_with_the_seconds_that_are_left(pilot: Pilot) -> None:
    pilot.process.send_signal(signal.SIGUSR1)
    eventually_blocking(lambda: "notice" in (pilot.folder / "pilot.log").read_text(), "the pilot got its notice")
    pilot.start_agent()
    eventually_blocking(lambda: "notice" in pilot.said(), "the agent got its notice")
    assert 60.0 < json.loads((pilot.folder / "notice.json").read_text())["seconds"] <= 120.0


def test_an_agent_that_cannot_start_is_an_error_and_one_that_exits_a_code(pilot: Pilot) -> None:
    assert "error" in pilot.start_agent("/nowhere/python")
    assert pilot.start_agent("/bin/sh", "-c", "exit 3") == {"code": 3}


def test_a_pilot_that_is_killed_ends_the_agents(pilot: Pilot) -> None:
    pilot.start_agent()
    pilot.process.kill()
    eventually_blocking(lambda: "notice" in pilot.said(), "the agent got its notice")


def test_an_allocation_without_a_host_ends_after_its_idle_time(tmp_path: Path, pilots: list[Pilot]) -> None:
    pilots.append(Pilot(tmp_path, idle=0.2))
    assert pilots[0].process.wait(20) == 0


def test_an_allocation_waits_for_the_jobs_of_other_groups_as_long_as_they_wait(
    tmp_path: Path, pilots: list[Pilot]
) -> None:
    pilot = Pilot(tmp_path, queue="smx-test:2\nanother\n", idle=1.5, others=["smx-test:1", "smx-test:2"])
    pilots.append(pilot)
    with pytest.raises(subprocess.TimeoutExpired):
        pilot.process.wait(6)
    assert "--states=PENDING,CONFIGURING" in (tmp_path / "squeue.log").read_text()
    (tmp_path / "queue").write_text("another\n")
    assert pilot.process.wait(20) == 0
    assert "ends: no host was launched" in (tmp_path / "pilot.log").read_text()


def test_a_scheduler_that_does_not_answer_is_no_reason_to_end(tmp_path: Path, pilots: list[Pilot]) -> None:
    pilot = Pilot(tmp_path, idle=1.5, others=["smx-test:1"])
    pilots.append(pilot)
    (tmp_path / "queue").unlink()
    with pytest.raises(subprocess.TimeoutExpired):
        pilot.process.wait(5)


def test_a_pilot_asks_no_more_once_its_hosts_run(tmp_path: Path, pilots: list[Pilot]) -> None:
    pilot = Pilot(tmp_path, idle=0.6, others=["smx-test:1"])
    pilots.append(pilot)
    pilot.until_it_listens()
    pilot.start_agent()
    with pytest.raises(subprocess.TimeoutExpired):
        pilot.process.wait(3)
    assert len((tmp_path / "squeue.log").read_text().splitlines()) <= 1 + 3


class Queue:
    """A scheduler that lists ``smx-test:1`` as waiting and counts questions; time passes when a test says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0.0
        self.answer: list[str] | None = ["smx-test:1"]
        self.questions = 0

    def ask(self) -> list[str] | None:
        self.questions += 1
        return self.answer

    def wait(self, job: int, behind: float = 0.0) -> allocation.GroupWait:
        """Give the wait of a pilot, on a node whose clock is behind that of the others."""
        jobs = allocation.WaitingJobs(os.fspath(self.path), self.ask, lambda: 10_000.0 + self.now - behind)
        plan = {"job": str(job), "idle": IDLE, "others": ["smx-test:1"]}
        return allocation.GroupWait(plan, jobs, lambda: self.now)

    def pass_time(self, waits: list[allocation.GroupWait], seconds: int) -> list[float]:
        """Let time pass; give the extensions of each wait, in turns."""
        found = []
        for _ in range(seconds):
            self.now += 1.0
            found += [extension for wait in waits if (extension := wait.extension())]
        return found


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(Path(allocation.queue_path(os.fspath(tmp_path / "home"), {"SLURM_CLUSTER_NAME": "alps"})))


def test_clusters_with_one_home_have_answers_of_their_own(queue: Queue) -> None:
    other = allocation.queue_path(os.fspath(queue.path.parent), {"SLURM_CLUSTER_NAME": "jura"})
    assert other not in (os.fspath(queue.path), allocation.queue_path(os.fspath(queue.path.parent), {}))


def test_pilots_with_one_home_ask_as_one_does(queue: Queue) -> None:
    waits = [queue.wait(100 + number) for number in range(100)]
    extensions = queue.pass_time(waits, 3_600)
    assert queue.questions <= 3_600 / (IDLE / 3) + 1
    assert IDLE <= min(extensions) <= max(extensions) <= IDLE / 3 * 4
    assert len(extensions) >= 100 * (3_600 // (IDLE / 3 + 1) - 1), "each of them waits on"
    assert queue.path.stat().st_mode & 0o777 == 0o600


def test_a_wait_ends_with_an_answer_that_has_no_job_of_another_group(queue: Queue) -> None:
    wait = queue.wait(100)
    assert queue.pass_time([wait], 150)
    queue.answer = ["another"]
    assert queue.pass_time([wait], 600) == []
    assert wait.timeout() == 60.0, "it asks no more"


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"at": "x", "names": []}', '{"at": 99999, "names": []}', None])
def test_an_answer_that_cannot_be_read_or_written_is_no_reason_to_end(queue: Queue, text: str | None) -> None:
    if text is None:
        queue.path.parent.write_text("a file where the folder should be")
    else:
        queue.path.parent.mkdir()
        queue.path.write_text(text)
    assert queue.pass_time([queue.wait(100)], 80)
    assert queue.questions == 1


def test_a_node_whose_clock_is_behind_asks_for_itself(queue: Queue) -> None:
    waits = [queue.wait(100), queue.wait(101, behind=300.0)]
    assert len(queue.pass_time(waits, 300)) >= 6
    queue.answer = None
    assert queue.pass_time(waits, 300), "a scheduler that does not answer is no reason to end"


def test_a_pilot_ends_at_once_if_an_older_job_has_its_name(tmp_path: Path, pilots: list[Pilot]) -> None:
    pilots.append(Pilot(tmp_path, queue="1000\n999\n", job="1000"))
    assert pilots[0].process.wait(20) == allocation.EXIT_OLDER_JOB
    assert not (tmp_path / "srun.log").exists()


def test_a_pilot_of_a_job_that_is_requeued_ends_at_once(
    tmp_path: Path, pilots: list[Pilot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    pilots.append(Pilot(tmp_path))
    assert pilots[0].process.wait(20) == allocation.EXIT_REQUEUED
    assert not (tmp_path / "srun.log").exists()


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, pilots: list[Pilot]) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts").chmod(0o777)
    pilots.append(Pilot(tmp_path))
    assert pilots[0].process.wait(20) == allocation.EXIT_FOLDER
    assert "another user can write into it" in (tmp_path / "pilot.log").read_text()


def _agents(pilot: Pilot) -> list[int]:
    marked = [seen.pid for seen in process_scan.processes("MARK=f00d/algo-1")]
    return [pid for pid in marked if Path(f"/proc/{pid}/cwd").readlink() == pilot.folder]
