"""Values that the SageMaker service gives each job without a toolkit: region, ARN and their variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict, Mapping

from jupyter_smx.agent.paths import REGION

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

ACCOUNT = "000000000000"
"""The account in ARNs: no account of AWS, in the form of one."""
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def region_of(environment: Mapping[str, str]) -> str:
    """Return the region that AWS tools would use: of the variables, of the profile in AWS's config file, or ours."""
    for name in _REGION_VARIABLES:
        if environment.get(name):
            return environment[name]
    path = environment.get("AWS_CONFIG_FILE") or os.path.join(environment.get("HOME", ""), ".aws", "config")
    if not os.path.isfile(path):
        return REGION
    import configparser  # noqa: PLC0415 - needed only if the file exists

    profile = environment.get("AWS_PROFILE") or "default"
    section = profile if profile == "default" else f"profile {profile}"
    found = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        found.read(path, encoding="utf-8")
    except (OSError, UnicodeError, configparser.Error):
        return REGION  # a file of the user's that no tool of AWS could read either
    return found.get(section, "region", fallback="") or REGION


def requested_region(own: Mapping[str, str], otherwise: str) -> str:
    """Return the region of one job: from its own variables, else that of its host."""
    return next((own[name] for name in _REGION_VARIABLES if own.get(name)), otherwise)


def job_region(spec: CompleteSpec, host_info: HostInfo) -> str:
    """Return the region of the job of a specification."""
    return requested_region(spec.get("environment") or {}, host_info.region)


def format_arn(kind: str, name: str, where: str) -> str:
    """Return the ARN of a job, its name among all resources of AWS, in a region."""
    what = "processing-job" if kind == "process" else "training-job"
    return f"arn:aws:sagemaker:{where}:{ACCOUNT}:{what}/{name}"


def job_arn(spec: CompleteSpec, host_info: HostInfo) -> str:
    """Return the ARN of the job of a specification."""
    return format_arn(spec["kind"], spec.get("name", ""), job_region(spec, host_info))


def variables(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the variables that exist in any image; the cache of a warm pool only if the job keeps one."""
    found = {"AWS_REGION": job_region(spec, host_info)}
    if spec["kind"] == "train":
        found["TRAINING_JOB_NAME"] = spec.get("name", "")
        found["TRAINING_JOB_ARN"] = job_arn(spec, host_info)
    if spec["warm_pool"]:
        found["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] = host_info.path("sagemaker", "warmpoolcache")
    return found
