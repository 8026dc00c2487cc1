"""Heavy parts: which are run, which are skipped and why, and what is recorded as green."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import heavy
import pytest
from heavy import PARTS, RECORD, ROOT, HeavyRun, UncommittedError, Verdict, committed_ids, marked_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FILES = {"mpi": ("tests/faults/frameworks/test_mpi.py",)}
GREEN = Verdict(0, passed=3)


class FakeGit:
    """Answers as git does: the ids of ``HEAD``, and which files are not as in there."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {path: f"id-of-{path}" for path in heavy.covered_paths("mpi", FILES)}
        self.uncommitted: list[str] = []

    def __call__(self, command: str, *words: str) -> str:
        paths = words[words.index("--") + 1 :]
        if command == "status":
            return "".join(f" M {path}\n" for path in self.uncommitted)
        assert (command, words[0]) == ("ls-tree", "HEAD")
        return "".join(f"100644 blob {self.ids[path]}\t{path}\n" for path in paths if path in self.ids)


class Runs:
    """One part with a git and a pytest of its own."""

    def __init__(self, folder: Path) -> None:
        self.git = FakeGit()
        self.record = folder / "heavy.json"
        self.ran: list[str] = []
        self.verdict = GREEN

    def run(self, name: str, files: Mapping[str, Sequence[str]]) -> Verdict:
        assert files == FILES
        self.ran.append(name)
        return self.verdict

    def do(self, *, changed: bool = False, record: bool = True) -> int:
        self.ran.clear()
        return HeavyRun(changed, record, self.record, self.git, self.run, FILES).do(["mpi"])


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_a_part_that_was_green_with_this_code_is_skipped(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs.do(changed=True) == 0
    assert runs.ran == ["mpi"]
    assert runs.do(changed=True) == 0
    assert runs.ran == []
    assert "skip mpi: green with this code already" in capsys.readouterr().out
    assert runs.do() == 0
    assert runs.ran == ["mpi"], "without --changed every part runs"


def test_a_part_runs_again_when_a_tree_or_its_own_tests_changed(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("jupyter_smx/agent", *FILES["mpi"]):
        runs.do()
        runs.git.ids[path] = f"another-of-{path}"
        capsys.readouterr()
        runs.do(changed=True)
        assert runs.ran == ["mpi"]
        assert f"run mpi (changed: {path})" in capsys.readouterr().out


def test_a_part_with_uncommitted_changes_runs_and_is_not_recorded(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.do()
    before = runs.record.read_text()
    runs.git.uncommitted = ["jupyter_smx/agent/serve.py"]
    assert runs.do(changed=True) == 0
    assert runs.ran == ["mpi"]
    assert "not committed: jupyter_smx/agent/serve.py" in capsys.readouterr().out
    assert runs.record.read_text() == before


def test_code_that_changes_while_a_part_runs_is_not_recorded(runs: Runs) -> None:
    def run_and_commit(name: str, files: Mapping[str, Sequence[str]]) -> Verdict:
        runs.git.ids["jupyter_smx/agent"] = "another"
        return Runs.run(runs, name, files)

    assert HeavyRun(False, True, runs.record, runs.git, run_and_commit, FILES).do(["mpi"]) == 0
    assert not runs.record.exists()


@pytest.mark.parametrize("verdict", [Verdict(1, passed=3), Verdict(0), Verdict(0, passed=3, skipped=1)])
def test_only_a_part_whose_tests_all_ran_and_passed_is_recorded(runs: Runs, verdict: Verdict) -> None:
    runs.verdict = verdict
    assert runs.do() == verdict.code
    assert not runs.record.exists()


def test_a_part_that_fails_keeps_the_record_of_the_code_it_was_green_with(runs: Runs) -> None:
    runs.do()
    runs.verdict = Verdict(1)
    assert runs.do() == 1
    assert json.loads(runs.record.read_text()) == {"mpi": runs.git.ids}


def test_without_record_nothing_is_written(runs: Runs) -> None:
    assert runs.do(record=False) == 0
    assert not runs.record.exists()


def test_parts_of_two_lanes_run_side_by_side_and_those_of_one_in_a_row(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=30)
    ran: list[str] = []

    def run_beside(name: str, _files: Mapping[str, Sequence[str]]) -> Verdict:
        if name in {"docker", "mpi"}:
            both.wait()
        ran.append(name)
        return GREEN

    git = FakeGit()
    run = HeavyRun(False, False, tmp_path / "heavy.json", git, run_beside, FILES)
    assert run.do(["docker", "podman", "mpi", "torch"]) == 0
    assert ran.index("docker") < ran.index("podman")
    assert ran.index("mpi") < ran.index("torch")


def test_the_record_has_one_order_and_no_part_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "heavy.json"
    heavy.write_record(path, {"spark": {"b": "2", "a": "1"}, "gone": {}, "mpi": {}})
    assert path.read_text() == '{\n  "mpi": {},\n  "spark": {\n    "a": "1",\n    "b": "2"\n  }\n}\n'


def test_a_path_that_is_not_in_head_has_no_id() -> None:
    with pytest.raises(UncommittedError, match=r"not in HEAD: tests/new\.py"):
        committed_ids(["tests/new.py"], FakeGit())


def test_a_report_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert heavy.read_verdict(4, report) == Verdict(4)
    report.write_text(
        "<testsuites><testsuite><testcase/><testcase><skipped/></testcase><testcase/></testsuite></testsuites>"
    )
    assert heavy.read_verdict(0, report) == Verdict(0, passed=2, skipped=1)


def test_every_marker_names_a_part_and_every_part_has_tests() -> None:
    files = marked_files()
    assert set(files) == {name for name, part in PARTS.items() if not part.profile}
    for name in PARTS:
        assert [path for path in heavy.covered_paths(name, files) if not (ROOT / path).exists()] == []
        assert heavy.pytest_words(name, files, "report.xml")[-1].startswith("tests/")


def test_the_record_is_of_parts_and_of_paths_that_they_cover() -> None:
    record = heavy.read_record(ROOT / RECORD)
    assert set(record) <= set(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_no_part_covers_a_folder_and_a_file_in_it(name: str) -> None:
    paths = heavy.covered_paths(name, marked_files())
    twice = [(folder, path) for folder in paths for path in paths if path.startswith(f"{folder}/")]
    assert twice == [], "git lists no folder of which a file is named, too, so the part is never recorded"
