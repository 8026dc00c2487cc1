"""Map users: which user jobs run as in containers, and which user owns their files on this machine."""

from __future__ import annotations

import asyncio
import functools
import grp
import itertools
import os
import pwd
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from traitlets import TraitError

from jupyter_smx.engines.docker.daemon import daemon_info
from jupyter_smx.engines.machine.provide_files import FileReader
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon

_ROOT = "0:0"
_FIRST_ID = 60_600
"""Above the numbers that systems give to people, and below those that users have for containers of their own."""
_USER_PATTERN = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


def validate_user(user: str) -> str:
    """Return a trait's value if it is empty or two numbers.

    :raises TraitError: it is neither.
    """
    if user and _USER_PATTERN.fullmatch(user) is None:
        raise TraitError(
            f"DockerEngine.user: {user!r} is not uid:gid. User names differ between images, and a uid without "
            "gid means root's group. Use two numbers, e.g. 1000:1000."
        )
    return user


@functools.cache
def unused_id() -> int:
    """Return a number that no user or group of this machine has: its processes could read jobs' files and end jobs."""
    return next(number for number in itertools.count(_FIRST_ID) if not _is_used_id(number))


def _is_used_id(number: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look(number)
            return True
    return False


class ContainerUser:
    """The user that runs jobs in the containers of one daemon."""

    def __init__(self, wish: str) -> None:
        self._configured_user = wish
        self._is_rootless = False

    async def detect(self, daemon: Daemon) -> None:
        """Map the users: if the daemon is rootless, root in a container is the daemon's user.

        :raises RefusedError: the configured user is not available here.
        :raises UnavailableError: the daemon does not answer.
        """
        self._is_rootless = (await daemon.detect_kind()).is_rootless
        await asyncio.to_thread(self.name)  # a directory of users may take its time
        if self._configured_user and os.getuid() != 0 and self._configured_user != self._controller_user():
            raise RefusedError(
                f"user: jobs cannot run as {self._configured_user} where this controller's user is "
                f"{self._controller_user()} in containers.",
                field="user",
                value=self._configured_user,
                rule="A host's folder belongs to the user of its jobs, and only root can change its owner.",
                cure="Remove DockerEngine.user.",
            )

    def can_own_files(self, uid: int) -> bool:
        """Return True if files of this machine can belong to a user that has this number inside a container."""
        if self._is_rootless:
            return uid == 0
        return os.getuid() in (0, uid)

    def of_image(self, user: str) -> ContainerUser:
        """Return the mapping for jobs that run as the user of their image, ``uid:gid``; "" is the usual one."""
        if not user:
            return self
        found = ContainerUser(user)
        found._is_rootless = self._is_rootless
        return found

    def _controller_user(self) -> str:
        return _ROOT if self._is_rootless else f"{os.getuid()}:{os.getgid()}"

    def name(self) -> str:
        """Return the user inside a container, as ``uid:gid``."""
        return self._configured_user or (
            f"{unused_id()}:{unused_id()}" if os.getuid() == 0 else self._controller_user()
        )

    def chown(self, *paths: Path) -> None:
        """Change the owner of files to the user of containers; only root can, and for others the owner is right."""
        reader = self.reader()
        for path in paths if os.getuid() == 0 else ():
            os.chown(path, reader.uid, reader.gid)

    def reader(self) -> FileReader:
        """Return the ids of that user outside the container."""
        found = None if self._is_rootless else _USER_PATTERN.fullmatch(self.name())
        # Root in a container of a rootless daemon has none of this user's supplementary groups.
        return FileReader(int(found[1]), int(found[2])) if found else FileReader(os.getuid(), os.getgid())


def maps_users(info: dict[str, object]) -> bool:
    """Return True if a daemon that runs as root maps users of its containers to others on the disks."""
    return any("name=userns" in option for option in daemon_info.security_options(info))
