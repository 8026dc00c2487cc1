"""AWS's own configuration of this user: where it is, and the region that clients take from it.

Botocore reads the same files. It is not imported here, since each kernel with ``%smx aws on`` would wait for it.
"""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.aws_endpoint import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DEFAULT = "default"
_VARIABLE = re.compile(r"\$(\w+|\{[^}]*\})", re.ASCII)
"""What ``os.path.expandvars`` replaces; that one reads the variables of this process alone."""


def config_path(environ: Mapping[str, str]) -> Path:
    """Return AWS's configuration file of this user."""
    return _expand(environ.get("AWS_CONFIG_FILE") or "~/.aws/config", environ)


def _keys_path(environ: Mapping[str, str]) -> Path:
    """Return AWS's file with the keys of this user."""
    return _expand(environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials", environ)


def _expand(path: str, environ: Mapping[str, str]) -> Path:
    """Fill in variables and the home, as botocore does with those of its process; unknown variables stay."""
    return Path(_VARIABLE.sub(lambda found: environ.get(found[1].strip("{}"), found[0]), path)).expanduser()


def configured_region(environ: Mapping[str, str]) -> str:
    """Return the region that clients have: of the variable, else of the profile, else of variables of other programs.

    Botocore does not read ``AWS_REGION``, so a profile's region comes before it. Files that cannot be read have none.
    """
    return environ.get("AWS_DEFAULT_REGION") or _profile_region(environ) or environment.region_of(environ)


def _profile_region(environ: Mapping[str, str]) -> str:
    """Return the region of the profile that clients use; "" if it has none."""
    profile = environ.get("AWS_DEFAULT_PROFILE") or environ.get("AWS_PROFILE") or _DEFAULT
    # Sections of the file with the keys have the bare names of profiles, and its values come first.
    keys = _read_regions(_keys_path, environ)
    named = {_profile_name(name): region for name, region in _read_regions(config_path, environ).items()}
    return keys.get(profile) or named.get(profile, "")


def _read_regions(find_path: Callable[[Mapping[str, str]], Path], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the regions of a file by the names of its sections."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(find_path(environ).read_text(encoding="utf-8"))
    except (OSError, RuntimeError, UnicodeError, configparser.Error):
        return {}  # a broken file fails each client of AWS, whose own message is the better one
    return {name: parser[name]["region"] for name in parser.sections() if "region" in parser[name]}


def _profile_name(section: str) -> str:
    """Return the profile of a section of the configuration file; "" if it is for something else."""
    try:
        words = shlex.split(section)
    except ValueError:
        return ""
    if words == [_DEFAULT]:
        return _DEFAULT
    return words[1] if words[:1] == ["profile"] and words[1:] and not words[2:] else ""
