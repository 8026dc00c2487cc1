"""A model without compression: ``--disable-output-compression`` at each front door, and the files where they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from test_spot_end_to_end import cell

import jupyter_smx as smx
from jupyter_smx.controller.transfer import stage_out
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.kernel.options.option_values import parse_output
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Output
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from pathlib import Path

WRITE = """
import os
host, model = os.environ["SM_CURRENT_HOST"], os.environ["SM_MODEL_DIR"]
os.makedirs(f"{model}/parts")
for name in (f"parts/{host}", "shared"):
    with open(f"{model}/{name}", "w") as file:
        file.write(host)
"""


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


def test_files_of_all_hosts_come_to_the_folder_that_the_model_goes_to(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMX_WAIT", "0")
    cell(notebook, f"%%train -n 2 --disable-output-compression -o model=kept --as job\n{WRITE}")
    job = notebook.user_ns["job"].wait()
    assert job.status == "Completed", job.record.failure_reason
    kept = next(tmp_path.rglob("kept"))
    names = ["parts/algo-1", "parts/algo-2", "shared"]
    assert job.artifacts == {f"outputs/model/{name}": kept / name for name in names}
    assert [(kept / name).read_text() for name in names] == ["algo-1", "algo-2", "algo-2"]


def test_a_function_has_it_and_a_processing_job_has_no_model(notebook: Any) -> None:
    assert smx.train("pass", disable_output_compression=True).record.spec.disable_output_compression
    assert not smx.train("pass").record.spec.disable_output_compression
    assert smx.remote(disable_output_compression=True)(int).submit().job.record.spec.disable_output_compression
    with pytest.raises(ValidationError, match="--disable-output-compression is not for processing jobs"):
        cell(notebook, "%%process --disable-output-compression\npass")


@pytest.mark.parametrize("compressed", [True, False])
def test_a_url_gets_the_archive_or_the_files(tmp_path: Path, *, compressed: bool) -> None:
    where = parse_output("model=s3://bucket/kept/", "train", tmp_path)
    spec = JobSpec(kind="train", source="pass", outputs=(where,), disable_output_compression=not compressed)
    job = Job(id="a" * 12, name="fit", spec=spec)
    folder = JobFolder(tmp_path, job.id)
    names = ["model.tar.gz"] if compressed else ["outputs/model/parts/a", "outputs/model/b"]
    for name in names:
        (folder.artifacts / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.artifacts / name).touch()
    goals = {str(path.relative_to(folder.artifacts)): url for path, url in stage_out._urls(job, folder, where)}
    top = "s3://bucket/kept"
    assert goals == {name: f"{top}/{name.removeprefix('outputs/model/')}" for name in names}
    other = Output(name="data", path="/opt/ml/output/data", destination=top)
    assert list(stage_out._urls(job, folder, other)) == []
