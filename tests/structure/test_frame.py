"""The files around the package: workflow, hooks, bytecode of tests, commit subjects."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FIRST = "5b91c979b20c47d43136f6d82b928403a31b5ae6"
"""The commit after which subjects are checked."""
SUBJECT = re.compile(r"[a-z][a-z0-9 _./-]*: \S.*")
MAX_LENGTH = 72


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_workflow_runs_what_ci_runs_and_checks_every_python() -> None:
    jobs = load(".github/workflows/ci.yml")["jobs"]
    commands = [step.get("run", "") for step in jobs["all"]["steps"]]
    assert any(command.endswith("bash .ci/run") for command in commands)
    assert any(step.get("with", {}).get("fetch-depth") == 0 for step in jobs["all"]["steps"])
    supported = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {*jobs["quick"]["strategy"]["matrix"]["python"], "3.11"} == set(supported)


def test_a_commit_runs_the_steps_of_make_check() -> None:
    hooks = [hook for repo in load(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    targets = {target for hook in hooks for target in hook["entry"].split()[1:]}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    checks = re.search(r"^CHECKS := (.*)$", makefile, re.MULTILINE)
    assert checks is not None
    assert targets == set(re.findall(r"check-[a-z]+", checks[1]))


@pytest.mark.skipif(sys.pycache_prefix is not None, reason="bytecode is elsewhere")
def test_a_run_writes_bytecode_of_its_tests_and_of_nothing_later(request: pytest.FixtureRequest) -> None:
    if not request.config.pluginmanager.has_plugin("cacheprovider"):
        pytest.skip("The run keeps nothing.")
    here = Path(__file__)
    tag = f"{sys.implementation.cache_tag}-pytest-{pytest.__version__}"
    header = (here.parent / "__pycache__" / f"{here.stem}.{tag}.pyc").read_bytes()[:16]
    by_hash = header[4] & 1  # so does pytest 9.2; others take the time of the source
    time = (int(here.stat().st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
    source = importlib.util.source_hash(here.read_bytes()) if by_hash else time
    assert header[8:].startswith(source), "of the source as it is now"
    assert sys.dont_write_bytecode == bool(sys.flags.dont_write_bytecode)


def git(*arguments: str) -> str:
    command = ["git", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout if result.returncode == 0 else ""


@pytest.mark.processes  # it starts git
def test_commit_subjects_say_area_and_what() -> None:
    if git("cat-file", "-t", FIRST).strip() != "commit":
        pytest.skip(f"The history does not reach back to {FIRST}.")
    subjects = git("log", "--no-merges", "--format=%s", f"{FIRST}..HEAD").splitlines()
    wrong = [subject for subject in subjects if len(subject) > MAX_LENGTH or not SUBJECT.fullmatch(subject)]
    assert not wrong
