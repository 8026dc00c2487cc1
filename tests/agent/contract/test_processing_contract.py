"""The contract of processing jobs: config files field by field, folders that are there before, what comes home."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from source_archives import packed

from jupyter_smx.agent.contract import scriptmode
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

PLACE = HostInfo("algo-2", ["algo-1", "algo-10", "algo-2"], [], "homogeneousCluster", "ml.m5.xlarge", 4, 0)
SPEC: dict[str, Any] = {
    "name": "clean-1",
    "kind": "process",
    "source": "",
    "entry_point": "clean.py",
    "folder": "/home/me",
    "hyperparameters": {"n": "3"},
    "arguments": ["--split", "0.2", "", "it's"],
    "environment": {"STAGE": "test"},
    "channels": [{"name": "raw", "source": "s3://bucket/raw/", "mode": "File", "distribution": "ShardedByS3Key"}],
    "outputs": [{"name": "table", "path": "/opt/ml/processing/table", "destination": "s3://bucket/table"}],
    "role": "arn:aws:iam::111122223333:role/Research",
    "max_run": 3600,
}


def configs(**changes: Any) -> dict[str, Any]:
    texts = scriptmode.config_files(scriptmode.complete({**SPEC, **changes}), PLACE)
    return {name: json.loads(text) for name, text in texts.items() if name.endswith(".json")}


def an_input(name: str, folder: str, source: str, distribution: str) -> dict[str, Any]:
    return {
        "InputName": name,
        "S3Input": {
            "LocalPath": folder,
            "S3Uri": source,
            "S3DataDistributionType": distribution,
            "S3DataType": "S3Prefix",
            "S3InputMode": "File",
            "S3CompressionType": "None",
            "S3DownloadMode": "StartOfJob",
        },
    }


CODE = an_input("code", "/opt/ml/processing/input/code", "/home/me", "FullyReplicated")
RAW = an_input("raw", "/opt/ml/processing/input/raw", "s3://bucket/raw/", "ShardedByS3Key")
TABLE = {
    "OutputName": "table",
    "S3Output": {
        "LocalPath": "/opt/ml/processing/table",
        "S3Uri": "s3://bucket/table",
        "S3UploadMode": "EndOfJob",
    },
}
THERE = "/opt/ml/processing/input/code/clean.py"
RUNPROC = "/opt/ml/processing/input/entrypoint/runproc.sh"
SOURCE_DIR = {"folder": "/home/me", "path": "/x.tar.gz", "sha256": "", "files": 1, "size": 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ProcessingJobArn", "arn:aws:sagemaker:us-east-1:000000000000:processing-job/clean-1"),
        ("ProcessingJobName", "clean-1"),
        (
            "AppSpecification",
            {
                "ImageUri": "",
                "ContainerEntrypoint": ["python3", THERE],
                "ContainerArguments": ["-n", "3", "--split", "0.2", "", "it's"],
            },
        ),
        ("Environment", {"STAGE": "test"}),
        ("ProcessingInputs", [RAW, CODE]),
        ("ProcessingOutputConfig", {"Outputs": [TABLE], "KmsKeyId": None}),
        (
            "ProcessingResources",
            {
                "ClusterConfig": {
                    "InstanceCount": 3,
                    "InstanceType": "ml.m5.xlarge",
                    "VolumeSizeInGB": 30,
                    "VolumeKmsKeyId": None,
                }
            },
        ),
        ("RoleArn", "arn:aws:iam::111122223333:role/Research"),
        ("StoppingCondition", {"MaxRuntimeInSeconds": 3600}),
    ],
)
def test_processingjobconfig_json_field_by_field(field: str, value: object) -> None:
    assert configs()["config/processingjobconfig.json"][field] == value


def test_the_configuration_lacks_the_variables_that_the_front_added() -> None:
    """They have its secret key, and the request that SageMaker writes there has none of them."""
    added = {"AWS_ACCESS_KEY_ID": "SMX", "AWS_SECRET_ACCESS_KEY": "s"}
    environment = {"AWS_PROFILE": "own", **added, "JUPYTER_SMX_AWS": ",".join(added)}
    found = configs(environment=environment)["config/processingjobconfig.json"]
    assert found["Environment"] == {"AWS_PROFILE": "own"}


@pytest.mark.parametrize("data_type", ["S3Prefix", "ManifestFile"])
def test_a_channel_has_the_type_of_data_that_was_wished_and_code_is_a_folder(data_type: str) -> None:
    channels = [{**SPEC["channels"][0], "data_type": data_type}]
    found = configs(channels=channels)["config/processingjobconfig.json"]["ProcessingInputs"]
    assert [one["S3Input"]["S3DataType"] for one in found] == [data_type, "S3Prefix"]


def test_there_are_two_files_and_no_field_more() -> None:
    found = configs()
    assert set(found) == {"config/resourceconfig.json", "config/processingjobconfig.json"}
    assert found["config/resourceconfig.json"] == {"current_host": "algo-2", "hosts": ["algo-1", "algo-10", "algo-2"]}
    assert len(found["config/processingjobconfig.json"]) == 9


def test_a_job_of_an_image_finds_its_name_there() -> None:
    found = configs(image="train:1")["config/processingjobconfig.json"]
    assert found["AppSpecification"]["ImageUri"] == "train:1"


@pytest.mark.parametrize(
    ("changes", "entrypoint", "arguments"),
    [
        ({"hyperparameters": {}, "arguments": []}, ["python3", THERE], None),
        ({"source_dir": SOURCE_DIR, "hyperparameters": {}}, ["/bin/bash", RUNPROC], SPEC["arguments"]),
        ({"entry_point": "run.sh", "arguments": []}, ["/opt/ml/processing/input/code/run.sh"], ["-n", "3"]),
        ({"entry_point": "", "arguments": []}, ["python3", "process.py"], ["-n", "3"]),
        ({"command": ["Rscript", "-v"], "arguments": []}, ["Rscript", "-v", THERE], ["-n", "3"]),
        (
            {"command": ["Rscript"], "source_dir": SOURCE_DIR, "hyperparameters": {}},
            ["/bin/bash", RUNPROC],
            SPEC["arguments"],
        ),
        ({"command": ["train", "now"], "entry_point": "", "arguments": ["a"]}, ["train", "now"], ["a"]),
    ],
)
def test_entry_point_and_arguments_of_the_container(
    changes: dict[str, Any], entrypoint: list[str], arguments: list[str] | None
) -> None:
    found = configs(**changes)["config/processingjobconfig.json"]["AppSpecification"]
    assert (found["ContainerEntrypoint"], found["ContainerArguments"]) == (entrypoint, arguments)


AGAIN = """
import json, os, subprocess, sys
base = os.environ["SAGEMAKER_BASE_DIR"]
config = json.load(open(f"{base}/config/processingjobconfig.json"))
if sys.argv[1:] != ["once", "more"]:
    entrypoint = config["AppSpecification"]["ContainerEntrypoint"]
    done = subprocess.run([*entrypoint, "once", "more"], capture_output=True, text=True, cwd="/", check=True)
    there = [one["S3Input"]["LocalPath"].replace(base, "") for one in config["ProcessingInputs"]]
    print(json.dumps([done.stdout.split(), there, sorted(os.listdir("."))]))
else:
    import helper
    print(os.getcwd().replace(base, ""), helper.X, *sys.argv)
"""


@pytest.mark.parametrize("name", ["again.py", "own.sh"])
def test_a_folder_of_code_lies_there_as_a_framework_processor_leaves_it_and_its_starter_starts_the_script(
    agent: Agent, tmp_path: Path, name: str
) -> None:
    shell = '#!/bin/sh\nexec python3 again.py "$@"\n'
    source = packed(tmp_path, {"again.py": AGAIN, "helper.py": "X = 1\n", "own.sh": shell})
    record = agent.run(AGAIN if name == "again.py" else shell, kind="process", source_dir=source, entry_point=name)
    assert record["exit_code"] == 0, record["text"]
    code = "/processing/input/code"
    said, inputs, files = json.loads(record["text"])
    assert said == [code, "1", "again.py", "once", "more"]
    assert inputs == [code, "/processing/input/entrypoint"]
    assert [one for one in files if one != "__pycache__"] == ["again.py", "helper.py", "own.sh", "sourcedir.tar.gz"]
    lists = "import os; print(sorted(os.listdir('.')))"
    source = packed(tmp_path, {"lists.py": lists})
    record = agent.run(lists, source_dir=source, entry_point="lists.py")
    assert record["text"] == "['lists.py']\n", "a training job has no archive there"


def test_a_processing_script_finds_its_outputs_made_and_gets_its_words_as_they_are(
    agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("of the host")
    script = f"""
import json, os, sys
out = os.environ["SMX_OUTPUT_TABLE"]
made = os.path.isdir(out)
open(out + "/rows.csv", "w").write("1")
os.makedirs(out + "/deep")
open(out + "/deep/more.csv", "w").write("2")
os.symlink({str(tmp_path / "secret")!r}, out + "/linked.csv")
os.symlink({str(tmp_path)!r}, out + "/folder")
os.makedirs(os.environ["SAGEMAKER_BASE_DIR"] + "/output", exist_ok=True)
open(os.environ["SAGEMAKER_BASE_DIR"] + "/output/message", "w").write("2 rows left out")
names = sorted(name for name in os.environ if name.startswith("SM_"))
print(json.dumps([made, sys.argv[1:], names, "TRAINING_JOB_NAME" in os.environ]))
sys.exit(4)
"""
    record = agent.run(
        script,
        kind="process",
        entry_point="clean.py",
        arguments=["--split", "0.2", "", "it's $HOME", "--split"],
        outputs=[{"name": "table", "path": "/opt/ml/processing/table"}],
    )
    seen = json.loads(record["text"])
    assert seen == [True, ["--split", "0.2", "", "it's $HOME", "--split"], [], False]
    # After a failure, too; links are not followed.
    assert [one["name"] for one in record["artifacts"]] == ["outputs/table/deep/more.csv", "outputs/table/rows.csv"]
    assert (record["message"], record["exit_code"], record["reason"]) == ("2 rows left out", 4, "")


def test_a_message_that_is_no_text_is_told_apart(agent: Agent) -> None:
    write = "import os; open(os.environ['SAGEMAKER_BASE_DIR'] + '/output/message', 'wb').write(b'\\xff')"
    assert agent.run(write, kind="process")["message"] is None
    assert agent.run(write)["message"] == ""
    assert agent.run("pass", kind="process")["message"] == ""
