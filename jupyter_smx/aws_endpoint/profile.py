"""Write a profile into AWS's own configuration file, and leave everything else in that file as it is."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from jupyter_smx.aws_endpoint.environment import SERVICE_IDS
from jupyter_smx.model.errors import UnavailableError, ValidationError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
    from jupyter_smx.aws_endpoint.environment import S3Place

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NOTE = "# Written by `jupyter smx aws profile`."
_ONLY_OWNER = 0o600


def check_name(name: str) -> str:
    """Return the name of a profile.

    :raises ValidationError: it is none, or is the profile that clients use without a name.
    """
    if not _NAME.fullmatch(name) or name == "default":
        raise ValidationError(
            f"{name!r} is not a name for this profile.",
            field="name",
            value=name,
            rule="A name has letters, digits, dots, dashes and underscores. The profile default stays as it is.",
            cure="Write another name, as `jupyter smx aws profile smx`.",
        )
    return name


def format_profile(name: str, endpoint: Endpoint, region: str, s3: S3Place) -> str:
    """Return the two sections of a profile: its key and region, and the addresses of its services."""
    services = (*SERVICE_IDS, "S3") if s3 == "local" else SERVICE_IDS
    urls = "".join(f"{service.lower()} =\n  endpoint_url = {endpoint.url}\n" for service in services)
    return (
        f"[profile {name}]\n{_NOTE}\n"
        f"aws_access_key_id = {endpoint.access_key}\naws_secret_access_key = {endpoint.secret_key}\n"
        f"region = {region}\nservices = {name}\n\n[services {name}]\n{urls}"
    )


def replace_profile(text: str, name: str, sections: str) -> str:
    """Return the text of a configuration file with the sections of a profile, which replace those of this program.

    :raises ValidationError: the file has a profile or services of that name which this program did not write.
    """
    kept, is_ours = [], False
    for header, body in _split_sections(text):
        if header == f"profile {name}":
            if _NOTE not in body:
                raise _taken_error(name)
            is_ours = True
        elif header == f"services {name}":
            if not is_ours and f"[profile {name}]\n{_NOTE}" not in text:
                raise _taken_error(name)
        else:
            kept.append(body)
    before = "".join(kept)
    if before and not before.endswith("\n\n"):
        before = f"{before.rstrip(chr(10))}\n\n"
    return before + sections


def _split_sections(text: str) -> list[tuple[str, str]]:
    """Return the names and the lines of a file's sections; what is before the first has no name."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        header = re.match(r"\[([^\]]*)\]", line)
        if header or not found:
            found.append((" ".join(header[1].split()) if header else "", line))
        else:
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def write_profile(path: Path, name: str, sections: str) -> None:
    """Write a profile into a configuration file in one step; its mode stays, a new one is for this user only.

    :raises ValidationError: the name is taken by a profile that this program did not write.
    :raises UnavailableError: the file cannot be read or written.
    """
    target = path.resolve()  # it may be a link to a file elsewhere
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        text = target.read_text(encoding="utf-8") if target.exists() else ""
        mode = target.stat().st_mode & 0o777 if text else _ONLY_OWNER
        written = replace_profile(text, name, sections)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.touch(mode=_ONLY_OWNER)
        draft.write_text(written, encoding="utf-8")
        # The profile has a secret key, so that other users may no longer read the file.
        draft.chmod(mode & 0o700)
        draft.replace(target)
    except (OSError, UnicodeDecodeError) as error:
        draft.unlink(missing_ok=True)
        raise UnavailableError(
            f"{path} cannot be changed: {getattr(error, 'strerror', None) or error}.",
            field="path",
            value=path,
            cure="Make it a file that you can write, or set AWS_CONFIG_FILE to another one.",
        ) from error


def _taken_error(name: str) -> ValidationError:
    return ValidationError(
        f"There is a profile or a section of services {name} already.",
        field="name",
        value=name,
        rule="This program replaces only what it wrote itself.",
        cure="Choose another name, or delete those sections first.",
    )
