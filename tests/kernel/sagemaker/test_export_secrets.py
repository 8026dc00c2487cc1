"""What an export keeps to itself: the values of variables that sound like secrets, and what opens URLs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from exported_jobs import job, run

from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.spec.channel import Channel, Output


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


@pytest.mark.parametrize("kind", ["train", "process"])
def test_places_in_buckets_have_nothing_that_opens_them_and_stay_as_they_are_else(tmp_path: Path, kind: str) -> None:
    def made(place: str, name: str) -> Path:
        own = {"checkpoint": place} if kind == "train" else {}
        outputs = (Output(name="b", path="b", destination=place),)
        export(job(kind=kind, channels=(Channel(name="a", source=place),), outputs=outputs, **own), tmp_path / name)
        return tmp_path / name

    secret = made("s3://me:hunter2@bucket/x?X-Amz-Signature=hunter2", "secret")
    assert not [path for path in secret.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    plain = (made("s3://bucket/x y/*.csv?v=1", "plain") / "sagemaker_job.py").read_text()
    assert plain.count('"s3://bucket/x y/*.csv?v=1"') == (2 if kind == "train" else 1)


@pytest.mark.parametrize("kind", ["train", "process"])
def test_what_opens_a_url_is_in_no_file_of_an_export_and_where_it_leads_is(tmp_path: Path, kind: str) -> None:
    url = "sftp://me:hunter2@host/data"
    fields: dict[str, Any] = {"channels": (Channel(name="a", source=url),), "checkpoint": url}
    fields |= {"environment": {"DATABASE_URL": url}, "hyperparameters": {"db": url}}
    if kind == "process":
        fields |= {"arguments": (f"--db={url}",)}
        fields["outputs"] = (Output(name="b", path="b", destination=url),)
    else:
        fields |= {"contract": "v3"}
    made = export(job(kind=kind, **fields), tmp_path / "out")
    assert not [name for name in made.files if b"hunter2" in Path(made.folder, name).read_bytes()]
    assert ("model_trainer.py" in made.files) == (kind == "train")
    call = Path(made.folder, "sagemaker_job.py").read_text()
    assert '"DATABASE_URL": "sftp://me:…@host/data"' in call
    assert ('"--db=sftp://me:…@host/data"' in call) == (kind == "process")
    given = json.loads(Path(made.folder, "hyperparameters.json").read_text())
    assert given["db"] == "sftp://me:…@host/data"
    told = json.loads(Path(made.folder, "job.json").read_text())
    places = [told["inputs"][0]["source"], *(one["destination"] for one in told["outputs"])]
    assert places == ["sftp://me:…@host/data"] * len(places)
    assert "sftp://me:…@host/data, in the job" in Path(made.folder, "README.md").read_text()
