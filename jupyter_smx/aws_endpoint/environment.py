"""The environment variables that lead clients of AWS to the front, and the way back to what was there before.

Each service has a variable of its own, so that services that are not here stay at AWS. A variable that had a value
before is saved beside it under another name, so that kernels and terminals that inherit the variables have the way
back, too.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint.endpoint_file import HOST, KEY_PREFIX, URL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping
    from pathlib import PurePath

    from jupyter_smx.aws_endpoint.endpoint_file import Endpoint

S3Place = Literal["local", "aws"]
Shell = Literal["bash", "fish", "dotenv", "json"]
SHELLS: tuple[Shell, ...] = ("bash", "fish", "dotenv", "json")
MARK, SAVED = controller_launch.AWS_VARIABLES, controller_launch.AWS_SAVED_PREFIX

SERVICE_IDS = ("SAGEMAKER", "SAGEMAKER_METRICS", "SAGEMAKER_RUNTIME", "CLOUDWATCH_LOGS", "CLOUDWATCH", "STS", "IAM")
"""Services as the names of variables have them; S3 is apart, because real buckets may be used."""
_ADDRESS = "AWS_ENDPOINT_URL_"
SDK_CONFIG = "SAGEMAKER_ADMIN_CONFIG_OVERRIDE"
"""Names the file with the defaults of SageMaker's SDK: role and bucket."""
DEFAULT_REGION = "us-east-1"
_ACCESS_KEY, _SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_NO_PROXY = ("no_proxy", "NO_PROXY")


@dataclass(frozen=True)
class EnvironChange:
    """One variable to set; to the value of ``source`` if that is a name, and to remove if there is neither."""

    name: str
    value: str | None = None
    source: str = ""


def is_on(environ: Mapping[str, str]) -> bool:
    """Return True if clients of AWS are led here."""
    return bool(environ.get(MARK))


def region_of(environ: Mapping[str, str]) -> str:
    """Return the region of the variables, else ours; ``aws_config`` has that of AWS's own configuration."""
    return environ.get("AWS_DEFAULT_REGION") or environ.get("AWS_REGION") or DEFAULT_REGION


def client_variables(
    endpoint: Endpoint, sdk_config: PurePath, environ: Mapping[str, str], s3: S3Place = "local"
) -> dict[str, str | None]:
    """Return the variables that lead clients to the front; None removes one that would lead them elsewhere."""
    services = (*SERVICE_IDS, "S3") if s3 == "local" else SERVICE_IDS
    return {
        **{f"{_ADDRESS}{service}": endpoint.url for service in services},
        _ACCESS_KEY: endpoint.access_key,
        _SECRET: endpoint.secret_key,
        "AWS_SESSION_TOKEN": None,
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": None,
        "AWS_DEFAULT_REGION": region_of(environ),
        "AWS_EC2_METADATA_DISABLED": "true",
        SDK_CONFIG: str(sdk_config),
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
        **_proxy_variables(environ),
    }


def _proxy_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return what keeps a proxy out of requests to this machine."""
    if not any(environ.get(name) for name in _PROXIES):
        return {}
    before = next((environ[name] for name in _NO_PROXY if environ.get(name)), "")
    parts = [part for part in before.split(",") if part]
    value = ",".join(parts if HOST in parts else [*parts, HOST])
    return dict.fromkeys(_NO_PROXY, value)


def switch_on(environ: Mapping[str, str], variables: Mapping[str, str | None]) -> list[EnvironChange]:
    """Return the changes that set variables and save what they replace; variables that are set already are renewed."""
    changes = switch_off(environ)
    before = apply_changes(dict(environ), changes)
    for name, value in variables.items():
        if name in before:
            changes.append(EnvironChange(f"{SAVED}{name}", source=name))
        if name in before or value is not None:
            changes.append(EnvironChange(name, value))
    return [*changes, EnvironChange(MARK, ",".join(variables))]


def switch_off(environ: Mapping[str, str]) -> list[EnvironChange]:
    """Return the changes that restore what was there before; none if clients of AWS are not led here."""
    if not is_on(environ):
        return []
    changes = []
    for name in environ[MARK].split(","):
        saved = f"{SAVED}{name}"
        if saved in environ:
            changes += [EnvironChange(name, source=saved), EnvironChange(saved)]
        elif name in environ:
            changes.append(EnvironChange(name))
    return [*changes, EnvironChange(MARK)]


def hide_secret(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job as records have them: a secret key that the front added is empty.

    :func:`renew_variables` fills it in for each run.
    """
    return {**own, _SECRET: ""} if _SECRET in _variables_of_front(own) else dict(own)


def _variables_of_front(own: Mapping[str, str]) -> set[str]:
    """Return the names of the variables that the front added to a job, without those that the user replaced.

    A job may have all variables of a kernel, the mark included, and some others in their place.
    """
    added = set(own.get(MARK, "").split(","))
    if not own.get(_ACCESS_KEY, "").startswith(KEY_PREFIX):
        added -= {_ACCESS_KEY, _SECRET}
    return {name for name in added if not name.startswith(_ADDRESS) or own.get(name, "").startswith(URL_PREFIX)}


def renew_variables(own: Mapping[str, str], endpoint: Endpoint | None) -> dict[str, str]:
    """Return the variables of a job for a run, with the address and the key that the front has now.

    Only those that the front added are replaced; without a front (``endpoint`` None) they are left out.
    """
    if endpoint is None:
        return controller_launch.leave_front(own)
    values = dict.fromkeys((f"{_ADDRESS}{service}" for service in (*SERVICE_IDS, "S3")), endpoint.url)
    values |= {_ACCESS_KEY: endpoint.access_key, _SECRET: endpoint.secret_key}
    added = _variables_of_front(own)
    return {name: values.get(name, value) if name in added else value for name, value in own.items()}


def apply_changes(environ: MutableMapping[str, str], changes: Iterable[EnvironChange]) -> MutableMapping[str, str]:
    """Make the changes in ``environ``, and return it."""
    for change in changes:
        value = environ.get(change.source) if change.source else change.value
        if value is None:
            environ.pop(change.name, None)
        else:
            environ[change.name] = value
    return environ


def format_changes(changes: Iterable[EnvironChange], shell: Shell) -> str:
    """Return what a shell evaluates, or a document with the variables; only a shell can save what they replace."""
    if shell == "json":
        values = {change.name: change.value for change in changes if _is_document_part(change)}
        return msgspec.json.format(msgspec.json.encode(values)).decode()
    if shell == "dotenv":
        parts = [change for change in changes if _is_document_part(change) and change.value is not None]
        return "\n".join(f"{change.name}={_quote_double(change.value or '')}" for change in parts)
    form = _format_fish if shell == "fish" else _format_bash
    return "\n".join(map(form, changes))


def _is_document_part(change: EnvironChange) -> bool:
    return not change.source and not change.name.startswith((SAVED, MARK))


def _format_bash(change: EnvironChange) -> str:
    if change.source:
        return f'export {change.name}="${change.source}"'
    return f"unset {change.name}" if change.value is None else f"export {change.name}={shlex.quote(change.value)}"


def _format_fish(change: EnvironChange) -> str:
    if change.source:
        return f'set -gx {change.name} "${change.source}"'
    if change.value is None:
        return f"set -e {change.name}"
    escaped = change.value.replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {change.name} '{escaped}'"


def _quote_double(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
