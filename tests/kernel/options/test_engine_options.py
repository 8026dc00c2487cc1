"""``--engine-option``: the same on a line and as a keyword, compared, and noted in an export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.options.line_parser import parse
from jupyter_smx.kernel.options.option_values import engine_option_texts
from jupyter_smx.kernel.request.builders import request_from_options
from jupyter_smx.kernel.request.request import SubmissionContext
from jupyter_smx.kernel.sagemaker.api_limits import api_limit_notes
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.comparison import compare
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from scripted_controller import ScriptedController

HERE = Path("/lab")


def spec_of(line: str, **variables: object) -> JobSpec:
    here = SubmissionContext(python="/py", python_version="3.11", folder=HERE)
    return request_from_options("train", parse("train", line), variables, HERE).build_spec("pass", 0, here, 0.0)


def test_engine_options_are_collected_by_name_in_any_order() -> None:
    options = spec_of("--engine-option time=2h --engine-option partition={which}", which="gpu").engine_options
    assert options == {"partition": "gpu", "time": "2h"}
    assert [*options] == ["partition", "time"]
    assert spec_of("").engine_options == {}
    assert spec_of("--engine-option constraint=a=b").engine_options == {"constraint": "a=b"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--engine-option gpu", "--engine-option: 'gpu' has no =."),
        ("--engine-option qos=a --engine-option qos=b", "--engine-option: qos is given twice."),
    ],
)
def test_engine_options_of_another_form_are_refused(line: str, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        spec_of(line)
    assert refused.value.message == message


@pytest.mark.usefixtures("front_end")
def test_every_front_door_has_engine_options(shell: Any, controller: ScriptedController) -> None:
    assert shell.run_cell("%%train --engine-option nodes=2 --engine-option exclusive=true\npass").success
    smx.process("pass", engine_options={"nodes": 2, "exclusive": True})
    typed, named = (job.spec.engine_options for job in controller.jobs.values())
    assert typed == named == {"exclusive": "true", "nodes": "2"}
    with pytest.raises(ValidationError, match="engine_options=\\['a=b'\\] has the wrong type"):
        smx.train("pass", engine_options=["a=b"])  # type: ignore[arg-type]  # what is refused


def test_values_of_python_become_text_and_none_is_left_out() -> None:
    options = {"time": "2h", "qos": None, "nice": 5, "share": 0.5, "exclusive": False}
    assert engine_option_texts(options) == {"exclusive": "false", "nice": "5", "share": "0.5", "time": "2h"}


@pytest.mark.parametrize("options", [{"time": ["2h"]}, {1: "a", "b": "c"}, {"gres": {"gpu": 1}}, {"nice": 10**5000}])
def test_values_that_are_no_text_are_refused_with_their_field(options: dict[Any, object]) -> None:
    with pytest.raises(ValidationError) as refused:
        engine_option_texts(options)
    assert refused.value.field == "engine_options"
    assert "yperparameter" not in str(refused.value)


def test_two_jobs_differ_in_engine_options() -> None:
    before, after = (
        Job(id="a" * 12, name="fit", spec=JobSpec(kind="train", source="pass", **fields), created_at=1e9)
        for fields in ({}, {"engine_options": {"partition": "gpu"}})
    )
    assert "option engine options (new: partition=gpu)" in {change.text() for change in compare(before, after).changes}


def test_an_export_notes_engine_options() -> None:
    spec = JobSpec(kind="train", source="pass", engine="slurm", engine_options={"partition": "gpu", "account": "lab"})
    assert (
        "It had options of the engine slurm: `account=lab`, `partition=gpu`. SageMaker has no such options."
        in api_limit_notes(spec)
    )
