"""Slurm's programs on the login machine, each behind a script that counts its calls, and may hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worlds.ssh.machine import Machine

FOLDER = "/opt/counted"
"""What ``c.SlurmEngine.programs`` has to be."""
_NAMES = ("sbatch", "squeue", "srun", "scancel", "sinfo", "scontrol", "sacct", "sacctmgr")
_SCRIPT = """\
#!/bin/sh
[ "$1" = --version ] && exec /usr/bin/{name} --version
echo {name} >>{folder}/calls
while [ -e {folder}/hold-{name} ]; do sleep 0.05; done
exec /usr/bin/{name} "$@"
"""


class LoginPrograms:
    """The programs of one login machine."""

    def __init__(self, login: Machine) -> None:
        self.folder = login.root / FOLDER[1:]
        self.folder.mkdir(exist_ok=True)
        for name in _NAMES:
            (self.folder / name).write_text(_SCRIPT.format(name=name, folder=FOLDER))
            (self.folder / name).chmod(0o755)
        (self.folder / "calls").write_text("")
        (self.folder / "calls").chmod(0o666)

    def calls(self) -> list[str]:
        """Name the program of each call."""
        return (self.folder / "calls").read_text().split()

    def hold(self, name: str) -> None:
        """Let calls of a program wait until ``let_go``."""
        (self.folder / f"hold-{name}").touch()

    def let_go(self, name: str) -> None:
        """Let calls of a program go on."""
        (self.folder / f"hold-{name}").unlink(missing_ok=True)
