"""A loop of operations and faults with a seed; what must hold is checked when the faults are over."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING

import chaos_invariants as invariants
from chaos_namespaces import read_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos_world import ChaosWorld

BODIES = (
    "",
    "time.sleep(0.5)",
    "time.sleep(2)",
    "sys.exit(3)",
    "raise ValueError('on purpose')",
    "print('x' * 100_000)",
    "open(os.environ['SM_MODEL_DIR'] + '/m', 'wb').write(os.urandom(100_000))",
    "os.system('setsid sleep 600 &')",
    "os.system('env -i setsid sleep 600 >/dev/null 2>&1 &')",
)
PAUSE = 0.1
_CHUNK = 1 << 16


class ChaosLoop:
    """Operations and faults, chosen by the seed of the world; each is over before the next begins."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._operations: tuple[tuple[int, Callable[[], None]], ...] = (
            (40, self._submit),
            (8, self._stop),
            (6, self._rerun),
            (8, self._list),
        )
        self._faults: tuple[tuple[int, Callable[[], None]], ...] = (
            (4, self._kill_controller),
            (4, self._kill_agent),
            (4, self._kill_job),
            (2, self._kill_zygote),
            (4, self._freeze),
            (2, self._fill_disk),
            (2, self._make_read_only),
            (1, self._remove_socket),
        )

    def run(self, seconds: float) -> list[str]:
        """Act for so many seconds; give what does not hold then."""
        world, end = self._world, time.monotonic() + seconds
        actions = self._operations + self._faults
        weights = [weight for weight, _ in actions]
        while time.monotonic() < end:
            (chosen,) = world.random.choices(actions, weights)
            with contextlib.suppress(ProcessLookupError):  # what was to be killed had ended
                chosen[1]()
            if chosen in self._faults:
                world.journal.faults[chosen[1].__name__] += 1
            time.sleep(world.random.random() * PAUSE)
        return check(world)

    # Operations

    def _submit(self) -> None:
        keep = self._world.random.choice((0, 20))
        self._world.submit(self._world.random.choice(BODIES), keep_alive=keep)

    def _some_job(self) -> str:
        accepted = [*self._world.journal.accepted][-20:]
        return self._world.random.choice(accepted) if accepted else ""

    def _stop(self) -> None:
        if job := self._some_job():
            self._world.journal.stopped.add(job)
            self._world.call("stop", lambda: self._world.client.stop(job))

    def _rerun(self) -> None:
        if job := self._some_job():
            job_id = self._world.new_id()
            self._world.note(job_id, "", lambda: self._world.client.rerun(job, job_id, time.time()))

    def _list(self) -> None:
        self._world.call("jobs", lambda: self._world.client.jobs(20))
        self._world.call("pools", self._world.client.pools)

    # Faults

    def _kill(self, found: list[int]) -> None:
        if found:
            os.kill(self._world.random.choice(sorted(found)), signal.SIGKILL)

    def _kill_controller(self) -> None:
        self._kill(self._world.controllers())

    def _kill_agent(self) -> None:
        self._kill(self._world.agents())

    def _kill_job(self) -> None:
        self._kill(self._world.marked("smx-job"))

    def _kill_zygote(self) -> None:
        self._kill(self._world.marked("smx-zygote"))

    def _freeze(self) -> None:
        found = [*self._world.controllers(), *self._world.marked()]
        if not found:
            return
        pid = self._world.random.choice(sorted(found))
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(self._world.random.uniform(0.2, 1.5))
        finally:
            os.kill(pid, signal.SIGCONT)

    def _fill_disk(self) -> None:
        ballast = self._world.data.parent / "ballast"
        try:
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(_CHUNK))
            self._act_for(2.0)
        finally:
            ballast.unlink(missing_ok=True)

    def _make_read_only(self) -> None:
        with read_only(self._world.data.parent):
            self._act_for(2.0)

    def _act_for(self, seconds: float) -> None:
        """Submit and list while a fault lasts."""
        end = time.monotonic() + self._world.random.uniform(0.5, seconds)
        while time.monotonic() < end:
            self._world.random.choice((self._submit, self._list))()
            time.sleep(PAUSE)

    def _remove_socket(self) -> None:
        """Remove the socket; a controller that does not bind it again within seconds is killed."""
        path = self._world.client.path
        path.unlink(missing_ok=True)
        end = time.monotonic() + 5.0
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.1)
        if not path.exists():
            self._kill_controller()


def check(world: ChaosWorld) -> list[str]:
    """Wait until everything has come to its end; give what does not hold."""
    jobs = world.wait_until_final()
    completed = [job.id for job in jobs.values() if job.status().value == invariants.COMPLETED]
    logs = {job_id: world.log(job_id) for job_id in completed}
    found = invariants.check_records(world.journal, jobs)
    found += invariants.check_verdicts(world.journal, jobs.values(), world.read_marks(), logs)
    found += invariants.check_refusals(world.journal, jobs)
    found += invariants.check_calls(world.journal)
    found += invariants.check_processes(world.end())
    sys.stdout.write(
        f"{len(jobs)} jobs, {len(completed)} completed; calls {dict(world.journal.calls)}, "
        f"faults {dict(world.journal.faults)}, submissions refused {len(world.journal.refused)}, "
        f"{shutil.disk_usage(world.data.parent).used >> 20} MiB on the disk\n"
    )
    return found
