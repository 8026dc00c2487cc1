"""One user of a shared machine, as a process of that user: train with an own front, then visit the front of another.

Each command prints one line of JSON. The caller is ``aws_users``.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint import environment, process
from jupyter_smx.aws_endpoint.endpoint_file import endpoint_path, ensure_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

BUCKET = "sagemaker-us-east-1-000000000000"
SCRIPT = """
import os
from botocore.session import Session
body = str(os.getuid()).encode()
Session().create_client("s3").put_object(Bucket=os.environ["BUCKET"], Key="account", Body=body)
"""


def client(service: str, url: str) -> Any:
    """Return a client of a service at ``url`` with this user's own key."""
    endpoint = ensure_endpoint()
    return Session().create_client(
        service,
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id=endpoint.access_key,
        aws_secret_access_key=endpoint.secret_key,
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def code_archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.py")
        member.size = len(SCRIPT)
        archive.addfile(member, io.BytesIO(SCRIPT.encode()))
    return packed.getvalue()


def train() -> dict[str, Any]:
    """Start the front of this user, run a job by it, and describe both."""
    front = process.start_front(lambda _: None)
    url = front.endpoint.url
    sagemaker, s3 = client("sagemaker", url), client("s3", url)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="code/sourcedir.tar.gz", Body=code_archive())
    code = {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": f'"s3://{BUCKET}/code/sourcedir.tar.gz"'}
    sagemaker.create_training_job(
        TrainingJobName="own",
        RoleArn="arn:aws:iam::000000000000:role/Smx",
        AlgorithmSpecification={
            "TrainingImage": "sagemaker-scikit-learn:1.2-1-cpu-py3",
            "TrainingInputMode": "File",
        },
        HyperParameters=code,
        OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 5},
        StoppingCondition={"MaxRuntimeInSeconds": 600},
        Environment={"BUCKET": BUCKET},
    )
    sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="own")
    found = sagemaker.describe_training_job(TrainingJobName="own")
    status = endpoint_path().stat()
    return {
        "url": url,
        "folder": os.fspath(controller_launch.chosen_data_dir()),
        "front": process.describe_front()["pid"],
        "key_mode": oct(status.st_mode & 0o777),
        "key_owner": status.st_uid,
        "status": found["TrainingJobStatus"],
        "failure": found.get("FailureReason", ""),
        "account": s3.get_object(Bucket=BUCKET, Key="account")["Body"].read().decode(),
        "jobs": [row["TrainingJobName"] for row in sagemaker.list_training_jobs()["TrainingJobSummaries"]],
    }


def visit(url: str, folder: str, front: str) -> dict[str, str]:
    """Try to reach the front and the files of another user, and return how each attempt ended."""
    ensure_endpoint()
    other = Path(folder)
    attempts: dict[str, Callable[[], object]] = {
        "sts": lambda: client("sts", url).get_caller_identity(),
        "sagemaker": lambda: client("sagemaker", url).describe_training_job(TrainingJobName="own"),
        "s3": lambda: client("s3", url).get_object(Bucket=BUCKET, Key="account"),
        "no key": lambda: urllib.request.urlopen(f"{url}/{BUCKET}/account", timeout=10).read(),  # noqa: S310
        "key file": (other / "aws.json").read_bytes,
        "bucket": lambda: os.listdir(other / "s3" / BUCKET),  # noqa: PTH208
        "object": (other / "s3" / BUCKET / "account").read_bytes,
        "log": (other / "aws.log").read_bytes,
        "records": (other / "smx.sqlite").read_bytes,
        "variables of the front": Path("/proc", front, "environ").read_bytes,
    }
    return {name: outcome(attempt) for name, attempt in attempts.items()}


def outcome(attempt: Callable[[], object]) -> str:
    try:
        found = attempt()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code}"
    except OSError as error:
        return type(error).__name__
    return f"reached: {str(found)[:80]}"


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    for variable in [one for one in os.environ if one.startswith(("AWS_", environment.MARK))]:
        del os.environ[variable]
    sys.stdout.write(json.dumps(train() if name == "train" else visit(*words)))
