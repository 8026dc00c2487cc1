"""A test that neither ends nor lets itself be interrupted costs a run one worker, not the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HANGS_ONCE = """
import pathlib
import threading

import pytest

FIRST = pathlib.Path(__file__).with_name("first")

@pytest.mark.timeout(0.5)
def test_hangs_once():
    if not FIRST.exists():
        FIRST.touch()
        try:
            threading.Event().wait()
        finally:
            threading.Event().wait()

def test_behind_it():
    assert FIRST.exists()
"""
CONFTEST = """
from plugins import second_chances
from plugins.second_chances import pytest_handlecrashitem, pytest_runtest_protocol, pytest_sessionstart

second_chances._TEARDOWN_SECONDS = 0.5
"""
PLUGINS = ("xdist.plugin", "pytest_timeout", "pytest_rerunfailures")
"""The plugins that matter. Three processes of the run would load all others of this environment, too."""


@pytest.mark.processes
def test_a_test_that_does_not_end_runs_again_in_another_worker_and_its_stacks_are_shown(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parents[1]}\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(HANGS_ONCE, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-n", "1", "--dist", "loadfile", "--reruns", "1", "-raR", "."]
    words += [word for plugin in PLUGINS for word in ("-p", plugin)]
    variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stdout
    assert "2 passed, 1 rerun" in run.stdout
    assert "test_hangs_once does not end" in run.stderr
    assert "in test_hangs_once" in run.stderr
