"""Code in more than one file, started from a shell."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Terminal

WARM = ("-k", "10m")


@pytest.fixture
def project(warm: Terminal) -> Terminal:
    for name, text in {
        "src/fit.py": "import sys, tools\nprint(tools.NAME, sys.argv[1:])\n",
        "src/tools.py": "NAME = 'tools'\n",
        "alone.py": "import tools\nprint(tools.NAME)\n",
    }.items():
        (warm.folder / name).parent.mkdir(exist_ok=True)
        warm.script(name, text)
    return warm


def test_an_entry_point_of_a_folder_is_run(project: Terminal) -> None:
    done = project.run("run", "--source-dir", "src", "--entry-point", "fit.py", "--hp", "n=3", *WARM)
    assert (done.returncode, done.stdout) == (0, "tools ['-n', '3']\n")
    assert done.stderr.startswith("fit-")  # the job has the script's name


def test_an_unchanged_folder_is_stored_once_for_all_jobs(project: Terminal, tmp_path: Path) -> None:
    shutil.copytree(project.folder / "src", tmp_path / "once")
    (tmp_path / "once" / "only_here.txt").touch()
    before = set(kept_archives(project))
    for _ in range(3):
        done = project.run("run", "--source-dir", str(tmp_path / "once"), "--entry-point", "fit.py", *WARM)
        assert done.returncode == 0, done.stderr
    new = [path.stat() for path in set(kept_archives(project)) - before]
    assert len(new) == 3
    assert len({found.st_ino for found in new}) == 1
    assert {found.st_nlink for found in new} == {4}, "the fourth name is in the folder of payloads"


def kept_archives(project: Terminal) -> list[Path]:
    return [*(project.folder / "smx" / "jobs").glob("*/source.tar.gz")]


def test_a_script_has_the_folder_beside_it(project: Terminal) -> None:
    done = project.run("run", "alone.py", "--source-dir", "src", *WARM)
    assert (done.returncode, done.stdout) == (0, "tools\n")


def test_a_script_that_lies_in_the_folder_only_is_its_entry_point(project: Terminal) -> None:
    done = project.run("run", "fit.py", "--source-dir", "src", *WARM)
    assert (done.returncode, done.stdout) == (0, "tools []\n")


def test_a_program_runs_as_what_it_is(project: Terminal) -> None:
    project.script("train", '#!/bin/bash\necho "words: $*"\nls /proc/$$/exe -l | grep -o bash$\n')
    done = project.run("run", "train", "--hp", "n=3", *WARM)
    assert (done.returncode, done.stdout) == (0, "words: -n 3\nbash\n")
    project.script("train.R", "x <- 1\n")
    refused = project.run("run", "train.R")
    assert refused.returncode == 2
    assert refused.stderr.startswith("SCRIPT: train.R is not Python, by its name.")


def test_a_script_that_misses_its_folder_is_told_the_option(project: Terminal) -> None:
    done = project.run("run", "alone.py", *WARM)
    assert done.returncode == 1
    assert f"tools is in src in {project.folder} but not in the job. Add --source-dir src\n" in done.stderr


def test_a_file_that_gitignore_names_is_missed_by_name_and_sent_by_an_option(project: Terminal) -> None:
    """The case ``gitignored-file``: SageMaker's SDK sends the file."""
    (project.folder / "own").mkdir()
    project.script("own/t.py", 'import json\nprint(json.load(open("config.json")))\n')
    project.script("own/.gitignore", "*.json\n")
    project.script("own/config.json", '{"lr": 0.1}\n')
    words = ("run", "--entry-point", "t.py", "--source-dir", "own")
    missed = project.run(*words, *WARM)
    assert missed.returncode == 1
    where = f"config.json is in {project.folder}/own but was not sent: .gitignore excludes it."
    assert f"{where} Add --source-ignore none\n" in missed.stderr
    sent = project.run(*words, "--source-ignore", "none", *WARM)
    assert (sent.returncode, sent.stdout) == (0, "{'lr': 0.1}\n")


def test_two_scripts_are_one_too_many(project: Terminal) -> None:
    done = project.run("run", "alone.py", "--source-dir", "src", "--entry-point", "fit.py")
    assert done.returncode == 2
    assert done.stderr.startswith("SCRIPT: alone.py cannot be combined with --entry-point fit.py.")


def test_a_script_is_called_as_it_was_typed_whoever_refuses_it(project: Terminal) -> None:
    (project.folder / "kept").mkdir()
    project.script("kept/run.sh", "echo 1\n")
    project.script("kept/.gitignore", "*.sh\n")
    for command, words, said in (
        ("run", ("kept/run.sh", "--receive", "x"), "SCRIPT: kept/run.sh cannot send or receive variables."),
        ("plan", ("kept/run.sh", "--receive", "x"), "SCRIPT: kept/run.sh cannot send or receive variables."),
        ("run", ("kept/run.sh", "--receive", "x", "--hp", "n=[1,2]", "--sweep"), "SCRIPT: kept/run.sh cannot"),
        ("run", ("run.sh", "--source-dir", "kept"), "SCRIPT: run.sh is excluded from the source folder."),
    ):
        done = project.run(command, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(said)


def test_a_plan_packs_nothing(project: Terminal) -> None:
    before = set((project.folder / "smx" / "payloads").glob("*"))
    project.script("src/new.py", "X = 1\n")
    assert project.run("plan", "--source-dir", "src", "--entry-point", "fit.py").returncode == 0
    assert set((project.folder / "smx" / "payloads").glob("*")) == before


def test_a_job_is_exported_from_a_shell(project: Terminal) -> None:
    done = project.run("run", "--source-dir", "src", "--entry-point", "fit.py", "--name", "given", *WARM)
    assert done.returncode == 0
    name = done.stderr.split()[0]
    shown = project.document("export", "given", "out")
    assert shown["folder"] == str(project.folder / "out")
    assert {"code/fit.py", "code/tools.py", "sagemaker_job.py", "README.md"} <= set(shown["files"])
    again = project.run("export", "given", "out")
    assert again.returncode == 2
    assert again.stderr.startswith(f"FOLDER: {project.folder}/out is not empty.")
    assert project.run("export", "given").stdout.startswith(f"{name} is in {project.folder}/{name}: README.md")
