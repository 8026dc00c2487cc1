"""Each file and folder of a training container, by its real path: a row for each of SageMaker's."""

from __future__ import annotations

import gzip
import json
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

LOOK = """
import errno, json, os

def text(path):
    try:
        return open(path).read()
    except OSError as error:
        return errno.errorcode[error.errno]

def config(name):
    return json.loads(text("/opt/ml/input/config/" + name))

def write(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return errno.errorcode[error.errno]
    os.unlink(path)
    return "can be written"

def folder(path):
    return [write(path + "/probe"), sorted(os.listdir(path))]

found = {
    "input/config": sorted(os.listdir("/opt/ml/input/config")),
    "hyperparameters.json": {name: value for name, value in config("hyperparameters.json").items()},
    "inputdataconfig.json": config("inputdataconfig.json"),
    "resourceconfig.json": config("resourceconfig.json"),
    "checkpointconfig.json": config("checkpointconfig.json"),
    "input/data": sorted(os.listdir("/opt/ml/input/data")),
    "input/data/train": [text("/opt/ml/input/data/train/a.csv"), *folder("/opt/ml/input/data/train")],
    "packed": open("/opt/ml/input/data/train/packed.gz", "rb").read().hex(),
    "input/data/none": folder("/opt/ml/input/data/none"),
    "input/data/lazy": [text("/opt/ml/input/data/lazy/a.csv"), *folder("/opt/ml/input/data/lazy")],
    "code": [os.getcwd(), __file__, *folder("/opt/ml/code")],
    "model": folder("/opt/ml/model"),
    "output/data": folder("/opt/ml/output/data"),
    "output/intermediate": folder("/opt/ml/output/intermediate"),
    "output": folder("/opt/ml/output"),
    "checkpoints": [text("/opt/ml/checkpoints/last"), *folder("/opt/ml/checkpoints")],
    "sagemaker/warmpoolcache": folder("/opt/ml/sagemaker/warmpoolcache"),
    "/tmp": [write("/tmp/probe"), oct(os.stat("/tmp").st_mode & 0o7777)],
}
os.makedirs("/opt/ml/model/1/deep")
open("/opt/ml/model/1/deep/weights", "w").close()
open("/opt/ml/model/top", "w").close()
open("/opt/ml/output/data/metrics", "w").close()
print(json.dumps(found))
"""
ADDED = {
    "sagemaker_submit_directory": '"/opt/ml/code"',
    "sagemaker_program": '"train.py"',
    "sagemaker_container_log_level": "20",
    "sagemaker_job_name": '"job-1"',
}
GROUP = {"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": ["algo-1", "algo-2"]}
PACKED = gzip.compress(b"1,2", mtime=0)
"""Nothing unpacks it in File mode."""
EMPTY = ["can be written", []]
ROWS = {
    "input/config": [
        "checkpointconfig.json",
        "hyperparameters.json",
        "inputdataconfig.json",
        "resourceconfig.json",
    ],
    "hyperparameters.json": {"depth": "2", "name": "adam", "cfg": '{"a": [1]}', **ADDED},
    "inputdataconfig.json": {
        "train": {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"},
        "none": {"TrainingInputMode": "File", "S3DistributionType": "ShardedByS3Key", "RecordWrapperType": "None"},
        "lazy": {"TrainingInputMode": "FastFile", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"},
    },
    "resourceconfig.json": {
        "current_host": "algo-1",
        "current_instance_type": "local",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1", "algo-2"],
        "instance_groups": [GROUP],
        "network_interface_name": "lo",
        "topology": None,
    },
    "checkpointconfig.json": {"LocalPath": "/opt/ml/checkpoints"},
    "input/data": ["lazy", "none", "train"],
    "input/data/train": ["1,2", "can be written", ["a.csv", "packed.gz"]],
    "packed": PACKED.hex(),
    "input/data/none": EMPTY,
    "input/data/lazy": ["1,2", "EROFS", ["a.csv", "packed.gz"]],
    "code": ["/opt/ml/code", "/opt/ml/code/train.py", "can be written", ["train.py"]],
    "model": EMPTY,
    "output/data": EMPTY,
    "output/intermediate": EMPTY,
    "output": ["can be written", ["data", "intermediate"]],
    "checkpoints": ["step 3", "can be written", ["last"]],
    "sagemaker/warmpoolcache": EMPTY,
    "/tmp": ["can be written", "0o1777"],  # noqa: S108 - the folder of the contract
}


def test_every_file_and_folder_is_where_sagemaker_has_it(isolated: Agent, far_folder: Path) -> None:
    for name, content in {"data/a.csv": "1,2", "kept/last": "step 3"}.items():
        (far_folder / name).parent.mkdir()
        (far_folder / name).write_text(content)
    (far_folder / "data" / "packed.gz").write_bytes(PACKED)
    data = str(far_folder / "data")
    # Of fewer objects than hosts this one gets none, and its folder is there all the same.
    share = {"distribution": "ShardedByS3Key", "share": {"turn": 2, "count": 3}}
    channels = [
        {"name": "train", "source": data},
        {"name": "none", "source": data, **share},
        {"name": "lazy", "source": data, "mode": "FastFile"},
    ]
    given = {"depth": "2", "name": "adam", "cfg": '{"a": [1]}'}
    job, _lease = isolated.start(LOOK, channels=channels, hyperparameters=given, checkpoint=str(far_folder / "kept"))
    record = isolated.end_of(job)
    assert record["exit_code"] == 0, isolated.log(job)
    seen = json.loads(isolated.log(job))
    assert seen["hyperparameters.json"].pop("sagemaker_region").startswith('"')
    assert seen == ROWS
    members = {}
    for artifact in record["artifacts"]:
        (far_folder / "home.tar.gz").write_bytes(isolated.read(job, "artifacts/" + artifact["name"]))
        with tarfile.open(far_folder / "home.tar.gz") as archive:
            members[artifact["name"]] = sorted(one.name for one in archive if one.isfile())
    assert members == {"model.tar.gz": ["1/deep/weights", "top"], "output.tar.gz": ["metrics"]}
