"""Code in buckets that are no folders of this machine, as with ``--s3 aws``: a real object store, read as for a job."""

from __future__ import annotations

import tarfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from calls import BUCKET, ROLE, SKLEARN, WAITER, Calls, archive

from jupyter_smx import controller_launch
from jupyter_smx.aws.controller_client import ControllerClient
from jupyter_smx.aws.sagemaker.requests.job_code import build_spec
from jupyter_smx.aws.sagemaker.requests.processing import CODE, ENTRY_POINT, translate_processing
from jupyter_smx.aws.sagemaker.requests.translation import TranslationContext
from jupyter_smx.aws.sagemaker.service import make_service
from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
from jupyter_smx.aws.service import AwsError
from jupyter_smx.controller.scheduling.run_request import run_spec
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.job import Job
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.testing.servers.object_storage import Bucket, bucket

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.aws.sagemaker.requests.translation import TranslatedRequest
    from jupyter_smx.model.spec.job_spec import JobSpec

__all__ = ["bucket"]
pytestmark = pytest.mark.processes

SCRIPT = "import helper\n"
RUNPROC = '#!/bin/bash\ncd /opt/ml/processing/input/code/\ntar -xzf sourcedir.tar.gz\npython3 -u main.py "$@"\n'
TOP = "s3://bucket/job"


@pytest.fixture(autouse=True)
def keys(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the front the keys of the store, and a data folder."""
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "data"))


def a_request(entry: list[str], *inputs: tuple[str, str, str]) -> dict[str, Any]:
    """Return a request with inputs of a name, a URI and a folder."""
    cluster = {"InstanceType": "local", "InstanceCount": 1, "VolumeSizeInGB": 30}
    return {
        "ProcessingJobName": "job",
        "ProcessingInputs": [
            {"InputName": name, "S3Input": {"S3Uri": uri, "LocalPath": path, "S3DataType": "S3Prefix"}}
            for name, uri, path in inputs
        ],
        "ProcessingResources": {"ClusterConfig": cluster},
        "AppSpecification": {"ImageUri": SKLEARN, "ContainerEntrypoint": entry, "ContainerArguments": ["--all"]},
        "RoleArn": ROLE,
    }


def translated(request: dict[str, Any]) -> TranslatedRequest:
    return translate_processing(request, TranslationContext(s3_root=None, instance_types=("local",)))


def spec_of(found: TranslatedRequest, tmp_path: Path) -> JobSpec:
    return build_spec(found, tmp_path, 1.0)


def framework_members() -> dict[str, Any]:
    code = ("code", f"{TOP}/source/sourcedir.tar.gz", f"{CODE}/")
    starter = ("entrypoint", f"{TOP}/source/runproc.sh", ENTRY_POINT)
    return a_request(["/bin/bash", f"{ENTRY_POINT}/runproc.sh"], code, starter)


def test_a_framework_processor_runs_the_script_that_its_object_names(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("job/source/runproc.sh", RUNPROC)
    files = {"main.py": SCRIPT, "helper.py": "NAME = 'here'\n"}
    (bucket.folder / "job/source/sourcedir.tar.gz").write_bytes(archive(files, 1))
    found = translated(framework_members())
    assert found.channels == ()
    spec = spec_of(found, tmp_path)
    assert (spec.entry_point, spec.command, spec.arguments) == ("main.py", ("python3", "-u"), ("--all",))
    assert spec.source == SCRIPT
    assert spec.source_dir is not None
    assert spec.source_dir.folder == f"{TOP}/source/sourcedir.tar.gz"
    with tarfile.open(spec.source_dir.path) as packed:
        assert sorted(packed.getnames()) == sorted(files)


def test_a_shell_script_that_is_no_framework_processors_is_refused(bucket: Bucket) -> None:
    bucket.put("job/source/runproc.sh", "echo done\n")
    with pytest.raises(AwsError, match=r"the last line of s3://bucket/job/source/runproc\.sh is 'echo done'"):
        translated(framework_members())


@pytest.mark.usefixtures("bucket")
def test_objects_that_do_not_exist_are_named() -> None:
    with pytest.raises(AwsError) as caught:
        translated(framework_members())
    assert caught.value.code == "ValidationException"
    assert caught.value.message.startswith(f"ProcessingInputs entrypoint: {TOP}/source/runproc.sh cannot be read: ")
    assert "Check the URL and the credentials of this machine." in caught.value.message


def test_a_script_processor_runs_its_object(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("job/input/code/prep.py", SCRIPT)
    bucket.put("job/input/code/other.py", "no part of the job")
    script = ("code", f"{TOP}/input/code/prep.py", CODE)
    found = translated(a_request(["python3", f"{CODE}/prep.py"], script))
    spec = spec_of(found, tmp_path)
    assert (spec.entry_point, spec.source, spec.source_dir) == ("prep.py", SCRIPT, None)
    assert spec.filename == f"{TOP}/input/code/prep.py"
    job = Job(id="a", name="job", spec=spec, created_at=1.0)
    assert run_spec(job, named_hosts(spec.instance_groups)[0], 1.0, 0)["folder"] == f"{TOP}/input/code"
    absent = translated(a_request(["python3", f"{CODE}/none.py"], ("code", f"{TOP}/input/code/none.py", CODE)))
    with pytest.raises(ValidationError, match=r"s3://bucket/job/input/code/none\.py"):
        spec_of(absent, tmp_path)


async def test_the_job_of_a_framework_processor_runs_and_its_output_is_an_object(
    bucket: Bucket, data_folder: Path
) -> None:
    """Inputs, code and outputs are objects; nothing of them is a file of the front."""
    bucket.put("job/source/runproc.sh", RUNPROC)
    main = "import helper\nopen('/opt/ml/processing/output/a.txt', 'w').write(helper.NAME)\n"
    files = {"main.py": main, "helper.py": "NAME = 'here'\n"}
    (bucket.folder / "job/source/sourcedir.tar.gz").write_bytes(archive(files, 1))
    controller = ControllerClient()
    settings = SageMakerSettings(data_folder=data_folder / "aws", s3_root=None)
    new_service = partial(make_service, controller, settings, time.time, time.monotonic)
    calls = Calls(new_service, controller, data_folder / "s3" / BUCKET)
    output = {"S3Uri": f"{TOP}/out", "LocalPath": "/opt/ml/processing/output", "S3UploadMode": "EndOfJob"}
    request = framework_members()
    request["ProcessingOutputConfig"] = {"Outputs": [{"OutputName": "out", "S3Output": output}]}
    await calls("CreateProcessingJob", **request)
    found = await calls("DescribeProcessingJob", ProcessingJobName="job", agent=WAITER)
    assert found["ProcessingJobStatus"] == "Completed", found.get("FailureReason")
    assert (bucket.folder / "job/out/a.txt").read_text() == "here"
    controller.close()
