"""Daemons of an ordinary user for tests, as their packages provide them: rootless Docker, Podman's socket."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.testing.docker import podman
from jupyter_smx.testing.docker.dockerd import is_answering
from jupyter_smx.testing.docker.dockerd import program_path as programs
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.testing.docker.ordinary_user import OrdinaryUser

_CONTRIB = "/usr/share/docker.io/contrib"
"""Folder of Debian's docker.io with the script that other packages have on the path."""
_STORAGE = '[storage]\ndriver = "overlay"\n'
"""Without a configured driver Podman copies each layer, although the kernel can do better."""
_ENGINE = '\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
"""Podman's own defaults without systemd; unless they are configured, it prints a warning at each call."""


class RootlessDaemon(NamedTuple):
    """One kind of daemon: its command, its socket below the runtime folder, and its requirements."""

    name: str
    command: tuple[str, ...]
    socket: str
    packages: Mapping[str, str]
    """By the program that has to be there the package that brings it."""

    def start(self, user: OrdinaryUser) -> str:
        """Start it as this user, and return its address.

        :raises RuntimeError: it did not come up; the text has its last lines.
        """
        self._configure(user)
        socket, log = user.runtime / self.socket, user.folder / f"{self.name}.log"
        user.make_folder(socket.parent)
        words = [word.format(socket=socket) for word in self.command]
        process = user.popen(words, {"PATH": f"{programs()}:{_CONTRIB}"}, log)
        host = f"unix://{socket}"
        with contextlib.suppress(AssertionError):
            eventually_blocking(lambda: is_answering(host) or process.poll() is not None, within=30)
        if not is_answering(host):
            raise RuntimeError(
                f"{self.name} did not come up. Its last words: {log.read_text(errors='replace')[-2000:]}"
            )
        return host

    def _configure(self, user: OrdinaryUser) -> None:
        """Write the settings that Podman's defaults miss."""
        runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
        files = {"storage.conf": _STORAGE, "containers.conf": podman.settings() + _ENGINE + runtime}
        folder = user.make_folder(user.home / ".config" / "containers")
        for name, text in files.items():
            (folder / name).write_text(text)

    def missing_packages(self) -> str:
        """Name the packages that are missing here, empty when none is."""
        missing = [package for program, package in self.packages.items() if not _has_program(program)]
        return " ".join(dict.fromkeys(missing))


def _has_program(program: str) -> bool:
    return shutil.which(program, path=f"{programs()}:{_CONTRIB}:/usr/lib/podman") is not None


# With systemd, Docker would use the user's systemd for control groups, but this user has no login session.
DOCKER = RootlessDaemon(
    "Docker",
    ("dockerd-rootless.sh", "--exec-opt=native.cgroupdriver=cgroupfs"),
    "docker.sock",
    {"dockerd": "docker.io", "rootlesskit": "rootlesskit", "slirp4netns": "slirp4netns", "newuidmap": "uidmap"},
)
PODMAN = RootlessDaemon(
    "Podman",
    ("podman", "system", "service", "--time=0", "unix://{socket}"),
    "podman/podman.sock",
    {
        "podman": "podman",
        "netavark": "netavark",
        "aardvark-dns": "aardvark-dns",
        "catatonit": "catatonit",
        "slirp4netns": "slirp4netns",
        "newuidmap": "uidmap",
    },
)
KINDS = {kind.name.lower(): kind for kind in (DOCKER, PODMAN)}
