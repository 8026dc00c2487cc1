"""What few jobs need is loaded after a zygote is ready, and never from the files of a user's."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from source_archives import packed

from jupyter_smx.agent import startup
from jupyter_smx.agent.forkserver import job_modules
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

LOADED = "import sys, jupyter_smx.agent.forkserver.zygote; print(' '.join(sys.modules))"
NEEDED_LATER = {"csv", "platform", "subprocess", "tarfile", "hashlib", "tempfile"}
"""Modules of Python that a zygote does not need to be ready."""


def test_a_zygote_loads_nothing_at_its_start_that_few_jobs_need() -> None:
    words = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {LOADED}"]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert not loaded & {*job_modules.NAMES, *NEEDED_LATER}


def test_an_agent_loads_neither_its_host_nor_jobs_before_its_first_zygote_starts() -> None:
    code = LOADED.replace("forkserver.zygote", "startup")
    words = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    late = {
        f"jupyter_smx.agent.{name}" for name in ("host.host", "job.job", "controller_connection", "forkserver.pool")
    }
    assert not loaded & {*late, *NEEDED_LATER}


def test_a_host_accepts_controllers_before_it_loads_what_only_jobs_need() -> None:
    code = LOADED.replace("forkserver.zygote", "startup, jupyter_smx.agent.controller_connection")
    words = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    late = {*startup.LATER, *startup.AFTER_START}
    assert not loaded & late


def test_a_host_loads_for_its_first_job_nothing_that_only_inputs_and_ends_need() -> None:
    code = LOADED.replace("forkserver.zygote", "startup, jupyter_smx.agent.job.job")
    words = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert not loaded & {*startup.AFTER_START}


def test_a_zygote_loads_them_for_the_jobs_to_come_even_if_it_is_never_idle(agent: Agent) -> None:
    print_loaded = f"import sys; print(not {NEEDED_LATER!r} - set(sys.modules))"
    eventually_blocking(lambda: agent.run(print_loaded)["text"] == "True\n")


def test_the_first_job_loads_them_before_it_can_find_files_of_the_users(
    start_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    """A new interpreter needs ``tempfile``, whose name a file of this job has."""
    script = "import os; print(os.environ['PYTHONHASHSEED'])"
    source = packed(tmp_path, {"train.py": script, "tempfile.py": "raise ValueError('of the user')\n"})
    fields = {"source_dir": source, "entry_point": "train.py", "environment": {"PYTHONHASHSEED": "7"}}
    record = start_agent().run(script, **fields)
    assert (record["exit_code"], record["text"]) == (0, "7\n"), record


IN_CHILD = """
import socket, sys
from types import SimpleNamespace
sys.path[:0] = [{folder!r}]
from jupyter_smx.agent.forkserver import job_modules
ours, theirs = socket.socketpair()
before = list(sys.path)
{call}
assert sys.path == before
print(len(job_modules._loaded) == len(job_modules.NAMES))
"""
WAITS = "job_modules.load_while_waiting(ours)"
BEGINS = "job_modules.load_for_job({'spec': {'source_dir': 'a'}}, SimpleNamespace(image_files=False))"


def run_in_child(folder: Path, call: str, before: str = "") -> str:
    code = f"import sys; sys.path[:0] = {sys.path!r}\n{IN_CHILD.format(folder=str(folder), call=before + call)}"
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("call", [WAITS, BEGINS])
def test_a_child_loads_them_without_the_files_of_the_job_that_runs_meanwhile(tmp_path: Path, call: str) -> None:
    for name in NEEDED_LATER - {"subprocess"}:
        (tmp_path / f"{name}.py").write_text("print('of another job')\n")
    assert run_in_child(tmp_path, call) == "True\n"


@pytest.mark.parametrize("call", [WAITS, BEGINS])
def test_a_child_goes_on_without_a_module_that_raises_anything(tmp_path: Path, call: str) -> None:
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / "tarfile.py").write_text("raise ValueError('broken')\n")
    assert run_in_child(tmp_path, call, f"before[1:1] = [{str(folder)!r}]; sys.path[:] = before\n") == "False\n"
