"""The front for clients of AWS, for jobs on other machines: its socket, and the configuration of SageMaker's SDK."""

from __future__ import annotations

import asyncio
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jupyter_smx.agent.paths import AWS_FRONT, AWS_SOCKET, SDK_CONFIG

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_smx.controller.agents.channels import Streams

_LIMIT = 64 * 1024


class FrontFolder:
    """The folder of this machine that containers of jobs mount."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def connect(self) -> Streams:
        """Connect to the front; the path of its socket may be longer than an address.

        :raises OSError: no front runs now.
        """
        folder = os.open(self._folder, os.O_PATH)
        try:
            return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{AWS_SOCKET}")
        finally:
            os.close(folder)

    def read_sdk_config(self, environment: Mapping[str, str]) -> str:
        """Return the configuration that the variables of a job name; "" if they name none of this folder. Blocks."""
        path = PurePosixPath(environment.get(SDK_CONFIG, ""))
        if path.parent != PurePosixPath(AWS_FRONT):
            return ""
        try:
            with (self._folder / path.name).open(encoding="utf-8") as file:
                return file.read(_LIMIT)
        except (OSError, ValueError):  # the agent then removes the variable: the SDK needs the file that it names
            return ""
