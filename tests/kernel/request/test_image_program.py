"""``--image`` without a script runs the program of the image, whose user, entry point and folder can count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.options.help_pages import manual
from jupyter_smx.kernel.options.line_parser import parse
from jupyter_smx.kernel.request.builders import request_from_keywords, request_from_options
from jupyter_smx.kernel.request.request import SubmissionContext
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec

HERE = SubmissionContext(python="/usr/bin/python3", python_version="3.11", folder=Path("/home/me"))


def spec_of(kind: Any, line: str, code: str = "") -> JobSpec:
    return request_from_options(kind, parse(kind, line), {}, HERE.folder).build_spec(code, 0, HERE, 0.0)


def test_a_training_job_of_an_image_alone_runs_train() -> None:
    spec = spec_of("train", "-e docker --image smlike:1 --hp epochs=3")
    assert (spec.image_program, spec.command, spec.source) == (True, ("train",), "train\n")
    assert spec.is_program()
    assert spec.is_only_command()
    assert spec.hyperparameters == {"epochs": "3"}


def test_a_processing_job_of_an_image_alone_runs_its_entry_point() -> None:
    spec = spec_of("process", "-e docker --image smlike:1", "# nothing to run\n")
    assert (spec.image_program, spec.command) == (True, ())
    assert spec.is_only_command()
    keywords = {"image": "smlike:1", "engine": "docker"}
    assert request_from_keywords("process", keywords, (), HERE.folder).build_spec("", 0, HERE, 0.0).image_program


@pytest.mark.parametrize(
    ("line", "code"), [("--image smlike:1", "print(1)"), ("--image smlike:1 --command make", ""), ("", "pass")]
)
def test_code_and_commands_run_as_ever(line: str, code: str) -> None:
    assert not spec_of("train", line, code).image_program


def test_without_an_image_a_job_needs_code() -> None:
    with pytest.raises(ValidationError, match="The cell is empty"):
        spec_of("train", "-e docker")


@pytest.mark.parametrize("option", ["user", "entrypoint", "workdir"])
def test_settings_of_the_image_count_where_the_job_says_so(option: str) -> None:
    field = f"image_{option}"
    assert getattr(spec_of("train", f"--image a --{option} image", "pass"), field) == "image"
    assert getattr(spec_of("process", f"--image a --{option} default", "pass"), field) == "default"
    assert getattr(spec_of("train", "--image a", "pass"), field) == ""
    keywords = {"image": "a", option: "image"}
    made = request_from_keywords("train", keywords, (), HERE.folder).build_spec("pass", 0, HERE, 0.0)
    assert getattr(made, field) == "image"
    assert f"--{option} image|default" in manual("train")


@pytest.mark.parametrize("option", ["user", "entrypoint", "workdir"])
def test_another_value_is_refused_with_the_two_that_there_are(option: str) -> None:
    with pytest.raises(ValidationError, match="image, default") as refused:
        spec_of("train", f"--image a --{option} 1000", "pass")
    assert refused.value.field == option
    assert refused.value.cure == "Leave it out; the default is as the engine is configured."


def test_an_image_with_a_folder_of_code_needs_its_entry_point(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        spec_of("train", f"-e docker --image smlike:1 --source-dir {tmp_path}")
