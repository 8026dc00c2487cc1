"""A login machine with a scheduler in memory: it takes the engine's lines, and answers as Slurm's programs do."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.agent.remote import commands as verbs
from jupyter_smx.agent.remote.cluster_store import ClusterStore
from jupyter_smx.engines.remote.machine import Completed, NoAnswerError
from jupyter_smx.engines.slurm import commands
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

FACTS = b"facts=1000|/usr/bin/sbatch|slurm-wlm 22.05.8\n"
PARTITIONS = b"main*|1-00:00:00|16|64000|(null)|3|up\n"
END = 1_700_000_000
NO_HETEROGENEOUS = "sbatch: error: Batch job submission failed: Requested operation not supported on this system"


class FakeJob(Struct):
    """A job, with the words and the script of its submission."""

    id: int
    name: str
    words: list[str]
    script: str
    nodes: int
    state: str = "PENDING"
    reason: str = "Resources"


class FakeSlurm:
    """Starts jobs as soon as the test says ``starts``; ``is_away`` lets every program give no answer."""

    name = "fake login"

    def __init__(self) -> None:
        self.jobs: list[FakeJob] = []
        self.calls: Counter[str] = Counter()
        self.starts = True
        self.is_away = False
        self.arrival: asyncio.Event | None = None
        """Event before which no answer arrives; each describes the jobs as they were when the program began."""
        self.exit_code = 1
        """Exit code of all jobs."""
        self.lists_jobs = True
        """False: ``squeue`` lists no job, as where a partition is hidden from the user."""
        self.has_connection = True
        self.loses_next_answer = False
        self.refusal = ""
        self.takes_heterogeneous = True
        """False: as where the scheduler has no backfill."""
        self.refused_submission = 0
        """Number of the submission that is refused, counted from 1; 0 refuses none."""
        self.full_for = ""
        """Jobs whose name ends so stay in the queue."""
        self.usual_reason = "Resources"
        self.cancelled_state = "CANCELLED"
        """State of a job after ``scancel``; it may take long to end."""
        self.accounting = ""
        """State of a job by its accounting, "" where there is none."""
        self.addresses = "n1 10.1.0.1\nn2 10.1.0.2\nn3 10.1.0.3\n"
        self.descriptions: dict[str, dict[str, Any]] = {}
        """Description of each launched host."""
        self.launched: list[tuple[str, str]] = []
        """Cluster and host of each launch."""
        self.released: list[str] = []
        self.released_on: list[str] = []
        """Node of each release."""
        self.no_launch_on = ""
        """Node on which a launch gives no answer."""
        self.lost_launches = 0
        """Launches that give no answer, before those that do."""
        self.home = ""
        """Folder of the account in the home of the login machine, where verbs are carried out."""
        self.before_submission: Callable[[], None] = lambda: None

    # What the engine uses

    async def run(self, command: str, data: bytes = b"", timeout: float = 20.0) -> Completed:
        """Run a line."""
        del timeout
        await asyncio.sleep(0)
        program = next(word for word in re.split(r"[\s;]+", command) if "=" not in word)
        self.calls[program] += 1
        if self.is_away:
            raise NoAnswerError(f"{program} gave no answer.", transient=True)
        done: Completed = getattr(self, f"_{program}")(command, data)
        if self.arrival is not None:
            await self.arrival.wait()
        return done

    def open(self, command: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Refuse: no test uses it."""
        raise AssertionError(command)

    async def connect(self, socket: str) -> Streams:
        """Connect to nothing."""
        raise UnavailableError(socket, transient=True)

    async def relay(self, command: str, plain_command: str) -> Streams:
        """Connect to nothing."""
        del plain_command
        self.calls["relay"] += 1
        raise UnavailableError(command, transient=True)

    def shell_words(self, command: str) -> list[str]:
        """Run it here."""
        return ["sh", "-c", command]

    async def is_connected(self) -> bool:
        """Return what the test sets."""
        return self.has_connection

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    # Slurm's programs

    def _echo(self, _command: str, _data: bytes) -> Completed:
        return Completed(0, FACTS, "")

    def _exec(self, command: str, data: bytes) -> Completed:
        verb = re.search(r"remote (\w+) ", command)
        assert verb is not None, command
        answer = verbs.answer(ClusterStore(self.home), verb[1], json.loads(data))
        return Completed(0, json.dumps(answer).encode() + b"\n", "")

    def _sinfo(self, _command: str, _data: bytes) -> Completed:
        return Completed(0, PARTITIONS, "")

    def _sbatch(self, command: str, data: bytes) -> Completed:
        if self.refusal:
            return Completed(1, b"", f"sbatch: error: Batch job submission failed: {self.refusal}")
        words = shlex.split(command)
        if ":" in words and not self.takes_heterogeneous:
            return Completed(1, b"", NO_HETEROGENEOUS)
        if len(self.jobs) + 1 == self.refused_submission:
            return Completed(1, b"", "sbatch: error: Batch job submission failed: Invalid partition name specified")
        self.before_submission()
        name = next(word.partition("=")[2] for word in words if word.startswith("--job-name="))
        nodes = sum(int(word.partition("=")[2]) for word in words if word.startswith("--nodes="))
        self.jobs.append(FakeJob(len(self.jobs) + 11, name, words, data.decode(), nodes, reason=self.usual_reason))
        if self.loses_next_answer:
            self.loses_next_answer = False
            raise NoAnswerError("sbatch gave no answer.", transient=True)
        return Completed(0, f"{self.jobs[-1].id}\n".encode(), "")

    def _squeue(self, _command: str, _data: bytes) -> Completed:
        for job in self.jobs:
            is_full = bool(self.full_for) and job.name.endswith(self.full_for)
            if self.starts and not is_full and job.state == "PENDING":
                job.state, job.reason = "RUNNING", "None"
        return Completed(0, "".join(self._row(job) for job in self.jobs if self.lists_jobs).encode(), "")

    def _row(self, job: FakeJob) -> str:
        before = sum(
            other.nodes
            for other in self.jobs
            if other.id < job.id and ":" in job.name and other.name.partition(":")[0] == job.name.partition(":")[0]
        )
        nodes = f"n[{before + 1}-{before + job.nodes}]" if job.state == "RUNNING" else ""
        return f"{job.id}|{job.name}|{job.state}|N/A|{END}|{nodes}|main|{job.reason}\n"

    def _scontrol(self, command: str, _data: bytes) -> Completed:
        if command == commands.configuration():
            return Completed(0, b"KillOnBadExit           = 0\nKillWait                = 30 sec\n", "")
        if "show node" in command:
            return Completed(0, self.addresses.encode(), "")
        found = [job for job in self.jobs if str(job.id) == shlex.split(command)[-1]]
        return Completed(0, f"JobId={found[0].id} JobState={found[0].state} ExitCode={self.exit_code}:0\n".encode(), "")

    def _sacct(self, _command: str, _data: bytes) -> Completed:
        if not self.accounting:
            return Completed(1, b"", "Slurm accounting storage is disabled")
        rows = (f"11|{self.accounting}|120|01:30.500||2", f"11.batch|{self.accounting}|120|00:00.500|2048K|1")
        return Completed(0, "\n".join(rows).encode(), "")

    def _sacctmgr(self, _command: str, _data: bytes) -> Completed:
        return Completed(1, b"", "You are not running a supported accounting_storage plugin")

    def _scancel(self, command: str, _data: bytes) -> Completed:
        ids = [word for word in shlex.split(command) if word.isdigit()]
        for job in self.jobs:
            if str(job.id) in ids and job.state in ("PENDING", "RUNNING"):
                job.state = self.cancelled_state
        ended = [job for job in self.jobs if str(job.id) in ids and job.state not in ("PENDING", "RUNNING")]
        if "--signal=KILL" not in command or not ended:
            return Completed(0, b"", "")
        told = "" if "--quiet" in command else f"Kill job error on job id {ended[0].id}: Invalid job id specified"
        return Completed(1, b"", told and f"scancel: error: {told}")

    def _srun(self, command: str, data: bytes) -> Completed:
        words = shlex.split(command)
        verb = re.search(r"remote (\w+) ", words[-1])
        assert verb is not None, command
        asked: dict[str, Any] = json.loads(data)
        node = next(word.partition("=")[2] for word in words if word.startswith("--nodelist="))
        return Completed(0, json.dumps({"answer": self._answer(verb[1], asked, node)}).encode() + b"\n", "")

    def _answer(self, verb: str, asked: dict[str, Any], node: str) -> dict[str, Any]:
        if verb == "launch" and node == self.no_launch_on:
            raise NoAnswerError(f"{node} gave no answer.", transient=True)
        if verb == "launch" and self.lost_launches:
            self.lost_launches -= 1
            raise NoAnswerError(f"{node} gave no answer.", transient=True)
        if verb == "launch":
            self.launched.append((asked["cluster"], asked["host"]))
            self.descriptions[asked["host"]] = asked["description"]
            return {"pid": 7, "start_time": 8, "boot_id": node, "socket": f"/tmp/{asked['host']}.sock"}  # noqa: S108
        if verb == "release":
            self.released.append(asked["cluster"])
            self.released_on.append(node)
            return {"left": []}
        assert verb == "facts", verb
        return {"address": f"10.0.0.{node[1:]}"}
