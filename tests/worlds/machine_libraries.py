"""Packages of an interpreter of this machine for machines of the test world, whose disks have none."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worlds.ssh.machine import Machine

_MOUNT = Path(__file__).parent / "ssh" / "namespace_mount.py"


@contextmanager
def packages_on(machines: Sequence[Machine], python: str, package: str) -> Iterator[list[Machine]]:
    """Show the packages of ``python``, where ``package`` is, to the first two machines with the same version of Python.

    Their own Python imports them from a folder of this machine's disk.
    """
    words = [python, "-c", f"import sys, {package} as it; print(it.__path__[0], '%d.%d' % sys.version_info[:2])"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    source, version = Path(said[0]).parent, said[1]
    found = [machine for machine in machines if machine.plan.version == version][:2]
    assert len(found) == 2, f"no two machines have the Python {version}"
    folder = f"/opt/{package}"
    for machine in found:
        (machine.root / folder[1:]).mkdir(exist_ok=True)
        subprocess.run([sys.executable, _MOUNT, source, str(machine.pid), folder], check=True)
        _site_packages(machine, version).joinpath(f"{package}.pth").write_text(f"{folder}\n", encoding="utf-8")
    try:
        yield found
    finally:
        for machine in found:
            _site_packages(machine, version).joinpath(f"{package}.pth").unlink()
            machine.run(f"umount -l {folder}", root=True)


def _site_packages(machine: Machine, version: str) -> Path:
    return machine.root / f"opt/python/lib/python{version}/site-packages"
