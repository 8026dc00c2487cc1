"""What is listed of jobs in a terminal, with a real controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Terminal


def test_a_list_looks_at_the_status_before_it_counts(terminal: Terminal) -> None:
    fails = terminal.script("fails.py", "raise SystemExit(3)\n")
    assert terminal.run("run", fails, "-k", "10m", "--name", "older").returncode == 3
    assert terminal.run("run", "hello.py", "-k", "10m", "--name", "newer").returncode == 0
    (listed,) = terminal.document("jobs", "--status", "Failed", "--limit", "1")["jobs"]
    assert listed["base_name"] == "older"
    (newest,) = terminal.document("jobs", "--limit", "1")["jobs"]
    assert newest["base_name"] == "newer"
