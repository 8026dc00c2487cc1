"""CreateProcessingJob as the processors of SDK 2 send it, translated: entry points, inputs, outputs, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from calls import BUCKET, ROLE, SKLEARN

from jupyter_smx.aws.sagemaker.requests.processing import CODE, ENTRY_POINT, translate_processing
from jupyter_smx.aws.sagemaker.requests.s3_paths import put_placeholder
from jupyter_smx.aws.sagemaker.requests.translation import Code, TranslatedRequest, TranslationContext
from jupyter_smx.aws.service import AwsError
from jupyter_smx.model.request_texts import fill
from jupyter_smx.model.spec.channel import Output
from jupyter_smx.model.spec.distribution import Distribution

if TYPE_CHECKING:
    from pathlib import Path

RUNPROC = """#!/bin/bash
cd /opt/ml/processing/input/code/
tar -xzf sourcedir.tar.gz
set -e
if [[ -f 'requirements.txt' ]]; then
    pip install -r requirements.txt
fi
{line}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for key in ("job/code/prep.py", "job/data/a.csv", "job/source/sourcedir.tar.gz", "job/source/runproc.sh"):
        (tmp_path / BUCKET / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / BUCKET / key).write_text(RUNPROC.format(line='python prep.py "$@"'))
    return tmp_path


def an_input(name: str, key: str, path: str, **members: Any) -> dict[str, Any]:
    s3 = {"S3Uri": f"s3://{BUCKET}/{key}", "LocalPath": path, "S3DataType": "S3Prefix", "S3InputMode": "File"}
    return {"InputName": name, "AppManaged": False, "S3Input": {**s3, "S3CompressionType": "None", **members}}


def a_request(entry: list[str], *inputs: dict[str, Any], words: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    cluster = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}
    app = {"ImageUri": SKLEARN, "ContainerEntrypoint": entry} | ({"ContainerArguments": [*words]} if words else {})
    return {
        "ProcessingJobName": "job",
        "ProcessingInputs": list(inputs),
        "ProcessingResources": {"ClusterConfig": cluster},
        "AppSpecification": app if entry else {"ImageUri": SKLEARN},
        "RoleArn": ROLE,
        **members,
    }


def translate(request: dict[str, Any], root: Path | None, **here: Any) -> TranslatedRequest:
    context = TranslationContext(s3_root=root, instance_types=("ml.m5.large", "local"), **here)
    return translate_processing(request, context)


def refusal(request: dict[str, Any], root: Path, **here: Any) -> str:
    with pytest.raises(AwsError) as caught:
        translate(request, root, **here)
    assert caught.value.code == "ValidationException"
    return caught.value.message


SCRIPT = an_input("code", "job/code/prep.py", CODE)
DATA = an_input("input-1", "job/data", "/opt/ml/processing/input/data")


def test_a_script_processor_runs_its_script_without_a_channel_for_it(root: Path) -> None:
    request = a_request(["python3", f"{CODE}/prep.py"], DATA, SCRIPT, words=("--n", "a b"))
    found = translate(request, root, processing_keep_alive=600)
    script = str(root / BUCKET / "job/code/prep.py")
    assert found.code == Code(entry_point=script, arguments=("--n", "a b"))
    assert [channel.name for channel in found.channels] == ["input-1"]
    assert found.fields["keep_alive"] == 600
    assert "keep_alive" not in translate(request, root).fields
    other = translate(a_request(["Rscript", "--vanilla", f"{CODE}/prep.py"], SCRIPT), root)
    assert other.code == Code(entry_point=script, command=("Rscript", "--vanilla"))
    folder = translate(a_request(["python3", f"{CODE}/prep.py"], an_input("code", "job/code", CODE)), root)
    assert folder.code == Code(source=str(root / BUCKET / "job/code"), entry_point="prep.py")


def test_of_preferences_the_first_has_the_hosts(root: Path) -> None:
    """The newest API requires neither a type nor a count beside them."""
    request = a_request(["python3", f"{CODE}/prep.py"], SCRIPT)
    preferences = [{"InstanceType": "ml.m5.large", "InstanceCount": 2}, {"InstanceType": "ml.c5.large"}]
    for cluster, count in (({"InstancePreferences": preferences}, 2), ({"InstanceType": "ml.m5.large"}, 1)):
        (group,) = translate({**request, "ProcessingResources": {"ClusterConfig": cluster}}, root).groups
        assert (group.instance_type, group.instance_count) == ("ml.m5.large", count)
    text = refusal({**request, "ProcessingResources": {"ClusterConfig": {"InstanceCount": 0}}}, root)
    assert text.startswith("ProcessingResources.ClusterConfig.InstanceCount: 0 is not a number of hosts.")


def test_a_script_that_is_not_its_input_is_named(root: Path) -> None:
    text = refusal(a_request(["python3", f"{CODE}/none.py"], SCRIPT), root)
    assert text == (
        "AppSpecification.ContainerEntrypoint: none.py is not in the input code, which is the file prep.py alone."
    )


def test_a_framework_processor_runs_the_script_that_its_shell_script_names(root: Path) -> None:
    code = an_input("code", "job/source/sourcedir.tar.gz", f"{CODE}/")
    starter = an_input("entrypoint", "job/source/runproc.sh", ENTRY_POINT)
    request = a_request(["/bin/bash", f"{ENTRY_POINT}/runproc.sh"], DATA, code, starter, words=("--x",))
    found = translate(request, root)
    archive = str(root / BUCKET / "job/source/sourcedir.tar.gz")
    assert found.code == Code(source=archive, entry_point="prep.py", arguments=("--x",))
    assert [channel.name for channel in found.channels] == ["input-1"]
    script = root / BUCKET / "job/source/runproc.sh"
    script.write_text(RUNPROC.format(line='python3 -u "my prep.py" "$@"'))
    assert translate(request, root).code.command == ("python3", "-u")
    for wrong in ("echo done", "python prep.py", 'python \'prep.py "$@"'):
        script.write_text(RUNPROC.format(line=wrong))
        assert "FrameworkProcessor" in refusal(request, root)


def test_spark_and_commands(root: Path) -> None:
    spark = translate(a_request(["smspark-submit", "--verbose", f"{CODE}/prep.py"], SCRIPT), root)
    assert spark.distribution == Distribution(runner="pyspark")
    assert spark.code.entry_point.endswith("prep.py")
    command = translate(a_request(["/bin/sh", "-c"], SCRIPT, words=("ls /opt/ml",)), root)
    assert command.code == Code(command=("/bin/sh", "-c", "ls /opt/ml"))
    assert [channel.path for channel in command.channels] == [CODE]


def test_outputs_go_to_their_folders(root: Path) -> None:
    s3 = {"S3Uri": f"s3://{BUCKET}/job/out/", "LocalPath": "/opt/ml/processing/out/", "S3UploadMode": "Continuous"}
    config = {"Outputs": [{"OutputName": "out", "S3Output": s3}], "KmsKeyId": "key"}
    request = a_request(["python3", f"{CODE}/prep.py"], SCRIPT, ProcessingOutputConfig=config)
    found = translate(request, root)
    place = str(root / BUCKET / "{job_name}/out")
    assert found.outputs == (Output(name="out", path="/opt/ml/processing/out", destination=place, mode="Continuous"),)
    assert found.notes[-1].startswith("ProcessingOutputConfig.KmsKeyId: ")
    nowhere = {"Outputs": [{"OutputName": "out", "S3Output": {**s3, "LocalPath": None}}]}
    assert "no LocalPath" in refusal({**request, "ProcessingOutputConfig": nowhere}, root)
    store = {"Outputs": [{"OutputName": "out", "FeatureStoreOutput": {"FeatureGroupName": "x"}}]}
    assert "feature store" in refusal({**request, "ProcessingOutputConfig": store}, root)


@pytest.mark.parametrize(
    ("uri", "recorded"),
    [
        ("s3://job/job/output/x", "s3://job/{job_name}/output/x"),
        ("s3://b/p/job", "s3://b/p/{job_name}"),
        ("s3://b/jobs/my-job/", "s3://b/jobs/my-job/"),
        ("s3://job", "s3://job/"),
    ],
)
def test_the_folder_of_the_jobs_name_is_that_of_each_run(root: Path, uri: str, recorded: str) -> None:
    s3 = {"S3Uri": uri, "LocalPath": "/opt/ml/processing/out"}
    config = {"Outputs": [{"OutputName": "out", "S3Output": s3}]}
    request = a_request(["python3", f"{CODE}/prep.py"], SCRIPT, ProcessingOutputConfig=config)
    (here,) = translate(request, root).outputs
    assert here.destination == str(root / recorded.removeprefix("s3://"))
    assert put_placeholder(uri, "job") == recorded
    (real,) = translate(request, None).outputs
    (again,) = fill((real,), "again")
    assert again.destination == recorded.replace("{job_name}", "again")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (an_input("x", "job/data", "/opt/ml/processing/x", S3InputMode="Pipe"), "FastFile"),
        (an_input("x", "job/data", "/opt/ml/processing/x", S3CompressionType="Gzip"), "gzip"),
        (an_input("x", "job/none", "/opt/ml/processing/x"), "No S3 objects found under S3 URL"),
        ({"InputName": "x", "DatasetDefinition": {"LocalPath": "/opt/ml/processing/x"}}, "Athena"),
    ],
)
def test_inputs_that_no_job_here_has_are_refused(root: Path, other: dict[str, Any], words: str) -> None:
    assert words in refusal(a_request(["python3", f"{CODE}/prep.py"], SCRIPT, other), root)


def test_without_an_entry_point_the_image_is_the_program(root: Path) -> None:
    assert "there is no script" in refusal(a_request([]), root)
    found = translate(a_request([]), root, engine="docker", has_images=True)
    assert found.fields["image"] == SKLEARN
