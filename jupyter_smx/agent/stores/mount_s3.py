"""Mountpoint for Amazon S3 (``mount-s3``), which serves a mount where it is installed: it takes an open device."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Dict, List

_NAME = "mount-s3"
_MIN_VERSION = (1, 14)
"""The version that takes a device instead of a folder."""
_PATIENCE = 10.0
DEVICE = "/dev/fd/"
"""Stands among its words for the device, whose number is known when it is open."""


def find_mount_s3() -> str:
    """Find it in ``PATH``; '' where it is not, or too old."""
    program = shutil.which(_NAME)
    if program is None:
        return ""
    try:
        told = subprocess.run(
            [program, "--version"], stdout=subprocess.PIPE, text=True, timeout=_PATIENCE, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"(\d+)\.(\d+)\.\d+", told)
    return program if found is not None and (int(found[1]), int(found[2])) >= _MIN_VERSION else ""


def mount_s3_command(program: str, source: str, given: Dict[str, str]) -> List[str]:
    """Give the words that start it for a source, which is a whole folder; ``given`` are AWS' variables."""
    bucket, _, folder = source.split("://", 1)[1].strip("/").partition("/")
    words = [program, bucket, DEVICE, "--read-only", "--foreground"]
    if folder:
        words.append(f"--prefix={folder}/")
    region = given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION") or ""
    endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or ""
    if region:
        words.append(f"--region={region}")
    if endpoint:
        words += [f"--endpoint-url={endpoint}", "--force-path-style"]
    return words
