"""Who is who: as whom jobs run in containers, and whose that is on this machine's disks."""

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
from jupyter_smx.engines.machine.provide_files import Reader
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon

_ROOT = "0:0"
_FIRST = 60_600
"""Above the numbers that systems give to people, and below those that users have for containers of their own."""
_FORM = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


def checked(user: str) -> str:
    """Give a trait's value as it is when it is empty or two numbers.

    :raises TraitError: it is neither.
    """
    if user and _FORM.fullmatch(user) is None:
        raise TraitError(
            f"DockerEngine.user: {user!r} is not uid:gid. Names mean nothing in another system's image, and Docker "
            "takes a number without a group for the group of root. Give two numbers, as 1000:1000."
        )
    return user


@functools.cache
def nobodys() -> int:
    """Give a number that no user and no group of this machine has: they could look into jobs, and end them."""
    return next(number for number in itertools.count(_FIRST) if not _is_somebodys(number))


def _is_somebodys(number: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look(number)
            return True
    return False


class Users:
    """Who runs jobs in the containers of one daemon."""

    def __init__(self, wish: str) -> None:
        self._wish = wish
        self._is_rootless = False

    async def learn(self, daemon: Daemon) -> None:
        """Find out who is who: where the daemon has no rights of its own, root in a container is its user.

        :raises RefusedError: the user that is configured cannot be had here.
        :raises UnavailableError: the daemon does not answer.
        """
        self._is_rootless = (await daemon.learn()).is_rootless
        await asyncio.to_thread(self.name)  # a directory of users may take its time
        if self._wish and os.getuid() != 0 and self._wish != self._own():
            raise RefusedError(
                f"user: jobs cannot run as {self._wish} where this controller's user is {self._own()} in containers.",
                field="user",
                value=self._wish,
                rule="A host's folder belongs to who runs in it, and only root can give a folder to somebody else.",
                cure="Leave DockerEngine.user empty.",
            )

    def _own(self) -> str:
        return _ROOT if self._is_rootless else f"{os.getuid()}:{os.getgid()}"

    def name(self) -> str:
        """Say who runs in a container, as ``uid:gid``."""
        return self._wish or (f"{nobodys()}:{nobodys()}" if os.getuid() == 0 else self._own())

    def own(self, *paths: Path) -> None:
        """Give files and folders to who runs in containers; only root can, and for others they have the right owner."""
        reader = self.reader()
        for path in paths if os.getuid() == 0 else ():
            os.chown(path, reader.uid, reader.gid)

    def reader(self) -> Reader:
        """Say who that is outside of it."""
        found = None if self._is_rootless else _FORM.fullmatch(self.name())
        # Whoever is root in a container of a daemon without root's rights has none of this user's other groups.
        return Reader(int(found[1]), int(found[2])) if found else Reader(os.getuid(), os.getgid())


def maps_users(info: dict[str, object]) -> bool:
    """Say whether a daemon that runs as root has other users on the disks than in its containers."""
    return any("name=userns" in option for option in daemon_info.security(info))
