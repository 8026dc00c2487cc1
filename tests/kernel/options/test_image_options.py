"""``--image``: from the line, a function or a shell into the wish, and out of a record into an export and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.kernel.options import option_values as values
from jupyter_smx.kernel.options.line_parser import parse
from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.comparison import compare
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.results.provenance import Provenance, SeedNote
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_controller import ScriptedController


def record(image: Image | None, **values: Any) -> Job:
    spec = JobSpec(kind="train", source="pass", base_name="fit", image=image.name if image else "")
    return Job(id="a" * 12, name="fit-aaaaaa", spec=spec, image=image, created_at=1e9, ended_at=1e9 + 5, **values)


def last_spec(controller: ScriptedController) -> JobSpec:
    return [*controller.jobs.values()][-1].spec


@pytest.mark.processes
@pytest.mark.usefixtures("front_end")
def test_a_line_names_an_image_and_says_whether_somebody_chose_the_interpreter(
    shell: Any, controller: ScriptedController
) -> None:
    assert shell.run_cell("%%train --image train:1\npass").success
    spec = last_spec(controller)
    assert (spec.image, spec.python_named) == ("train:1", False)
    assert shell.run_cell(f"%%train --python {spec.python}\npass").success
    assert (last_spec(controller).image, last_spec(controller).python_named) == ("", True)


def test_functions_name_an_image_too(shell: Any, controller: ScriptedController) -> None:
    smx.train("pass", image="train:1")
    assert last_spec(controller).image == "train:1"
    smx.process("pass", image="train:2")
    assert last_spec(controller).image == "train:2"
    smx.remote(image="train:3")(abs).submit(1)
    assert last_spec(controller).image == "train:3"
    with pytest.raises(ValidationError, match="image=3 has the wrong type"):
        smx.train("pass", image=3)  # type: ignore[arg-type]  # what is refused
    assert shell is not None


def test_an_image_is_named_once_and_not_by_a_group() -> None:
    assert parse("train", "--image a").text("image") == "a"
    with pytest.raises(ValidationError, match="--image is given twice"):
        parse("train", "--image a --image b")
    with pytest.raises(ValidationError, match=r"has an image.*all groups of a job use one image") as refused:
        values.parse_group("data:local:1,image=train:2")
    assert refused.value.cure == "Set the image of the job: --image train:2."


@pytest.mark.parametrize(
    ("name", "is_there"),
    [("train:1", False), ("111122223333.dkr.ecr.eu-west-1.amazonaws.com/train:1", True), ('a"b', False)],
)
def test_an_export_has_the_image_where_sagemaker_reads_it(tmp_path: Path, name: str, is_there: bool) -> None:
    export(record(Image(name=name, id="sha256:" + "0" * 64)), tmp_path / "out")
    program: dict[str, Any] = {"__name__": "read"}
    lines = (tmp_path / "out" / "sagemaker_job.py").read_text()
    exec(next(line for line in lines.splitlines() if line.startswith("IMAGE_URI")), program)  # noqa: S102 - ours
    assert program["IMAGE_URI"] == name
    assert "image_uri=IMAGE_URI" in lines
    assert f"{name} (000000000000)" in (tmp_path / "out" / "job.json").read_text().replace("\\", "")
    assert ("Amazon ECR" in (tmp_path / "out" / "README.md").read_text()) is not is_there


def test_two_jobs_of_two_images_differ_in_that() -> None:
    before, after = (record(Image(name="train:1", id=f"sha256:{digit * 64}")) for digit in "12")
    (change,) = compare(before, after).changes
    assert change.text() == "option image (train:1 (111111111111) → train:1 (222222222222))"


def test_the_page_on_where_a_result_comes_from_names_the_image() -> None:
    seeds = SeedNote(sentence="")
    found = Provenance(code_sha256="0", image="train:1 (111111111111)", seeds=seeds)
    assert "image: train:1 (111111111111)" in provenance_page(record(None, provenance=found))[0]
    assert "image" not in provenance_page(record(None, provenance=Provenance(code_sha256="0", seeds=seeds)))[0]
