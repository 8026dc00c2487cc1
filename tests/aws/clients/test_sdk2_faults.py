"""Front and controller are killed while ``fit()`` of SageMaker's Python SDK 2 follows its job."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from aws_client import restart_front

from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

LINES = 32
PATIENCE = 100.0
"""Seconds until a job has begun, with all that its client does before."""
TRAIN = f"""
import pathlib, time
for number in range({LINES}):
    print("<line", number, ">", flush=True)
    pathlib.Path({{folder!r}}, str(number)).touch()
    time.sleep(1)
"""


def kill_controller() -> None:
    with closing(autostart.client()) as client:
        pid = client.controller_info().pid
    os.kill(pid, signal.SIGKILL)


def test_fit_prints_each_line_once_although_front_and_controller_are_killed(sdk: AwsClient) -> None:
    (sdk.folder / "train.py").write_text(TRAIN.format(folder=str(sdk.folder)), encoding="utf-8")
    with ThreadPoolExecutor(1) as threads:
        fit = threads.submit(
            sdk.run,
            """
from sagemaker.sklearn import SKLearn
made = SKLearn(entry_point="train.py", role="Smx", instance_type="ml.m5.large", framework_version="1.2-1",
               py_version="py3")
made.fit()
result = made.latest_training_job.describe()["TrainingJobStatus"]
""",
            limit=200.0,
        )
        for line, act in (("17", restart_front), ("22", kill_controller)):  # the SDK looks into the log each 10 s
            eventually_blocking((sdk.folder / line).exists, within=PATIENCE)
            act()
        ran = fit.result()
    assert ran.result == "Completed"
    assert [int(number) for number in re.findall(r"<line (\d+) >", ran.output)] == list(range(LINES))
    assert ran.names == []
    stop_everything()  # the controller that the front started
