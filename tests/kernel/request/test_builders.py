"""Job requests from lines and keywords: outputs without a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_smx.kernel.options.line_parser import parse
from jupyter_smx.kernel.request.builders import request_from_keywords, request_from_options
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Output

HERE = Path("/home/me")
TRAIN = "/opt/ml/processing/train"
TEST = "/opt/ml/processing/test"


def from_line(line: str) -> Any:
    return request_from_options("process", parse("process", line), {}, HERE)


def from_keywords(kind: Any = "process", **keywords: Any) -> Any:
    return request_from_keywords(kind, keywords, (), HERE)


def test_outputs_without_a_name_are_called_by_their_place_as_by_sagemakers_sdk() -> None:
    expected = (
        Output(name="output-1", path=TRAIN, destination="/home/me/train"),
        Output(name="report", path="/opt/ml/processing/output/report"),
        Output(name="output-3", path=TEST),
    )
    assert from_line(f"--output {TRAIN}:train --output report= --output {TEST}").outputs == expected
    report = Output(name="report", path="/opt/ml/processing/output/report")
    assert from_keywords(outputs=[f"{TRAIN}:train", report, Output(path=TEST)]).outputs == expected
    assert from_keywords(outputs=(Path(TRAIN),)).outputs == (Output(name="output-1", path=TRAIN),)


def test_outputs_mode_and_equals_sign_belong_to_the_path() -> None:
    (found,) = from_line(f"--output {TRAIN}/x=1:s3://b/k,mode=Continuous").outputs
    assert found == Output(name="output-1", path=f"{TRAIN}/x=1", destination="s3://b/k", mode="Continuous")


def test_outputs_by_name_give_their_name_to_an_output_without_one() -> None:
    assert from_keywords(outputs={"test": Output(path=TEST)}).outputs == (Output(name="test", path=TEST),)


def test_outputs_of_a_training_job_are_no_list() -> None:
    with pytest.raises(ValidationError, match=r"outputs=\['models'\] has no names\. .*outputs=\{'model': 'models'\}"):
        from_keywords("train", outputs=["models"])
