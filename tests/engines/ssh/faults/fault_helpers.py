"""What tests of faults share: how a controller loses its connections, and what a job says while it waits."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from world import kill

from jupyter_smx.engines.ssh import commands
from jupyter_smx.engines.ssh.commands import SshOptions

if TYPE_CHECKING:
    from ssh_controller import SshControllerWorld
    from world import Ran
    from worlds.ssh.machine import Machine

    from jupyter_smx.model.records.job import Job

UNREACHABLE = r"Its hosts are not reachable since \d\d:\d\d: "


def remark(job: Job) -> str:
    """Give what the record says of the step that a job is in."""
    return job.transitions[-1].status_message


def waits_for(job: Ran, words: str) -> Job:
    """Wait until a job without hosts says what it waits for, in its row or in its reason."""
    return job.until(lambda seen: words in remark(seen) or (seen.why is not None and words in seen.why.sentence), words)


def is_unreachable(job: Ran, alias: str) -> Job:
    """Wait until a job says since when its machine is silent; its ``why`` says so, too."""
    sentence = f"{UNREACHABLE}.*{alias}"
    seen = job.until(lambda seen: re.match(sentence, remark(seen)), "it says since when")
    assert seen.why is not None
    assert remark(seen) in seen.why.notes
    return seen


def is_reachable_again(job: Ran) -> None:
    """Wait until a job says nothing of that any more."""
    job.until(lambda seen: "reachable" not in remark(seen) + str(seen.why and seen.why.notes), "it is reachable")


def machine_of(world: SshControllerWorld, job: Ran) -> Machine:
    """Find the machine that has the host of a job."""
    cluster = job.job().cluster
    (found,) = [m for m in world.machines if any(path.name == cluster for path in world.clusters_of(m))]
    return found


def control_path(world: SshControllerWorld, machine: Machine) -> Path:
    """Give the control socket of this controller's connection to a machine."""
    options = SshOptions(program=os.fspath(world.world.bin / "ssh"), control_folder=world.controls)
    return commands.control_path(machine.alias, options)


def masters(world: SshControllerWorld, machine: Machine) -> list[int]:
    """Find the process that keeps the connection to a machine, by its command or the title that it takes later."""
    path, found = os.fsencode(control_path(world, machine)), []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            command = file.read_bytes()
            if path in command and any(word in command for word in (b"[mux]", b"\0-N\0-f\0")):
                found.append(int(file.parent.name))
    return found


def break_connection(world: SshControllerWorld, machine: Machine) -> None:
    """Kill the connection to a machine: ssh by itself notices a silent machine after 45 seconds."""
    for pid in masters(world, machine):
        kill(pid)
