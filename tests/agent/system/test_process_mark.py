"""The limit that marks the processes of a host: each inherits it, and no two hosts have the same one."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.processes import process_mark

if TYPE_CHECKING:
    from pathlib import Path

MARK, OTHER = "0a1b2c3d4e5f/algo-1", "0a1b2c3d4e5f/algo-2"
PARENT = f"""
import os, subprocess
from jupyter_smx.agent.system.processes import process_mark

process_mark.apply({MARK!r})
child = subprocess.Popen(["/bin/sh", "-c", "echo; read _"], env={{}}, start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the limit")
def test_a_child_with_an_empty_environment_in_a_session_of_its_own_has_the_limit(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=pipe, stdout=pipe, cwd=tmp_path) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        words = (parent.stdout.readline() + parent.stdout.readline()).split()
        pids = (parent.pid, int(words[0]))
        assert [process_mark.has_limit(pid, {process_mark.limit_of(MARK)}) for pid in pids] == [True, True]
        assert not process_mark.has_limit(pids[1], {process_mark.limit_of(OTHER)})
        parent.stdin.close()
    assert not process_mark.has_limit(pids[1], {process_mark.limit_of(MARK)}), "a process that is gone has none"


def test_the_limits_of_hosts_differ_and_none_is_low_enough_to_limit_anything() -> None:
    limits = {process_mark.limit_of(f"{cluster:012x}/algo-{host}") for cluster in range(500) for host in (1, 2)}
    assert len(limits) == 1_000
    assert all(1 << 61 <= limit < 1 << 62 for limit in limits)


def test_where_the_system_refuses_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_number: int, _limits: tuple[int, int]) -> None:
        raise ValueError

    monkeypatch.setattr(resource, "setrlimit", refuse)
    process_mark.apply(MARK)
