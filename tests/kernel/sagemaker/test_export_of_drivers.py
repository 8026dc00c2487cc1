"""A job of ``--contract v3`` as a call of ``ModelTrainer``, which shows its script the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from exported_jobs import TYPE, job, packed, run
from msgspec.structs import replace

from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.results.provenance import Provenance, SeedNote
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from pathlib import Path

NAME = "model_trainer.py"
V3: dict[str, Any] = {"contract": "v3", "source": "print(1)", "instance_groups": (TYPE,)}


def plain(value: Any) -> Any:
    """Write what was made as its arguments."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    asked = getattr(value, "asked", None)
    return value if asked is None else {name: plain(one) for name, one in asked.items()}


def asked(folder: Path, patch: pytest.MonkeyPatch, call: str = "ModelTrainer") -> dict[str, Any]:
    found = run(folder, patch, NAME).of(call)
    return {name: plain(value) for name, value in found.items() if name != "sagemaker_session"}


def test_everything_that_the_job_wished_is_asked_of_sdk_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = job(
        **V3,
        keep_alive=600,
        max_run=7200,
        max_wait=9000,
        spot=True,
        retries=2,
        hyperparameters={"epochs": "3", "name": "adam", "flag": "true", "id": "007"},
        environment={"A": 'it\'s "b"', "HF_TOKEN": "hunter2"},
        metrics={"loss": r"loss=([0-9.]+)"},
        distribution=Distribution(runner="torchrun", processes=2),
        checkpoint="s3://kept/here",
        checkpoint_local_path="/opt/ml/mine",
        disable_output_compression=True,
    )
    made = export(wish, tmp_path / "out")
    assert asked(tmp_path / "out", monkeypatch) == {
        "training_image": "image",
        "role": "arn:aws:iam::111122223333:role/Smx",
        "base_job_name": "digits",
        "source_code": {"source_dir": f"{made.folder}/code", "entry_script": "train.py"},
        "distributed": {"process_count_per_node": 2},
        "compute": {
            "instance_type": "ml.m5.xlarge",
            "instance_count": 2,
            "enable_managed_spot_training": True,
        },
        "stopping_condition": {"max_runtime_in_seconds": 7200, "max_wait_time_in_seconds": 9000},
        "output_data_config": {"s3_output_path": "s3://bucket/digits-aaaaaa/output", "compression_type": "NONE"},
        "checkpoint_config": {"s3_uri": "s3://kept/here", "local_path": "/opt/ml/mine"},
        "hyperparameters": {"epochs": "3", "name": "adam", "flag": "true", "id": "007"},
        "environment": {"A": 'it\'s "b"', "HF_TOKEN": ""},
    }
    assert asked(tmp_path / "out", monkeypatch, "ModelTrainer.with_retry_strategy") == {
        "retry_strategy": {"maximum_retry_attempts": 2}
    }
    assert asked(tmp_path / "out", monkeypatch, "ModelTrainer.with_metric_definitions") == {
        "metric_definitions": [{"name": "loss", "regex": r"loss=([0-9.]+)"}]
    }
    assert asked(tmp_path / "out", monkeypatch, "ModelTrainer.train") == {}
    assert "model_trainer.py" in (tmp_path / "out" / "README.md").read_text()


def test_inputs_and_groups_are_those_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    channels = (
        Channel(name="train", source=str(tmp_path / "data"), distribution="ShardedByS3Key", groups=("dnn",)),
        Channel(name="lazy", source="s3://far/x", mode="FastFile", content_type="text/csv"),
        Channel(name="far", source="s3://far/y", content_type="text/csv"),
    )
    groups = (
        InstanceGroup(name="data", instance_type="ml.c5.xlarge", until="dnn"),
        InstanceGroup(name="dnn", instance_type="local", instance_count=2),
    )
    wish = job(**V3 | {"instance_groups": groups}, channels=channels, distribution=Distribution(runner="mpi"))
    export(wish, tmp_path / "out")
    there = "s3://bucket/digits-aaaaaa/input"
    every = {"s3_data_type": "S3Prefix", "s3_data_distribution_type": "FullyReplicated"}
    shard = {**every, "s3_data_distribution_type": "ShardedByS3Key", "instance_group_names": ["dnn"]}
    assert asked(tmp_path / "out", monkeypatch, "ModelTrainer.train")["input_data_config"] == [
        {
            "channel_name": "train",
            "data_source": {"s3_data_source": {**shard, "s3_uri": f"{there}/train"}},
            "input_mode": "File",
        },
        {
            "channel_name": "lazy",
            "data_source": {"s3_data_source": {**every, "s3_uri": "s3://far/x"}},
            "input_mode": "FastFile",
            "content_type": "text/csv",
        },
        {"channel_name": "far", "data_source": "s3://far/y", "content_type": "text/csv"},
    ]
    found = asked(tmp_path / "out", monkeypatch)
    assert found["compute"]["instance_groups"] == [
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "instance_count": 1},
        {"instance_group_name": "dnn", "instance_type": "ml.m5.xlarge", "instance_count": 2},
    ]
    assert found["distributed"] == {}
    assert "SageMaker ends no helpers" in (tmp_path / "out" / NAME).read_text()


def test_packages_that_it_imported_are_installed_beside_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Provenance(code_sha256="", packages={"msgspec": "0.18"}, seeds=SeedNote(sentence=""))
    export(replace(job(**V3), provenance=recorded), tmp_path / "out")
    assert asked(tmp_path / "out", monkeypatch)["source_code"]["requirements"] == "requirements.txt"
    assert (tmp_path / "out" / "code" / "requirements.txt").read_text() == "msgspec==0.18\n"


def test_a_file_in_the_folder_of_code_that_the_job_did_not_install_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "requirements.txt").write_text("torch==2.0.1\n")
    source = packed(tmp_path, train="pass\n")
    export(job(**V3, source_dir=source, entry_point="train.py"), tmp_path / "out")
    assert "requirements" not in asked(tmp_path / "out", monkeypatch)["source_code"]
    assert "did not install `requirements.txt`" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("fields", [{"contract": "v2"}, {"kind": "process"}])
def test_a_job_of_another_contract_has_no_such_call(tmp_path: Path, fields: dict[str, Any]) -> None:
    made = export(job(**fields), tmp_path / "out")
    assert NAME not in made.files
    assert "ModelTrainer" not in (tmp_path / "out" / "README.md").read_text()
