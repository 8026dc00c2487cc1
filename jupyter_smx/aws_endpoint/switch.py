"""Lead the clients of a shell or a kernel to the front, and back to AWS."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.aws_endpoint import aws_config, environment, process, profile, sagemaker_patch
from jupyter_smx.aws_endpoint.sdk_config import write_sdk_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from jupyter_smx.aws_endpoint.environment import EnvironChange, S3Place

_PYTHON_STARTUP = str(Path(__file__).with_name("python_startup"))
BACK_IN_A_TERMINAL = 'eval "$(jupyter smx aws env --off)"'
BACK_IN_A_NOTEBOOK = "%smx aws off"


@dataclass(frozen=True)
class Switch:
    """The changes of variables that lead clients to the front, its address, and the sentence about them."""

    changes: list[EnvironChange]
    url: str
    sentence: str


def plan_on(
    environ: Mapping[str, str],
    report: Callable[[str], None],
    s3: S3Place | None,
    back: str,
    settings: Sequence[str] = (),
) -> Switch:
    """Start the front unless it runs, and return what leads clients of ``environ`` to it. Blocks.

    ``settings`` are words for a front that is started.

    :raises SmxError: the front cannot be started, or runs with other buckets.
    """
    front = process.start_front(report, s3, settings=settings)
    region = aws_config.configured_region(environ)
    sdk_config = write_sdk_config(region, front.s3)
    here = {**environ, "AWS_DEFAULT_REGION": region}
    variables = environment.client_variables(front.endpoint, sdk_config, here, front.s3)
    variables |= python_variables(environ, _PYTHON_STARTUP)
    buckets = "its buckets are folders here" if front.s3 == "local" else "its buckets are those of AWS"
    sentence = (
        f"AWS → local: new clients of SageMaker train on this machine ({front.endpoint.url}), and {buckets}. "
        f"Back to AWS: {back}"
    )
    return Switch(environment.switch_on(environ, variables), front.endpoint.url, sentence)


def python_variables(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the variable by which each Python process of a shell imports the startup module of ``folder`` first."""
    before = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part not in ("", folder)]
    return {"PYTHONPATH": os.pathsep.join([folder, *before])}


def lead_children(plan: Switch) -> None:
    """Set the variables in this process, so that its children inherit them."""
    environment.apply_changes(os.environ, plan.changes)


def turn_on(report: Callable[[str], None], s3: S3Place | None, back: str) -> str:
    """Lead the clients of this process and of its children to the front; return the sentence about it. Blocks.

    :raises SmxError: the front cannot be started, or runs with other buckets.
    """
    plan = plan_on(os.environ, report, s3, back)
    lead_children(plan)
    sagemaker_patch.install_patch()
    return plan.sentence


def turn_off(environ: MutableMapping[str, str]) -> bool:
    """Restore the variables from before; False if clients are not led to the front."""
    sagemaker_patch.remove_patch()
    changes = environment.switch_off(environ)
    environment.apply_changes(environ, changes)
    return bool(changes)


@dataclass(frozen=True)
class Profile:
    """A profile that leads to the front: the file that has it, and the file that SageMaker's SDK needs beside it."""

    path: Path
    sdk_config: Path

    def format_exports(self, name: str) -> str:
        """Return the line of a shell by which SageMaker's SDK uses the profile."""
        return f"export AWS_PROFILE={name} {environment.SDK_CONFIG}={shlex.quote(str(self.sdk_config))}"


def add_profile(name: str, environ: Mapping[str, str], report: Callable[[str], None], s3: S3Place | None) -> Profile:
    """Write a profile that leads to the front into AWS's configuration file. Blocks.

    :raises SmxError: the front cannot be started, or the name is taken.
    """
    profile.check_name(name)
    front = process.start_front(report, s3)
    path, region = aws_config.config_path(environ), aws_config.configured_region(environ)
    profile.write_profile(path, name, profile.format_profile(name, front.endpoint, region, front.s3))
    return Profile(path, write_sdk_config(region, front.s3))
