"""SageMaker's Python SDK 2 prints the logs of several hosts while their job runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

SECONDS = 35
"""Longer than the 30 s after which the SDK describes a job again, and than three of its looks into the log."""
TRAIN = f"""
import os, time
for number in range({SECONDS}):
    print(f"<{{os.environ['SM_CURRENT_HOST']}} {{number}}>", flush=True)
    time.sleep(1)
"""


def test_every_line_of_two_hosts_is_printed_once_and_in_order(sdk: AwsClient) -> None:
    (sdk.folder / "train.py").write_text(TRAIN, encoding="utf-8")
    ran = sdk.run(
        """
import datetime, sagemaker
from sagemaker.pytorch import PyTorch
made = PyTorch(entry_point="train.py", role="Smx", instance_type="ml.m5.large", instance_count=2,
               framework_version="2.1", py_version="py310")
made.fit()
over = datetime.datetime.now(datetime.timezone.utc)
about = made.latest_training_job.describe()
result = [about["TrainingTimeInSeconds"], (over - about["TrainingEndTime"]).total_seconds()]
""",
        limit=200.0,
    )
    trained, late = ran.result
    assert trained >= SECONDS
    assert late < 45
    lines = re.findall(r"<(algo-\d) (\d+)>", ran.output)
    for host in ("algo-1", "algo-2"):
        assert [int(number) for name, number in lines if name == host] == list(range(SECONDS)), host
    assert len(lines) == 2 * SECONDS
