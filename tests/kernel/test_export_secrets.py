"""What an export keeps to itself: the values of variables that sound like secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_export import job, run

from jupyter_smx.kernel.export import export


@pytest.mark.parametrize("kind", ["train", "process"])
def test_a_secret_is_in_no_file_of_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    given = {"AWS_SECRET_ACCESS_KEY": "hunter2", "HF_TOKEN": "hunter2", "TOKENIZERS_PARALLELISM": "false"}
    made = export(job(kind=kind, environment=given), tmp_path / "out")
    assert not [name for name in made.files if b"hunter2" in Path(made.folder, name).read_bytes()]
    expected = {"AWS_SECRET_ACCESS_KEY": "", "HF_TOKEN": "", "TOKENIZERS_PARALLELISM": "false"}
    assert json.loads(Path(made.folder, "job.json").read_text())["environment"] == expected
    assert '"HF_TOKEN": "",  # a secret, which is not exported' in Path(made.folder, "sagemaker_job.py").read_text()
    asked = run(tmp_path / "out", monkeypatch).of("Estimator" if kind == "train" else "ScriptProcessor")
    assert asked["environment" if kind == "train" else "env"] == expected


@pytest.mark.parametrize(
    ("place", "uri"),
    [("/home/me/kept", "s3://bucket/digits-aaaaaa/checkpoints"), ("s3://mine/kept", "s3://mine/kept")],
)
def test_checkpoints_go_where_they_went_if_sagemaker_can_go_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, uri: str
) -> None:
    export(job(checkpoint=place, checkpoint_local_path="/opt/ml/mine"), tmp_path / "out")
    asked = run(tmp_path / "out", monkeypatch).of("Estimator")
    assert (asked["checkpoint_s3_uri"], asked["checkpoint_local_path"]) == (uri, "/opt/ml/mine")
    export(job(checkpoint=place), tmp_path / "usual")
    assert "checkpoint_local_path" not in run(tmp_path / "usual", monkeypatch).of("Estimator")
