"""Folders that 6b340c9 exported run without this package, and an export of the same jobs makes the same folders."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from recorded_data import placeholders, replace_words

from jupyter_smx import cli

if TYPE_CHECKING:
    from recorded_data import Asker

KERNEL_TESTS = Path(__file__).parents[1] / "kernel"
REWORDED = {
    "with the folder of code that it had": "with its source folder",
    "To run it by hand, where its inputs are in place:": "To run it by hand, with its inputs in place:",
    "| in what each task differs |": "| the differences between the tasks |",
    "read it only where you trust this folder.": "load it only if you trust this folder.",
    "hands them to the script.": "passes them to the script.",
    "- It is a tuning job there, of the strategy Grid,": "- On SageMaker it is a tuning job of the strategy Grid,",
    "combinations once; its jobs": "combinations once. Its jobs",
    "No job is stopped early, and no other number of jobs is taken.": "No job is stopped early.",
}
"""Sentences of the README that were changed on purpose."""
SECONDS = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d):\d\d")
"""A moment with its seconds, which it had not."""
ALONE = "import runpy, sys\nsys.modules['jupyter_smx'] = None\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0])\n"


@pytest.fixture
def exported(asker: Asker) -> Path:
    """Give the folder that has both exports."""
    return asker.folder / "exported"


@pytest.mark.parametrize(
    ("job", "script", "words", "printed"),
    [
        ("fit", "with_variables.py", ["--depth", "2"], "hello epoch 1 loss 0.5\nhello epoch 2 loss 0.25\n"),
        ("grid", "train.py", ["--lr", "0.2"], "score 2.0\n"),
    ],
)
def test_the_exported_script_runs_by_hand(
    exported: Path, tmp_path: Path, job: str, script: str, words: list[str], printed: str
) -> None:
    (tmp_path / "numbers.txt").write_text("1 2 3 4")
    variables = {"SM_CHANNEL_TRAIN": str(tmp_path), "SM_MODEL_DIR": str(tmp_path), "GREETING": "hello"}
    variables |= {"SM_HPS": '{"depth": 2, "lr": 0.2}'}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, script, *words],
        cwd=exported / job / "code",
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")
    assert f"cd code && python {script}" in (exported / job / "README.md").read_text()


@pytest.mark.parametrize("job", ["fit", "grid"])
def test_the_exported_program_asks_for_what_it_needs(exported: Path, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(KERNEL_TESTS))
    from sagemaker_stand_in import install  # noqa: PLC0415 - it lies beside other tests

    install(monkeypatch)
    with pytest.raises(SystemExit, match="Set ROLE"):
        runpy.run_path(str(exported / job / "sagemaker_job.py"), run_name="__main__")


@pytest.mark.parametrize("job", ["fit", "grid"])
def test_an_export_of_the_recorded_job_is_the_same_folder(exported: Path, tmp_path: Path, job: str) -> None:
    assert cli.main(["export", job, str(tmp_path / job)]) == 0
    new, old = (
        {
            str(path.relative_to(folder)): replace_words(path.read_bytes(), placeholders(exported.parent))
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        for folder in (tmp_path / job, exported / job)
    )
    assert list(new) == list(old)
    for before, after in REWORDED.items():
        old["README.md"] = old["README.md"].replace(before.encode(), after.encode())
    new["README.md"] = SECONDS.sub(rb"\1", new["README.md"])
    for name, content in old.items():
        assert new[name] == content, name
