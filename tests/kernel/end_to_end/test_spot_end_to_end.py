"""Spot, checkpoints and limits with the real controller, agent and local engine: what a script really meets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.servers.object_storage import Bucket, bucket

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["bucket"]

COUNTS = """
import os, time
from pathlib import Path

ml = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
saved, mark = ml / "checkpoints" / "step", ml / "model" / "mark"
print("input", (ml / "input/data/train/a.txt").read_text(), "fresh", not mark.exists())
mark.write_text("of an attempt that may be lost")
if saved.exists():
    print("goes on after", saved.read_text())
else:
    saved.write_text("7")
    print("saved", flush=True)
    while True:
        time.sleep(0.1)
"""
"""A script that waits in its first attempt, and goes on from its checkpoint in the next one."""


@pytest.fixture
def desk(shared_notebook: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a notebook whose cells come back at once. Tests here end hosts, and no controller."""
    monkeypatch.setenv("SMX_WAIT", "0")
    return shared_notebook


def cell(shell: Any, text: str) -> Any:
    done = shell.run_cell(text)
    if done.error_in_exec:
        raise done.error_in_exec
    return done


def begun(shell: Any, folder: Path, options: str, eventually_blocking: Any) -> Any:
    """Start the script with an input and a place for checkpoints, and wait until its first one is there."""
    (folder / "data").mkdir()
    (folder / "data" / "a.txt").write_text("hello")
    cell(shell, f"%%train --input train=data --checkpoint kept --as job {options}\n{COUNTS}")
    eventually_blocking((folder / "kept" / "step").exists, "the checkpoint is kept while the job runs")
    return shell.user_ns["job"]


EXPECTED = "input hello fresh True\nsaved\n--- attempt 2 ---\ninput hello fresh True\ngoes on after 7\n"


def test_an_interrupted_job_goes_on_from_its_checkpoints_and_from_nothing_else(
    desk: Any, tmp_path: Path, eventually_blocking: Any
) -> None:
    job = begun(desk, tmp_path, "--spot --max-run 1h --max-wait 2h", eventually_blocking)
    first = job.record
    cell(desk, "%smx interrupt job")
    record = job.wait(60).record
    assert job.logs() == EXPECTED
    assert [row.status.value for row in record.transitions] == [
        "Pending", "Starting", "Downloading", "Training", "Interrupted",
        "Starting", "Downloading", "Training", "Uploading", "Completed",
    ]  # fmt: skip
    assert (record.name, record.status().value) == (first.name, "Completed")
    assert record.cluster != first.cluster
    assert not process_scan.cluster_processes(first.cluster)
    bill = job.cost.bill
    assert 0 < bill.billable_seconds < bill.training_seconds
    cell(desk, "%%train --as other\npass\n")
    with pytest.raises(ValidationError, match="is not a spot job"):
        desk.user_ns["other"].interrupt()


def test_a_retry_after_a_lost_host_goes_on_from_the_checkpoints(
    desk: Any, tmp_path: Path, eventually_blocking: Any
) -> None:
    job = begun(desk, tmp_path, "--retries 1", eventually_blocking)
    (agent,) = process_scan.agents(job.record.cluster).values()
    process_scan.kill_and_wait(agent)
    record = job.wait(60).record
    assert job.logs() == EXPECTED
    assert record.attempts[0].reason.startswith("InternalServerError: ")
    assert not record.attempts[0].interrupted


def test_a_rerun_goes_on_from_the_checkpoints(desk: Any, tmp_path: Path, eventually_blocking: Any) -> None:
    job = begun(desk, tmp_path, "", eventually_blocking)
    job.stop().wait(60)
    assert job.status == "Stopped"
    cell(desk, "%smx rerun job")
    again = desk.user_ns["job"].record
    newest = desk.run_cell("import jupyter_smx as smx\nsmx.job('train')").result
    assert newest.id != again.id
    assert newest.wait(60).logs() == "input hello fresh True\ngoes on after 7\n"


def test_who_waits_for_a_spot_job_reads_what_it_saved(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(desk, "%%train --spot --wait\nprint('done')")
    shown = capsys.readouterr().out
    assert "done\nTraining seconds: 0\nBillable seconds: 0\nManaged Spot Training savings: 0.0%\n" in shown
    cell(desk, "%%train --wait\nprint('done')")
    assert "savings" not in capsys.readouterr().out


def test_a_job_over_its_time_is_stopped_and_its_model_is_here(desk: Any, tmp_path: Path) -> None:
    source = (
        "import os, time\nopen(os.environ['SM_MODEL_DIR'] + '/m.pt', 'w').write('m')\n"
        "open(os.environ['SM_OUTPUT_DATA_DIR'] + '/d', 'w').write('d')\nwhile True: time.sleep(0.1)"
    )
    cell(desk, f"%%train --max-run 1 -o model=out -o data=out --as job\n{source}")
    record = desk.user_ns["job"].wait(60).record
    assert (record.status().value, record.state.value) == ("Stopped", "MaxRuntimeExceeded")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["model.tar.gz", "output.tar.gz"]
    assert record.transitions[-2].status.value == "Uploading"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--max-wait 1h", "--max-wait: 1 h without --spot"),
        ("--spot --max-run 2h --max-wait 1h", "--max-wait: 1 h is less than --max-run, 2 h"),
        ("--checkpoint https://example.org/kept", "checkpoints cannot be written to https://example.org/kept"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_in_the_cell(desk: Any, line: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        cell(desk, f"%%train {line}\npass")


@pytest.mark.parametrize("end", ["interrupted", "lost"])
def test_a_job_whose_host_goes_goes_on_from_its_checkpoints_at_a_url(
    desk: Any, tmp_path: Path, bucket: Bucket, eventually_blocking: Any, end: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("hello")
    given = " ".join(f"--env {name}={value}" for name, value in bucket.environment.items())
    options = "--spot" if end == "interrupted" else "--retries 1"
    cell(desk, f"%%train --input train=data --checkpoint s3://bucket/kept --as job {options} {given}\n{COUNTS}")
    eventually_blocking((bucket.folder / "kept" / "step").exists, "the checkpoint is kept while the job runs")
    job = desk.user_ns["job"]
    first = job.record
    if end == "interrupted":
        cell(desk, "%smx interrupt job")
    else:
        (agent,) = process_scan.agents(first.cluster).values()
        process_scan.kill_and_wait(agent)
    record = job.wait(60).record
    assert job.logs() == EXPECTED
    assert record.attempts[0].interrupted == (end == "interrupted")
    assert record.cluster != first.cluster
    assert not process_scan.cluster_processes(first.cluster), "its courier neither"
