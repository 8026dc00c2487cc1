"""What SageMaker would not take of a job is said beside its call, and nothing of one that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.sagemaker.api_limits import api_limit_notes
from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from pathlib import Path
SPARK = Distribution(runner="pyspark")


def spec(**fields: Any) -> JobSpec:
    return JobSpec(**({"kind": "train", "source": "pass", "base_name": "digits"} | fields))


def many(count: int) -> dict[str, str]:
    return {f"n{number}": "1" for number in range(count)}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"hyperparameters": many(96)}, "96 hyperparameters"),
        ({"environment": many(101)}, "101 environment variables"),
        ({"environment": {"A": "x" * 513}}, "`A` are longer than SageMaker's maximum of 512"),
        ({"kind": "process", "environment": {"A": "x" * 257}}, "longer than SageMaker's maximum of 256"),
        ({"kind": "process", "hyperparameters": many(51)}, "102 arguments"),
        ({"kind": "process", "hyperparameters": {"a": "x" * 257}}, "1 of the script's arguments"),
        ({"contract": "v3"}, "ModelTrainer"),
        ({"spot": True, "keep_alive": 60}, "no warm pools of spot instances"),
        ({"keep_alive": 60, "instance_groups": (InstanceGroup(name="a"), InstanceGroup(name="b"))}, "instance groups"),
        ({"kind": "process", "requirements": ("x==1",), "distribution": SPARK}, "requires x==1"),
    ],
)
def test_what_is_too_much_there_is_said(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    assert said in " ".join(api_limit_notes(spec(**fields)))
    export(Job(id="a" * 12, name="digits-aaaaaa", spec=spec(**fields), created_at=1e9), tmp_path / "out")
    assert said in (tmp_path / "out" / "README.md").read_text().partition("## On SageMaker")[2]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"hyperparameters": many(95), "environment": many(100) | {"n1": "x" * 512}},
        {"kind": "process", "hyperparameters": many(50), "environment": {"A": "x" * 256}},
    ],
)
def test_what_is_taken_there_needs_no_word(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert list(api_limit_notes(spec(**fields))) == []
    export(Job(id="a" * 12, name="digits-aaaaaa", spec=spec(**fields), created_at=1e9), tmp_path / "out")
    assert "On SageMaker" not in (tmp_path / "out" / "README.md").read_text()


def test_the_words_are_those_of_the_jobs_own_contract(tmp_path: Path) -> None:
    wish = spec(contract="v3", hyperparameters={"b": "true", "a": "1"})
    export(Job(id="a" * 12, name="digits-aaaaaa", spec=wish, created_at=1e9), tmp_path / "out")
    assert "python train.py --b true --a 1" in (tmp_path / "out" / "README.md").read_text()
