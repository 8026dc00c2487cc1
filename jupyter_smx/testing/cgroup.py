"""A control group with little memory, for tests of what happens when it is full."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNT = Path("/sys/fs/cgroup")


def processes(group: Path) -> set[int]:
    """Read which processes are in a group."""
    return {int(line) for line in (group / "cgroup.procs").read_text().split()}


@contextlib.contextmanager
def bounded_group(limit: int) -> Iterator[Path]:
    """Make a group whose processes have ``limit`` bytes together and no swap; skip the test if that fails."""
    version_2 = (_MOUNT / "cgroup.controllers").exists()
    group = (_MOUNT if version_2 else _MOUNT / "memory") / f"smx-test-{secrets.token_hex(4)}"
    rules = {"memory.max": limit, "memory.swap.max": 0} if version_2 else {"memory.limit_in_bytes": limit}
    try:
        group.mkdir()
        for name, value in rules.items():
            (group / name).write_text(str(value))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group with a limit on memory can be made here: {error}")
    yield group
    eventually_blocking(lambda: not processes(group), "nobody is in the group")
    group.rmdir()
