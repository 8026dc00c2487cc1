"""What is thrown away in time, and what never is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.controller.retention import prune_hosts, rotate_log

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO, NOW = 1_000_000_000.0, 2_000_000_000.0


def hosts(clusters: Path, name: str, changed: float) -> Path:
    """Make the folder of a cluster in which everything changed at that moment."""
    spool = clusters / name / "algo-1" / "spool"
    spool.mkdir(parents=True)
    (spool / "log").write_text("x")
    for path in (spool / "log", spool, spool.parent, clusters / name):
        os.utime(path, (changed, changed))
    return clusters / name


def test_only_folders_of_hosts_that_are_long_gone_and_that_nobody_needs_go(tmp_path: Path) -> None:
    gone = hosts(tmp_path, "gone", LONG_AGO)
    needed = hosts(tmp_path, "needed", LONG_AGO)
    young = hosts(tmp_path, "young", NOW)
    stirs = hosts(tmp_path, "stirs", LONG_AGO)
    os.utime(stirs / "algo-1" / "spool", (NOW, NOW))
    (tmp_path / "a-file").touch()
    elsewhere = tmp_path.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    (tmp_path / "link").symlink_to(elsewhere)
    assert prune_hosts(tmp_path, {"needed"}, NOW - 1) == ["gone"]
    assert not gone.exists()
    assert needed.exists()
    assert young.exists()
    assert stirs.exists()
    assert elsewhere.exists()
    assert prune_hosts(tmp_path / "none", (), NOW) == []


@pytest.mark.parametrize("size", [0, 100, 101])
def test_a_long_log_is_put_aside_and_whoever_writes_goes_on(tmp_path: Path, size: int) -> None:
    log = tmp_path / "controller.log"
    writer = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(writer, b"x" * size)
    assert rotate_log(log, 100) is (size > 100)
    os.write(writer, b"next")
    os.close(writer)
    assert log.read_bytes() == (b"next" if size > 100 else b"x" * size + b"next")
    assert (tmp_path / "controller.log.1").exists() is (size > 100)
    assert not rotate_log(tmp_path / "none", 0)
