"""Run Slurm's programs on the login machine, and turn their failures into errors of an engine."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.engines.slurm import commands, parsers, reasons
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.engines.remote.machine import Completed
    from jupyter_smx.engines.slurm.login import LoginMachine
    from jupyter_smx.engines.slurm.submission import BatchJob

_FACTS = 'echo "facts=$(id -u)|$(command -v sbatch)|$(sbatch --version 2>/dev/null)"'
_FACT_LINE = re.compile(r"^facts=([0-9]+)\|([^|\n]*)\|(.*)$", re.MULTILINE)


class HeterogeneousJobError(RefusedError):
    """The site takes no heterogeneous job."""


class LoginFacts(Struct, frozen=True):
    """The user's number, the folder of Slurm's programs, and their version on the login machine."""

    uid: int
    programs: str
    version: str


class SlurmClient:
    """Calls Slurm's programs; ``timeout`` is seconds for each call."""

    def __init__(self, login: LoginMachine, timeout: float) -> None:
        self.login = login
        self._timeout = timeout
        self._facts: LoginFacts | None = None
        self._kill_wait: float | None = None
        self._has_configuration = False
        self._configuration_lock = asyncio.Lock()
        """Lets the hosts of one launch share an answer."""

    async def facts(self) -> LoginFacts:
        """Ask once for the facts of the login machine.

        :raises RefusedError: it has no sbatch.
        :raises UnavailableError: it cannot be reached, or its shell gives no answer.
        """
        if self._facts is None:
            done = await self._run(_FACTS)
            line = _FACT_LINE.search(done.output.decode(errors="replace"))
            if line is None:
                raise reasons.ask_error("sh", done)
            uid, program, version = line.groups()
            if not program:
                raise RefusedError(
                    f"--engine: {self.login.name} has no sbatch.",
                    field="engine",
                    value="slurm",
                    rule="Slurm's programs run on the login machine.",
                    cure="Set c.SlurmEngine.programs to their folder, or c.SlurmEngine.login to a login node.",
                )
            self._facts = LoginFacts(int(uid), program.rpartition("/")[0] or "/", version.strip())
        return self._facts

    def cached_facts(self) -> LoginFacts:
        """Return the facts of the login machine; :meth:`facts` was called before."""
        if self._facts is None:
            raise RuntimeError("facts() was not called before cached_facts()")
        return self._facts

    async def submit(self, submission: BatchJob, script: str) -> str:
        """Submit a job, and return its id.

        :raises HeterogeneousJobError: the site takes no job with several components.
        :raises RefusedError: Slurm accepts no such job; its message has the reason.
        :raises NoAnswerError: it gave no answer, and may have accepted the job.
        :raises UnavailableError: it accepts no job now.
        """
        done = await self._run(commands.submit(submission), script.encode())
        job = parsers.parse_submission(done.output.decode(errors="replace"))
        if done.code == 0 and job:
            return job
        if done.code and len(submission.groups) > 1 and reasons.forbids_heterogeneous(done.errors):
            raise HeterogeneousJobError(str(reasons.submit_error(done)))
        is_about_account = re.search("[Aa]ccount", done.errors) is not None
        raise reasons.submit_error(done, await self._accounts() if is_about_account else ())

    async def queue(self) -> str:
        """List the jobs of the user.

        :raises UnavailableError: Slurm does not answer.
        """
        return await self._ask("squeue", commands.queue())

    async def partitions(self) -> list[parsers.PartitionRow]:
        """List the partitions.

        :raises UnavailableError: Slurm does not answer.
        """
        return parsers.parse_partitions(await self._ask("sinfo", commands.partitions()))

    async def site(self, known: parsers.Site) -> parsers.Site:
        """Show accounts, QOS, features and reservations; parts whose command failed are those of ``known``.

        :raises UnavailableError: the login machine does not answer.
        """
        done = await self._run(commands.site())
        return parsers.parse_site(done.output.decode(errors="replace"), known)

    async def node_addresses(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return the addresses of nodes, as far as Slurm and the login machine have them.

        :raises UnavailableError: the login machine does not answer.
        """
        done = await self._run(commands.node_addresses(nodes))
        return parsers.parse_addresses(done.output.decode(errors="replace"))

    async def kill_wait(self) -> float | None:
        """Return the seconds between SIGTERM and SIGKILL at the end of a job; None if its configuration has none.

        :raises UnavailableError: Slurm does not answer.
        """
        async with self._configuration_lock:
            if not self._has_configuration:
                self._kill_wait = parsers.parse_kill_wait(await self._ask("scontrol", commands.configuration()))
                self._has_configuration = True
        return self._kill_wait

    async def describe(self, job: str) -> dict[str, str]:
        """Return what Slurm shows of a job; empty if it has forgotten the job.

        :raises UnavailableError: Slurm does not answer.
        """
        done = await self._run(commands.describe_job(job))
        if done.code and "Invalid job id" in done.errors:
            return {}
        if done.code:
            raise reasons.ask_error("scontrol", done)
        lines = done.output.decode(errors="replace").strip().splitlines()
        return parsers.parse_record(lines[0]) if lines else {}

    async def read_accounting(self, job: str) -> parsers.AccountingRow | None:
        """Return what the accounting has of a job, whose state may be ``CANCELLED by 1000``; None where there is none.

        :raises UnavailableError: the login machine does not answer.
        """
        done = await self._run(commands.account_job(job))
        return parsers.parse_accounting(done.output.decode(errors="replace")) if done.code == 0 else None

    async def cancel(self, jobs: Sequence[str], *, force: bool = False) -> None:
        """Cancel jobs; those that have ended are no error.

        :raises UnavailableError: Slurm does not answer.
        """
        done = await self._run(commands.cancel_by_force(jobs) if force else commands.cancel(jobs))
        if done.code and not re.search("Invalid job id|already completing or completed", done.errors):
            raise reasons.ask_error("scancel", done)

    async def _accounts(self) -> list[str]:
        """List the accounts of the user for a message; none where there is no database."""
        with suppress(UnavailableError, RefusedError):  # the refusal of the job counts more
            done = await self._run(commands.accounts())
            return parsers.parse_accounts(done.output.decode(errors="replace")) if done.code == 0 else []
        return []

    async def _ask(self, program: str, command: str) -> str:
        done = await self._run(command)
        if done.code:
            raise reasons.ask_error(program, done)
        return done.output.decode(errors="replace")

    async def _run(self, command: str, data: bytes = b"") -> Completed:
        return await self.login.run(command, data, self._timeout)
