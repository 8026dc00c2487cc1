"""Makes a test world and takes it away: ``python tests/worlds/ssh up FOLDER``, ``… down FOLDER``.

``python tests/worlds/ssh cut FOLDER one`` calls the method ``cut`` of machine one, and likewise others.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[0] = os.fspath(Path(__file__).parents[2])  # the folder of this file has modules with names of packages

from worlds.ssh.ssh_world import SshWorld, remove  # noqa: E402 - found by the line above

_METHODS = (
    *("cut", "restore", "kill", "start", "stop_sshd", "start_sshd", "fill_disk", "free_disk"),
    *("change_host_key", "hide_python", "show_python", "require_code", "set_sshd", "wipe"),
)
_USAGE = f"""\
usage: python tests/worlds/ssh up FOLDER
       python tests/worlds/ssh down FOLDER
       python tests/worlds/ssh METHOD FOLDER MACHINE
METHOD: {", ".join(_METHODS)}
"""
_UP = """\
{config}
Use it:   ssh -F {config} {alias} hostname
          PATH={bin}:$PATH   # then `ssh {alias}` needs no file, and its messages are those of a real network
Machines: {machines}
Break it: python tests/worlds/ssh cut {folder} one; python tests/worlds/ssh restore {folder} one
End it:   python tests/worlds/ssh down {folder}
"""


def main(words: list[str]) -> int:
    """Do what the words say; print how to go on."""
    match words:
        case ["up", folder]:
            up(Path(folder))
        case ["down", folder]:
            remove(Path(folder))
        case [method, folder, machine] if method in _METHODS:
            getattr(SshWorld.attach(Path(folder))[machine], method)()
        case _:
            sys.stderr.write(_USAGE)
            return 2
    return 0


def up(folder: Path) -> None:
    """Make a world that stays until it is taken away; one that is there is taken away first."""
    remove(folder)
    world = SshWorld.create(folder, tied=False)
    machines = ", ".join(f"{machine.alias} ({machine.address})" for machine in world.machines)
    sys.stdout.write(
        _UP.format(config=world.config_file, bin=world.bin, alias="smx-one", folder=folder, machines=machines)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
