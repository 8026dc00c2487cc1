"""What the contract needs to see of the machines of the test world: their disks and processes, from this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from remote_harness import RemoteHarness

from jupyter_smx.engines.remote.account import DEFAULT_FOLDER
from jupyter_smx.engines.ssh.engine import SshEngine, control_folder
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worlds.ssh.ssh_world import SshWorld

SLOTS = 8


class SshHarness(RemoteHarness):
    """The engine ``ssh`` with the machines of a test world.

    Tests may share ``folder``: then they also share the master connections, each of which costs a login.
    """

    def __init__(self, folder: Path, world: SshWorld, **traits: object) -> None:
        self.world = world
        machines = {machine.alias: {"slots": SLOTS} for machine in world.machines}
        usual = {"program": os.fspath(world.bin / "ssh"), "connect_timeout": 2.0, "grace": 0.5, "machines": machines}
        super().__init__(folder, **(usual | traits))

    def new_engine(self) -> SshEngine:
        """Make another instance that shares only disks and master connections."""
        return SshEngine(data_dir=os.fspath(self.folder), **self.traits)

    def roots(self) -> list[Path]:
        """Give the default folder of hosts in the account's home on each machine."""
        return [machine.home / DEFAULT_FOLDER.removeprefix("~/") for machine in self.world.machines]

    @contextmanager
    def outage(self) -> Iterator[None]:
        """End each connection, and let no machine accept another one."""
        with ExitStack() as stack:
            for machine in self.world.machines:
                stack.callback(machine.start_sshd)
                machine.stop_sshd(sessions=True)
            yield

    def processes(self) -> list[str]:
        """List what runs of the account on all machines, without the host that tests share."""
        shared = process_scan.cluster_processes(self.shared_handle.cluster) if self.shared_handle else []
        found = [each for machine in self.world.machines for each in machine.processes()]
        return [f"{each.pid} {each.command}" for each in found if each.pid not in {seen.pid for seen in shared}]

    async def close(self) -> None:
        """Release every cluster that is on record, kill what the world forgot, and check that nothing else is left."""
        engine = self.new_engine()
        for cluster in {*engine._register.live()} - {self.shared_handle.cluster if self.shared_handle else ""}:
            await engine.release(Handle(engine=engine.name, cluster=cluster))
        for place in self.folder.glob("forgotten-*"):
            for seen in process_scan.cluster_processes(place.name.removeprefix("forgotten-")):
                process_scan.kill_and_wait(seen.pid)
            place.rename(self.folder / f"ended-{place.name}")
        await eventually(lambda: not self.processes(), "nothing runs on the machines", within=10)

    def end_masters(self) -> None:
        """End the master connections, which outlive the engines that opened them."""
        controls = control_folder(self.folder / "engines" / "ssh")
        for path in controls.glob("????????????"):
            words = ["ssh", "-F", os.devnull, "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(words, capture_output=True, check=False)
        shutil.rmtree(controls, ignore_errors=True)
