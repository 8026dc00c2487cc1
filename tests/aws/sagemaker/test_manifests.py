"""Channels whose S3DataType is ManifestFile, in buckets of this machine."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.aws.sagemaker.request_store import RequestStore
from jupyter_smx.aws.sagemaker.requests.channels import training_channel
from jupyter_smx.aws.sagemaker.requests.manifests import link_manifests
from jupyter_smx.aws.sagemaker.requests.translation import Code, TranslatedRequest
from jupyter_smx.aws.service import AwsError
from jupyter_smx.aws_endpoint.request_folder import front_folder, request_folder
from jupyter_smx.model.errors import ResourceNotFoundError, UnavailableError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.rerun_spec import make_rerun_spec

if TYPE_CHECKING:
    from pathlib import Path

    from calls import Calls

LISTING = """
import os, pathlib
folder = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"])
names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
print("found", *[f"{name}={(folder / name).read_text()}" for name in names])
"""


def manifest_channel(uri: str) -> dict[str, Any]:
    source = {"S3DataType": "ManifestFile", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": "train", "DataSource": {"S3DataSource": source}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a bucket that has some objects."""
    root = tmp_path / "s3"
    for key in ("data/a", "data/deep/b", "data/other"):
        (root / "bucket" / key).parent.mkdir(parents=True, exist_ok=True)
        (root / "bucket" / key).write_text(key)
    return root


def link(root: Path, manifest: Any) -> Path:
    """Link the objects of a manifest, and return the folder of the channel."""
    content = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    (root / "bucket" / "list").write_bytes(content)
    channel = training_channel(manifest_channel("s3://bucket/list"), root, "File")
    found = TranslatedRequest(kind="train", name="a", fields={}, code=Code(), groups=(), channels=(channel,))
    (channel,) = link_manifests(found, root, root.parent / "inputs").channels
    assert channel.data_type == "S3Prefix"
    assert channel.source == str(root.parent / "inputs" / "0")
    return root.parent / "inputs" / "0"


def test_objects_have_their_keys_in_the_channel_as_from_a_store(root: Path) -> None:
    folder = link(root, [{"prefix": "s3://bucket/data/"}, "a", "deep/b", "a"])
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {"data/a", "data/deep/b"}
    assert (folder / "data" / "a").samefile(root / "bucket" / "data" / "a"), "a link takes no space"
    assert {path.name for path in link(root, [{"prefix": "s3://bucket/data/o"}, "ther"]).rglob("*")} == {
        "data",
        "other",
    }, "nothing stays of an earlier attempt"


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        (b"{", "s3://bucket/list is not a manifest: it is not valid JSON"),
        ([], "s3://bucket/list is not a manifest. A manifest is a list"),
        ([{"prefix": "s3://bucket/"}], "it has a prefix but names no object"),
        ([{"prefix": "s3://bucket/data/"}, "none"], 'No S3 objects found under S3 URL "s3://bucket/data/none"'),
        ([{"prefix": "s3://none/"}, "a"], 'found under S3 URL "s3://none/a" .*There is no bucket none here'),
        ([{"prefix": "s3://bucket/data/"}, "../../../etc/passwd"], "may not be . or .."),
        ([{"prefix": "/etc/"}, "passwd"], "is not an S3 URI"),
    ],
)
def test_what_is_no_manifest_or_no_object_is_refused(root: Path, manifest: Any, text: str) -> None:
    with pytest.raises(AwsError, match=text):
        link(root, manifest)
    assert not (root.parent / "inputs").exists()


def test_an_object_out_of_its_bucket_is_refused_as_by_s3(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("[]")
    (root / "bucket" / "file").symlink_to(outside / "secret")
    (root / "bucket" / "folder").symlink_to(outside)
    (root / "bucket" / "inside").symlink_to(root / "bucket" / "data" / "a")
    for key in ("file", "folder/secret"):
        with pytest.raises(AwsError, match=f"s3://bucket/{key}: The key '{key}' leads out of the bucket by a link"):
            link(root, [{"prefix": "s3://bucket/"}, "data/a", key])
        assert not (root.parent / "inputs").exists()
    assert (link(root, [{"prefix": "s3://bucket/"}, "inside"]) / "inside").samefile(root / "bucket" / "data" / "a")
    (root / "bucket" / "list").unlink()
    (root / "bucket" / "list").symlink_to(outside / "secret")
    with pytest.raises(AwsError, match="The key 'list' leads out of the bucket"):
        link(root, [{"prefix": "s3://bucket/"}, "data/a"])


def test_a_name_that_leads_out_of_the_channel_is_refused(root: Path) -> None:
    (root / "bucket..").mkdir()
    (root / "bucket.." / "x").touch()
    with pytest.raises(AwsError, match=r"parts of the name '\.\./x' may not be \. or \.\."):
        link(root, [{"prefix": "s3://bucket"}, "../x"])
    assert not (root.parent / "inputs").exists()


def test_a_manifest_that_does_not_exist_or_is_not_text_is_refused(root: Path) -> None:
    for uri in ("s3://bucket/none", "s3://bucket/data"):
        with pytest.raises(AwsError, match=f'No S3 objects found under S3 URL "{uri}"'):
            training_channel(manifest_channel(uri), root, "File")
    with pytest.raises(AwsError, match="not text in UTF-8"):
        link(root, b"\xff\xfe")


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.EXDEV, AwsError, "ManifestFile is not supported: its objects cannot be linked .*Use S3Prefix"),
        (errno.ENOSPC, UnavailableError, "cannot be linked: No space left .*Free some space"),
    ],
)
def test_a_disk_that_takes_no_links_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], text: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(kind, match=text):
        link(root, [{"prefix": "s3://bucket/data/"}, "a"])
    assert not (root.parent / "inputs").exists()


def test_a_job_whose_objects_went_with_the_first_job_does_not_run_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = root.parent / "smx"
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(data))
    store = RequestStore(request_folder(front_folder()))
    (root / "bucket" / "list").write_text(json.dumps([{"prefix": "s3://bucket/data/"}, "a"]))
    channel = training_channel(manifest_channel("s3://bucket/list"), root, "File")
    found = TranslatedRequest(kind="train", name="a", fields={}, code=Code(), groups=(), channels=(channel,))
    channels = link_manifests(found, root, store.inputs_folder("first")).channels
    spec = JobSpec(kind="train", source="pass", channels=(Channel(name="own", source="/none/a"), *channels))
    second = Job(id="second", name="again", spec=spec, created_at=1.0)
    assert make_rerun_spec(second, 2.0, root).channels == spec.channels
    store.delete("first")
    text = "again cannot run again: .* manifest of channel train were deleted with the first job.*Create the job again"
    with pytest.raises(ResourceNotFoundError, match=text):
        make_rerun_spec(second, 2.0, root)


@pytest.mark.processes
async def test_a_job_reads_the_objects_of_a_manifest_and_its_links_go_with_it(calls: Calls) -> None:
    for key in ("set/a", "set/deep/b", "set/other"):
        calls.put(key, key)
    uri = calls.put("list.manifest", json.dumps([{"prefix": f"s3://{calls.bucket.name}/set/"}, "a", "deep/b"]))
    found = await calls.train("listed", LISTING, InputDataConfig=[manifest_channel(uri)])
    job = await calls.controller.job("listed")
    assert found["TrainingJobStatus"] == "Completed", found.get("FailureReason")
    log = (calls.requests.parents[1] / "jobs" / job.job.id / "logs" / "algo-1.log").read_text()
    assert "found set/a=set/a set/deep/b=set/deep/b\n" in log
    assert found["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3DataType"] == "ManifestFile"
    assert [path.name for path in calls.requests.glob("*.inputs")] == [f"{job.job.id}.inputs"]
    await calls("DeleteTrainingJob", TrainingJobName="listed")
    assert list(calls.requests.iterdir()) == []
    assert (calls.bucket / "set" / "a").read_text() == "set/a"
