"""Files that a job's code left in its working folder are named at its end, with where to write instead."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from source_archives import packed

from jupyter_smx.agent.job import working_folder
from jupyter_smx.agent.job.working_folder import InitialFiles, UncollectedFiles

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

NO_FILES = InitialFiles("", set(), set())
TRAIN: Any = {"kind": "train", "outputs": []}


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(folder: Path, initial: InitialFiles = NO_FILES, limit: int = 400) -> list[str]:
    return working_folder.search(str(folder), initial, limit).names


def test_files_and_the_outermost_folders_with_files_are_found(tmp_path: Path) -> None:
    write(tmp_path, "metrics.csv", "mlruns/0/x", "mlruns/1/y")
    (tmp_path / "empty/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "metrics.csv")
    assert found(tmp_path) == ["metrics.csv", "mlruns/"]


@pytest.mark.parametrize(
    "name",
    [
        "__pycache__/a.pyc",
        ".ipynb_checkpoints/a.ipynb",
        "deep/__pycache__/a.pyc",
        ".#lock",
        "model.egg-info/PKG-INFO",
        "build/lib/a.py",
    ],
)
def test_caches_are_not_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    assert found(tmp_path) == []


def test_files_of_the_tool_and_of_the_user_are_not_named_unless_the_code_has_changed_them(tmp_path: Path) -> None:
    tree, folder = tmp_path / "tree", tmp_path / "code"
    for place in (tree, folder):
        write(place, "train.py", "data/old.csv", "package/a.py")
    write(folder, "train_cell.py", "package/__pycache__/a.pyc", "data/new.csv", "inside/input", "package/out/y")
    write(folder, "data/old.csv", text="longer")
    initial = InitialFiles(str(tree), {"train_cell.py"}, {str(folder / "inside")})
    assert found(folder, initial) == ["data/new.csv", "data/old.csv", "package/out/"]


def test_a_folder_with_many_files_is_looked_at_up_to_the_limit(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number:03}.txt" for number in range(30)))
    leftovers = working_folder.search(str(tmp_path), NO_FILES, 20)
    assert (len(leftovers.names), leftovers.is_complete) == (20, False)
    assert "and 15 or more others in its" in working_folder.format_leftovers(TRAIN, leftovers)


def test_of_many_empty_folders_only_the_first_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        (tmp_path / str(number)).mkdir()
    opened, scan = [], os.scandir

    def count(path: str) -> Any:
        opened.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", count)
    assert working_folder.search(str(tmp_path), NO_FILES) == UncollectedFiles([], is_complete=False)
    assert len(opened) < 40


def test_a_source_folder_is_not_listed_however_many_of_its_files_the_job_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, folder = tmp_path / "tree", tmp_path / "code"
    write(tree, *(f"{inner}/{number}" for inner in "abc" for number in range(20)))
    write(folder, "a/0", "b/new")
    (folder / "c").mkdir()
    listed, scan = [], os.scandir

    def count(path: str) -> Any:
        listed.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", count)
    assert found(folder, InitialFiles(str(tree), set(), set())) == ["b/new"]
    assert sorted(listed) == [str(path) for path in (folder, folder / "a", folder / "b", folder / "c")]


def test_the_sentence_says_where_to_write_instead() -> None:
    sentence = working_folder.format_leftovers(TRAIN, UncollectedFiles(["metrics.csv", "mlruns/"], is_complete=True))
    assert sentence == (
        "The job left metrics.csv and mlruns/ in its working folder, which is deleted after the job. "
        "Write what should be kept to /opt/ml/model or /opt/ml/output/data "
        "(the variables SM_MODEL_DIR and SM_OUTPUT_DATA_DIR)."
    )
    outputs = [{"path": "/opt/ml/processing/output/a"}, {"path": "/opt/ml/processing/b"}]
    processing: Any = {"kind": "process", "outputs": outputs}
    several = working_folder.format_leftovers(processing, UncollectedFiles([*"abcdefg"], is_complete=True))
    assert several.startswith("The job left a, b, c, d, e and 2 more in its working folder")
    assert several.endswith("the folder of an output: /opt/ml/processing/output/a or /opt/ml/processing/b.")
    assert working_folder.format_leftovers(TRAIN, UncollectedFiles([], is_complete=True)) == ""


def test_a_name_makes_no_line_of_its_own() -> None:
    leftovers = UncollectedFiles(["a\nb.csv", "c\x1b[2J", "d\udcff", "Größe 1"], is_complete=True)
    sentence = working_folder.format_leftovers(TRAIN, leftovers)
    assert r"The job left 'a\nb.csv', 'c\x1b[2J', 'd\udcff' and Größe 1 in its" in sentence


@pytest.mark.parametrize(("before", "after"), [(b"", b""), (b"step 1\n", b""), (b"step 1", b"\n")])
def test_the_log_gets_the_sentence_on_a_line_of_its_own(tmp_path: Path, before: bytes, after: bytes) -> None:
    log = tmp_path / "log"
    log.write_bytes(before)
    working_folder.append_to_log(str(log), "A sentence.")
    assert log.read_bytes() == before + after + b"jupyter_smx: A sentence.\n"


def test_of_very_many_sentences_the_log_gets_the_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    working_folder.append_sentences(str(log), [f"{number}." for number in range(1000)])
    lines = log.read_text().splitlines()
    assert (len(lines), lines[19]) == (21, "jupyter_smx: 19.")
    assert lines[20] == "jupyter_smx: 980 more are in the record of the job."


LEAVE = "import os\nos.makedirs('mlruns/0')\nfor name in ('metrics.csv', 'mlruns/0/x'): open(name, 'w').close()\n"
SENTENCE = "The job left metrics.csv and mlruns/ in its working folder"


def test_a_job_that_completed_says_it_in_its_record_and_log(agent: Agent) -> None:
    record = agent.run(f"{LEAVE}print('done', end='')")
    assert record["left_behind"][0].startswith(SENTENCE)
    assert record["text"] == f"done\njupyter_smx: {record['left_behind'][0]}\n"
    assert agent.run("print(os.listdir() if (os := __import__('os')) else '')")["text"] == "['train.py']\n"


def test_a_failed_job_says_it_in_its_record_so_that_its_log_ends_with_the_failure(agent: Agent) -> None:
    record = agent.run(f"{LEAVE}1 / 0")
    assert record["left_behind"][0].startswith(SENTENCE)
    assert record["text"].endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("entry_point", ["", "sub/train.py"])
def test_a_source_folder_and_a_cell_beside_it_are_not_named(agent: Agent, tmp_path: Path, entry_point: str) -> None:
    files = {"train.py": "0", "sub/train.py": "open('new', 'w').close()", "a.csv": "1"}
    source_dir = packed(tmp_path, files)
    record = agent.run("open('new', 'w').close()", source_dir=source_dir, entry_point=entry_point)
    assert record["left_behind"] == [record["text"].removeprefix("jupyter_smx: ").rstrip("\n")]
    assert record["left_behind"][0].startswith("The job left new in its working folder")
