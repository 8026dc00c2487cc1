"""Clients of AWS on warm pools: starts, waiters, Describe and ``fit()``, each beside its limit.

The front and the controller are processes of a data folder of their own. Starts alternate with those of the same
script by ``smx.train``, and Describe alternates with ``GetCallerIdentity``, which needs neither job nor controller.
SDK 2 is not measured unless ``--sdk`` names a folder that has it. The buckets have a part of their own, ``s3``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.place import ROOT, client, percentile, place, print_machine
from jupyter_smx.aws_endpoint import process, switch
from jupyter_smx.aws_endpoint.sdk_config import ROLE_ARN, default_bucket

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

PAUSE = 0.15
"""Seconds before each job."""
WARM_UPS = 3
KEEP_ALIVE = 600
"""Seconds that a pool is kept."""
LENGTHS = (3, 15)
LONG = 40
"""Seconds of jobs of which a waiter waits for the end; the long one with ``--long``."""
DESCRIBES = 200
FIT = 3
"""Seconds of the job of ``fit()``."""
START_LIMIT, WAITER_LIMIT, DESCRIBE_LIMIT, FIT_LIMIT = 12.0, 150.0, 5.0, 7_000.0
"""Milliseconds; the first is the difference to ``smx.train``, and SDK 2 itself sleeps for 5 s of the last."""
SDK_PATIENCE = 240.0
"""Seconds that the process with the SDK may take."""
_FRAMEWORK = "sagemaker-scikit-learn:1.2-1-cpu-py3"
_SLEEP = "import sys, time\nprint('begin', flush=True)\ntime.sleep(float(sys.argv[sys.argv.index('--seconds') + 1]))\n"
_FIT = f"""
import json, time
from sagemaker.sklearn import SKLearn
estimator = SKLearn(entry_point="train.py", role="Smx", instance_type="ml.m5.large", framework_version="1.2-1",
                    py_version="py3", hyperparameters={{"seconds": {FIT}}}, keep_alive_period_in_seconds={KEEP_ALIVE})
took = []
for _ in range(2):
    began = time.time()
    estimator.fit()
    took.append(time.time() - began)
print(json.dumps(took))
"""


@dataclass(frozen=True)
class Figure:
    """One row of the table, in milliseconds."""

    name: str
    value: float
    limit: float

    def line(self) -> str:
        """Return the row with its verdict."""
        verdict = "ok" if self.value <= self.limit else "missed"
        return f"  {self.name:44} {self.value:9.2f} {self.limit:9.2f}  {verdict}"


class Clients:
    """Clients of boto3, or of botocore where boto3 is not installed, and the jobs that they create."""

    def __init__(self) -> None:
        self.sagemaker, self.s3, self.sts = (_new_client(name) for name in ("sagemaker", "s3", "sts"))
        self.bucket = default_bucket(self.sagemaker.meta.region_name)
        self.s3.create_bucket(Bucket=self.bucket)
        self.s3.put_object(Bucket=self.bucket, Key="code/sourcedir.tar.gz", Body=_archive(_SLEEP))
        self._numbers = itertools.count(1)

    def create(self, seconds: float) -> str:
        """Create a job of some seconds, and return its name."""
        name = f"bench-{next(self._numbers)}"
        self.sagemaker.create_training_job(
            TrainingJobName=name,
            RoleArn=ROLE_ARN,
            AlgorithmSpecification={"TrainingImage": _FRAMEWORK, "TrainingInputMode": "File"},
            HyperParameters={
                "sagemaker_program": '"train.py"',
                "sagemaker_submit_directory": f'"s3://{self.bucket}/code/sourcedir.tar.gz"',
                "seconds": str(seconds),
            },
            OutputDataConfig={"S3OutputPath": f"s3://{self.bucket}/out"},
            ResourceConfig={
                "InstanceType": "ml.m5.large",
                "InstanceCount": 1,
                "VolumeSizeInGB": 5,
                "KeepAlivePeriodInSeconds": KEEP_ALIVE,
            },
            StoppingCondition={"MaxRuntimeInSeconds": 600},
        )
        return name

    def wait(self, name: str) -> None:
        """Wait for the end of a job as boto3's waiter does."""
        self.sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName=name)

    def describe(self, name: str) -> Any:
        """Describe a job."""
        return self.sagemaker.describe_training_job(TrainingJobName=name)


def run(options: argparse.Namespace) -> None:
    """Print all figures beside their limits."""
    if importlib.util.find_spec("botocore") is None:
        print('botocore: not installed here, not measured: pip install "jupyter-smx[aws]"')
        return
    print_machine()
    print(f"clients of {_package()}")
    print(f"  {'milliseconds':44} {'here':>9} {'limit':>9}")
    with place(), _led_here():
        clients = Clients()
        for figures in (_starts(clients, options), _waiters(clients, options), _describes(clients), _fits(options)):
            for figure in figures:
                print(figure.line(), flush=True)


@contextlib.contextmanager
def _led_here() -> Iterator[None]:
    """Lead the clients of this process to a front, which ends afterwards."""
    plan = switch.plan_on(os.environ, lambda _: None, "local", "")
    switch.lead_children(plan)
    try:
        yield
    finally:
        switch.turn_off(os.environ)
        process.stop_front()


def _package() -> str:
    return "boto3" if importlib.util.find_spec("boto3") else "botocore"


def _new_client(service: str) -> Any:
    if _package() == "boto3":
        return importlib.import_module("boto3").client(service)
    return importlib.import_module("botocore.session").Session().create_client(service)


def _archive(script: str) -> bytes:
    """Return the archive that an SDK makes of a script."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        member = tarfile.TarInfo("train.py")
        member.size = len(script)
        packed.addfile(member, io.BytesIO(script.encode()))
    return content.getvalue()


def _starts(clients: Clients, options: argparse.Namespace) -> Iterator[Figure]:
    """Measure calls until the first line, in turns with the same script by this package's own interface."""
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    with tempfile.TemporaryDirectory(prefix="smx-bench-aws-") as folder:
        script = Path(folder, "train.py")
        script.write_text(_SLEEP, encoding="utf-8")

        def local() -> float:
            began = time.time()
            job = smx.train(script, hyperparameters={"seconds": 0}, keep_alive="10m").wait()
            return _milliseconds(began, job.latest_record)

        def remote() -> float:
            began = time.time()
            name = clients.create(0)
            clients.wait(name)
            return _milliseconds(began, client().job(name))

        for _ in range(WARM_UPS):
            local(), remote()
        found: dict[str, list[float]] = {"local": [], "remote": []}
        for _ in range(options.jobs):
            for name, start in (("local", local), ("remote", remote)):
                time.sleep(PAUSE)
                found[name].append(start())
    middles = {name: percentile(values, 0.5) for name, values in found.items()}
    print(f"  {'smx.train to the first line, p50':44} {middles['local']:9.2f}")
    yield Figure("create_training_job to the first line, p50", middles["remote"], middles["local"] + START_LIMIT)


def _milliseconds(began: float, record: Any) -> float:
    """Return the time from a call to the first line of its job."""
    if record.status().value != "Completed":
        raise SystemExit(f"{record.name}: {record.failure_reason}")
    return float(record.timings["first_line"] - began) * 1000


def _waiters(clients: Clients, options: argparse.Namespace) -> Iterator[Figure]:
    """Measure how long after the end of a job its waiter returns."""
    for seconds in (*LENGTHS, *((LONG,) if options.long else ())):
        name = clients.create(seconds)
        clients.wait(name)
        back = time.time()
        ended = clients.describe(name)["TrainingEndTime"].timestamp()
        yield Figure(f"a job of {seconds} s: its end to the waiter's return", (back - ended) * 1000, WAITER_LIMIT)


def _describes(clients: Clients) -> Iterator[Figure]:
    """Measure Describe of a job that has ended and of one that runs, in turns with a call without a job."""
    ended, running = clients.create(0), clients.create(500)
    clients.wait(ended)
    while clients.describe(running)["SecondaryStatus"] != "Training":
        time.sleep(0.05)
    calls = {
        "get_caller_identity, p50": clients.sts.get_caller_identity,
        "describe_training_job, ended, p50": lambda: clients.describe(ended),
        "describe_training_job, running, p50": lambda: clients.describe(running),
    }
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(DESCRIBES):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            took[name].append((time.perf_counter() - began) * 1000)
    clients.sagemaker.stop_training_job(TrainingJobName=running)
    clients.wait(running)
    (first, base), *rest = ((name, percentile(values, 0.5)) for name, values in took.items())
    print(f"  {first:44} {base:9.2f}")
    for name, value in rest:
        yield Figure(name, value, DESCRIBE_LIMIT)


def _fits(options: argparse.Namespace) -> Iterator[Figure]:
    """Measure the second ``fit()`` of SDK 2, in a process of its own, since its packages are others."""
    if not options.sdk or not Path(options.sdk, "sagemaker").is_dir():
        print("  SDK 2: not in the folder of --sdk, not measured")
        return
    with tempfile.TemporaryDirectory(prefix="smx-bench-sdk-") as folder:
        Path(folder, "train.py").write_text(_SLEEP, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path(options.sdk).resolve()), str(ROOT)))}
        done = subprocess.run(
            [sys.executable, "-c", _FIT],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SDK_PATIENCE,
        )
    if done.returncode:
        raise SystemExit(f"SDK 2: {done.stderr.strip()[-600:]}")
    cold, warm = json.loads(done.stdout.splitlines()[-1])
    print(f"  {f'fit() of SDK 2, the first job of {FIT} s':44} {cold * 1000:9.2f}")
    yield Figure(f"fit() of SDK 2, a warm job of {FIT} s", warm * 1000, FIT_LIMIT)
