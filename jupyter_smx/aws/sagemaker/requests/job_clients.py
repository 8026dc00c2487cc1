"""Lead clients of AWS in a job to the front, so that an unmodified script finds the buckets that its notebook has."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.agent import paths
from jupyter_smx.agent.contract.platform_variables import requested_region
from jupyter_smx.aws_endpoint.environment import client_variables
from jupyter_smx.aws_endpoint.sdk_config import write_sdk_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath

    from jupyter_smx.aws.sagemaker.requests.translation import TranslatedRequest
    from jupyter_smx.aws.sagemaker.settings import SageMakerSettings

_OWN_KEY = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN")
"""A variable of the user's that brings a key for AWS, which the front does not take."""
_MACHINE_ENGINE = "local"
"""The engine whose hosts are processes of this machine, whatever the version of the controller."""
_EACH_USER = 0o644
"""Mode of a file for containers, whose users have any number."""
_ONLY_CHANNELS = "Use channels and outputs for files of local buckets."

FrontAccess = Literal["", "none", "loopback", "relay", "isolated"]
"""How jobs of an engine reach the front, as its ``EngineInfo`` says; "" if its controller is too old to say it."""


def lead_clients(
    found: TranslatedRequest,
    settings: SageMakerSettings,
    access: FrontAccess,
    region: str,
    environ: Mapping[str, str],
) -> TranslatedRequest:
    """Add the variables of the front to a job, or a note if its hosts cannot reach it. Blocks.

    With real buckets a job has none: the key of the front would hide the user's own one from its script and inputs.

    :raises UnavailableError: the configuration of the SDK cannot be written.
    """
    if settings.endpoint is None or settings.s3_root is None or any(map(found.environment.get, _OWN_KEY)):
        return found
    if not access:
        access = "loopback" if settings.engine == _MACHINE_ENGINE else "none"
    if found.fields.get("network_isolation"):
        access = "isolated"
    note = _note(access, settings.engine)
    if note:
        return replace(found, notes=(*found.notes, note))
    chosen = requested_region(found.environment, region)
    if access == "relay":
        sdk_config, inherited = _write_for_containers(chosen), {}  # the proxies of this machine are not a container's
    else:
        sdk_config, inherited = write_sdk_config(chosen, "local", settings.data_folder), dict(environ)
    variables = client_variables(
        settings.endpoint, sdk_config, {**inherited, **found.environment, "AWS_DEFAULT_REGION": chosen}
    )
    return replace(found, environment=add_variables(found.environment, variables))


def _note(access: FrontAccess, engine: str) -> str:
    """Return why clients in a job do not reach the front; "" if they do."""
    if access == "isolated":
        return f"Clients of AWS in this job reach no server, because its network is isolated. {_ONLY_CHANNELS}"
    if access == "none":
        return (
            f"Clients of AWS in this job reach AWS: hosts of the engine {engine} do not find the front at 127.0.0.1 of "
            f"this machine. {_ONLY_CHANNELS}"
        )
    return ""


def _write_for_containers(region: str) -> PurePath:
    """Write the SDK's configuration into the folder that containers mount; return its path there.

    :raises UnavailableError: it cannot be written.
    """
    written = write_sdk_config(region, "local", controller_launch.aws_socket_dir(), mode=_EACH_USER)
    return PurePosixPath(paths.AWS_FRONT, written.name)


def add_variables(own: Mapping[str, str], variables: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables of a job with those that it lacks, and the mark that names these.

    An empty value hides one that the host inherits, as a session token of another key.
    """
    added = {name: value or "" for name, value in variables.items() if name not in own}
    return {**own, **added, controller_launch.AWS_VARIABLES: ",".join(added)}
