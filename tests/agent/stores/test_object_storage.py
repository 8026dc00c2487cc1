"""Channels that come from object stores and the web: real servers, a real courier, each object fetched once."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

    from jupyter_smx.testing.servers.object_storage import Bucket, WebServer

SEE = """
import json, os
top = os.environ["SM_CHANNEL_TRAIN"]
found = [os.path.join(t, n) for t, _, names in os.walk(top) for n in names]
print(json.dumps({os.path.relpath(path, top): open(path).read() for path in found}))
"""


ISOLATION = pytest.mark.parametrize("mounts", [True, False], ids=["a world of its own", "variables"])
"""A host that mounts, and one that does not."""


@pytest.fixture
def host(mounts: bool, shared_agent: Agent, _isolated_of_module: Agent, request: pytest.FixtureRequest) -> Agent:
    """Give the agent of the module with or without a world of its own. Only the first needs namespaces.

    Both are arguments, so that they start before the test: what starts in a test must end in it.
    """
    return request.getfixturevalue("shared_isolated") if mounts else shared_agent


@pytest.fixture
def empty_host(mounts: bool, start_agent: Callable[..., Agent], request: pytest.FixtureRequest) -> Agent:
    """Give an agent that has fetched nothing, with or without a world of its own."""
    return request.getfixturevalue("own_isolated") if mounts else start_agent()


@pytest.fixture
def full(bucket: Bucket) -> Bucket:
    for key in ("d/train/a", "d/train/sub/b", "d/trainX", "d/training/c", "d/test"):
        bucket.put(key, key)
    return bucket


def wish(source: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "train", "source": source, **fields}]


@ISOLATION
def test_a_prefix_brings_what_begins_with_it_and_each_object_once(empty_host: Agent, full: Bucket) -> None:
    expected = {"a": "d/train/a", "sub/b": "d/train/sub/b", "trainX": "d/trainX", "training/c": "d/training/c"}
    for _time in range(2):
        seen = empty_host.json(SEE, channels=wish("s3://bucket/d/train"), environment=full.environment)
        assert seen == expected
    assert full.read_keys() == ["d/train/a", "d/train/sub/b", "d/trainX", "d/training/c"]
    full.put("d/train/a", "D/TRAIN/A")
    assert empty_host.json(SEE, channels=wish("s3://bucket/d/train/"), environment=full.environment) == {
        "a": "D/TRAIN/A",
        "sub/b": "d/train/sub/b",
    }
    assert full.read_keys().count("d/train/a") == 2
    assert full.read_keys().count("d/train/sub/b") == 1


@ISOLATION
def test_a_channel_of_objects_is_fresh_and_writable_for_each_job(host: Agent, full: Bucket) -> None:
    spoil = "import os; open(os.environ['SM_CHANNEL_TRAIN'] + '/a', 'a').write('!')\n"
    channels = wish("s3://bucket/d/train/")
    for _time in range(2):
        assert host.json(spoil + SEE, channels=channels, environment=full.environment)["a"] == "d/train/a!"
    assert (full.folder / "d/train/a").read_text() == "d/train/a"


def test_each_host_gets_every_n_th_object_and_perhaps_none(start_agent: Callable[..., Agent], full: Bucket) -> None:
    agent = start_agent()

    def names(source: str, turn: int) -> list[str]:
        channels = wish(source, share={"turn": turn, "count": 3}, distribution="ShardedByS3Key")
        return sorted(agent.json(SEE, channels=channels, environment=full.environment))

    seen = [names("s3://bucket/d/train", turn) for turn in range(3)]
    assert seen == [["a", "training/c"], ["sub/b"], ["trainX"]]
    assert names("s3://bucket/d/train/", 2) == []
    assert len(full.read_keys()) == 4, "no host fetches what is another's"


def test_the_config_file_tells_mode_and_distribution(shared_agent: Agent, full: Bucket) -> None:
    look = "import json, os; print(open(os.environ['SM_INPUT_CONFIG_DIR'] + '/inputdataconfig.json').read())"
    channels = wish("s3://bucket/d/", distribution="ShardedByS3Key", mode="FastFile")
    record = shared_agent.run(look, channels=channels, environment=full.environment)
    told = json.loads(record["text"])["train"]
    assert (told["TrainingInputMode"], told["S3DistributionType"]) == ("FastFile", "ShardedByS3Key")
    assert "so it was copied, as in File mode" in record["notes"][0]


@ISOLATION
def test_a_manifest_is_never_mounted_and_the_record_says_so(host: Agent, full: Bucket) -> None:
    full.put("list", json.dumps([{"prefix": "s3://bucket/d/"}, "test"]))
    channels = wish("s3://bucket/list", mode="FastFile", data_type="ManifestFile")
    record = host.run("pass", channels=channels, environment=full.environment)
    (note,) = record["notes"]
    assert "a manifest is not a whole folder" in note
    assert record["inputs"][0]["method"] == "content"


def test_a_manifest_brings_what_it_names(shared_agent: Agent, full: Bucket) -> None:
    full.put("list.manifest", json.dumps([{"prefix": "s3://bucket/d/"}, "train/a", "test"]))
    channels = wish("s3://bucket/list.manifest", data_type="ManifestFile")
    seen = shared_agent.json(SEE, channels=channels, environment=full.environment)
    assert seen == {"d/train/a": "d/train/a", "d/test": "d/test"}


def test_a_manifest_of_an_object_that_is_not_there_is_refused(shared_agent: Agent, full: Bucket) -> None:
    full.put("list.manifest", json.dumps([{"prefix": "s3://bucket/d/"}, "train/no"]))
    channels = wish("s3://bucket/list.manifest", data_type="ManifestFile")
    record = shared_agent.run("pass", channels=channels, environment=full.environment)
    assert (record["cause"], record["exit_code"]) == ("refused", None)
    assert "the bucket, object or server does not exist" in record["errors"][0]


@pytest.mark.parametrize(
    ("source", "changes", "said"),
    [
        ("s3://bucket/nothing/", {}, "no object begins with s3://bucket/nothing/"),
        ("s3://elsewhere/x", {}, "the bucket, object or server does not exist"),
        ("s3://bucket/d/", {"AWS_SECRET_ACCESS_KEY": "x" * 40}, "access is denied"),
        (
            "s3://bucket/d/",
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"},
            "this host has no credentials for it. Set them with --env",
        ),
        ("nosuch://x/y", {}, "fsspec does not support 'nosuch'"),
        ("memory://x/y", {}, "exists only in the memory of one process"),
    ],
)
def test_what_cannot_be_had_is_said_with_its_cure(
    shared_agent: Agent, full: Bucket, source: str, changes: dict[str, str], said: str
) -> None:
    record = shared_agent.run("pass", channels=wish(source), environment={**full.environment, **changes})
    assert record["cause"] == "refused"
    assert record["errors"][0].startswith("channel train: "), record["errors"]
    assert said in record["errors"][0]
    assert "wJalr" not in json.dumps(record), "no secret is told"
    shared_agent.serves()


@ISOLATION
def test_a_page_of_the_web_is_one_file_that_is_fetched_once(host: Agent, web: WebServer) -> None:
    (web.folder / "a b.csv").write_text("1,2")
    os.utime(web.folder / "a b.csv", (1e9, 1e9))
    for _time in range(2):
        assert host.json(SEE, channels=wish(f"{web.address}/a%20b.csv?version=1")) == {"a b.csv": "1,2"}
    assert len([line for line in web.requests if line.startswith("GET") and "a%20b.csv" in line]) == 1, web.requests
    record = host.run("pass", channels=wish(f"{web.address}/no.csv"))
    assert "the bucket, object or server does not exist" in record["errors"][0]


def test_where_no_python_has_fsspec_it_is_said_what_to_install_where(
    start_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    (tmp_path / "fsspec").mkdir()
    (tmp_path / "fsspec" / "__init__.py").write_text("raise ImportError('as if it were not there')")
    bare = start_agent(courier="/nowhere/python", environment={"PYTHONPATH": str(tmp_path)})
    (said,) = bare.run("pass", channels=wish("s3://bucket/d/"))["errors"]
    assert "/nowhere/python cannot be started (No such file or directory)" in said
    assert f"{sys.executable} lacks fsspec" in said
    assert said.endswith(
        "Install the missing packages in one of them: pip install fsspec s3fs; for containers, when the image is built."
    )


def test_a_python_that_lacks_the_package_of_a_store_gives_way_to_one_that_has_it(
    start_agent: Callable[..., Agent], full: Bucket, tmp_path: Path
) -> None:
    poor = tmp_path / "python"
    poor.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    poor.chmod(0o755)
    (tmp_path / "s3fs").mkdir()
    (tmp_path / "s3fs" / "__init__.py").write_text("raise ImportError('as if it were not there')")
    host = start_agent(courier=str(poor))
    assert host.json(SEE, channels=wish("s3://bucket/d/test"), environment=full.environment) == {"test": "d/test"}


def test_a_job_that_is_stopped_while_objects_come_leaves_no_courier(shared_agent: Agent, full: Bucket) -> None:
    for number in range(200):
        full.put(f"many/{number}", "x" * 10_000)
    job, lease = shared_agent.start(SEE, channels=wish("s3://bucket/many/"), environment=full.environment)
    shared_agent.stop(job, lease)
    assert shared_agent.end_of(job)["cause"] == "stopped"
    shared_agent.serves()
