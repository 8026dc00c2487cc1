"""The invariants find what does not hold; short runs of the loop, the bursts and the soak are heavy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chaos_invariants as invariants
import chaos_namespaces
import pytest
from chaos_invariants import Journal, Marks, read_marks
from msgspec.structs import replace

from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

SCRIPT = Path(__file__).with_name("run_chaos.py")
IS_LONG = bool(os.environ.get("JUPYTER_SMX_LONG"))
SPEC = JobSpec(kind="train", source="pass", base_name="chaos")
DONE = Job(id="1", name="chaos-1", spec=SPEC, created_at=1.0, state=SecondaryStatus.COMPLETED, ended_at=2.0)
MARKS = read_marks("began chaos-1\nended chaos-1\n")
JOURNAL = Journal(accepted={"1": ""})


def test_a_run_in_which_everything_holds_is_told_nothing() -> None:
    found = invariants.check_records(JOURNAL, {"1": DONE})
    found += invariants.check_verdicts(JOURNAL, [DONE], MARKS, {"1": "1\ndone\n"})
    found += invariants.check_refusals(JOURNAL, {"1": DONE}) + invariants.check_calls(JOURNAL)
    assert found + invariants.check_processes([]) == []


@pytest.mark.parametrize(
    ("job", "marks", "log", "says"),
    [
        ({}, "began chaos-1\nbegan chaos-1\nended chaos-1\n", "done\n", "ran 2 times in 1 attempts"),
        ({}, "began chaos-1\n", "done\n", "did not reach its end"),
        ({}, "", "cut of", "lacks the last line"),
        ({"state": SecondaryStatus.FAILED}, "", "", "Failed without a reason"),
        ({"state": SecondaryStatus.STOPPED}, "", "", "nothing asked for it"),
    ],
)
def test_a_verdict_that_is_not_true_is_found(job: dict[str, Any], marks: str, log: str, says: str) -> None:
    found = invariants.check_verdicts(JOURNAL, [replace(DONE, **job)], read_marks(marks), {"1": log})
    assert any(says in sentence for sentence in found), found


def test_a_second_attempt_may_begin_once_more_and_a_stop_may_stop() -> None:
    twice = Marks(MARKS.began + MARKS.began, MARKS.ended)
    assert invariants.check_verdicts(JOURNAL, [replace(DONE, attempt=2)], twice, {"1": "done\n"}) == []
    stopped = replace(DONE, state=SecondaryStatus.STOPPED)
    assert invariants.check_verdicts(changed(JOURNAL, stopped={"1"}), [stopped], MARKS, {}) == []


def test_what_was_lost_refused_or_left_is_found() -> None:
    assert invariants.check_records(JOURNAL, {}) == ["1: accepted, and not on record"]
    running = replace(DONE, state=SecondaryStatus.TRAINING, ended_at=None)
    assert invariants.check_records(JOURNAL, {"1": running}) == ["chaos-1: Training, and not final"]
    refused = Journal(refused={"1": "away", "2": "away"})
    assert invariants.check_refusals(refused, {"1": DONE}) == ["1: refused (away), and on record"]
    assert invariants.check_processes(["sleep 600"]) == ["still runs: sleep 600"]
    assert invariants.check_calls(Journal(slow=["jobs took 50 s"])) == ["jobs took 50 s"]


@pytest.fixture
def namespaces() -> None:
    """Skip where this machine gives none."""
    if not chaos_namespaces.is_possible():
        pytest.skip("this machine gives no mount and process namespaces")


ENDLESS = """
import os, subprocess, sys, time
subprocess.Popen(["setsid", "sleep", sys.argv[1]], env={})
open(os.environ["JUPYTER_SMX_CHAOS_FOLDER"] + "/begun", "w").close()
time.sleep(600)
"""


@pytest.mark.usefixtures("namespaces")
def test_a_run_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    seconds = f"6{os.getpid()}.25"
    begin = time.monotonic()
    assert chaos_namespaces.enter([os.fspath(tmp_path / "endless.py"), seconds], 2.0) == 124
    assert time.monotonic() - begin < 30
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if seconds.encode() in command]


@pytest.mark.usefixtures("namespaces")
def test_a_run_whose_folder_a_program_outside_deletes_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kernel unmounts what is mounted on a deleted folder, so all records of the run were gone."""
    folder = tmp_path / "run"

    def make(**_options: str) -> str:
        folder.mkdir()
        return os.fspath(folder)

    monkeypatch.setattr(chaos_namespaces.tempfile, "mkdtemp", make)
    script = tmp_path / "deletes.py"
    script.write_text(f"import shutil\nshutil.rmtree({os.fspath(folder)!r})\n")
    assert chaos_namespaces.enter([os.fspath(script)], 30.0) == chaos_namespaces.FOLDER_DELETED
    assert "proves nothing" in capfd.readouterr().err
    script.write_text("raise SystemExit(3)\n")
    assert chaos_namespaces.enter([os.fspath(script)], 30.0) == 3


def run(words: Sequence[str]) -> None:
    """Run the script, which ends by itself, and show what it said where something does not hold."""
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.heavy("faults")
@pytest.mark.timeout(3_600)
@pytest.mark.usefixtures("namespaces")
def test_a_loop_of_operations_and_faults_breaks_nothing() -> None:
    run(["loop", "--minutes", "20" if IS_LONG else "1", "--seed", "1"])


@pytest.mark.heavy("faults")
@pytest.mark.timeout(7_200)
@pytest.mark.usefixtures("namespaces")
def test_no_submission_is_lost_and_no_refusal_runs_while_the_controller_is_killed() -> None:
    run(["bursts", *(("--count", "2000", "--kills", "120") if IS_LONG else ("--count", "100", "--kills", "6"))])


@pytest.mark.heavy("faults")
@pytest.mark.timeout(7_200)
@pytest.mark.usefixtures("namespaces")
def test_the_controller_grows_by_little_with_each_job_and_keeps_no_descriptor() -> None:
    run(["soak", "--count", "2000" if IS_LONG else "100"])
