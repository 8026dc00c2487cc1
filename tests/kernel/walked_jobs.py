"""Jobs as records, with a step each second, for tests of what is said of them in SageMaker's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jupyter_smx.kernel.sagemaker.describe import LocalContext
from jupyter_smx.model.records.cluster import WarmPool, WarmPoolStatus
from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.results.progress import MetricValue
from jupyter_smx.model.results.reports import Bill
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.lifecycle.transitions import advance

HERE = LocalContext("eu-west-1", Path("/smx/jobs"))
BILL = Bill(price_per_hour=None, billable_seconds=0.4, retained_seconds=0.0, cost=None, training_seconds=12.6)
OPERATIONS = {"train": "DescribeTrainingJob", "process": "DescribeProcessingJob"}
S3 = "s3://bucket/prefix"
TYPE = InstanceGroup(instance_type="ml.m5.xlarge", instance_count=2)
ROLE = "arn:aws:iam::111122223333:role/Smx"


def wish(kind: str = "train", **fields: Any) -> Job:
    spec: Any = {"kind": kind, "source": "pass", "base_name": "fit", "instance_groups": (TYPE,)} | fields
    waits = (Transition(status=SecondaryStatus.PENDING, start_time=1e9),)
    return Job(id="a" * 12, name="fit-aaaaaa", spec=JobSpec(**spec), created_at=1e9, modified_at=1e9, transitions=waits)


def walked(job: Job, *steps: SecondaryStatus) -> Job:
    """Take a job through steps, one a second, as the controller does."""
    for number, step in enumerate(steps, 1):
        job = advance(job, step, job.created_at + number)
    return job


RUN = (SecondaryStatus.STARTING, SecondaryStatus.DOWNLOADING, SecondaryStatus.TRAINING)
DONE = (*RUN, SecondaryStatus.UPLOADING, SecondaryStatus.COMPLETED)


def rich(kind: str) -> Job:
    """Give a job that has of everything something."""
    common = {
        "role": ROLE,
        "image": "train:1",
        "environment": {"AWS_REGION": "us-west-2", "HF_TOKEN": "hunter2"},
        "hyperparameters": {"lr": "0.1", "layers": "[1, 2]"},
        "channels": (
            Channel(name="train", source=f"{S3}/train", distribution="ShardedByS3Key", content_type="text/csv"),
        ),
    }
    if kind == "process":
        output = Output(name="clean", path="out", destination=f"{S3}/out", mode="Continuous")
        made = wish(kind, **common, arguments=("--fast",), outputs=(output,), network_isolation=True)
        return replace(walked(made, *DONE), exit_message="42 rows")
    own = {
        "metrics": {"loss": "loss=(.*)"},
        "keep_alive": 600,
        "retries": 2,
        "spot": True,
        "max_wait": 90_000,
        "checkpoint": f"{S3}/kept",
    }
    metrics = (
        MetricValue(name="loss", value=0.5, at=1e9 + 3, host="algo-1"),
        MetricValue(name="loss", value=0.25, at=1e9 + 4, host="algo-2"),
        MetricValue(name="train_runtime", value=9.5, at=1e9 + 4, host="algo-2"),
        MetricValue(name="broken", value=None, at=1e9 + 4),
    )
    pool = WarmPool(
        status=WarmPoolStatus.REUSED, reused_by_job="fit-bbbbbb", resource_retained_billable_seconds=7, reason="x"
    )
    return replace(
        walked(wish(kind, **common, **own), *DONE), metrics=metrics, warm_pool=pool, image=Image(name="train:1", id="1")
    )


def allowed(place: str, rule: str) -> bool:
    """Say whether a breach is one of the two that are meant: a place on this machine, and ``local`` as a type."""
    ours = "file:///" in rule and place.endswith(("S3Uri", "S3OutputPath", "S3ModelArtifacts"))
    return ours or (place.endswith("InstanceType") and rule == "local is not in the enum")
