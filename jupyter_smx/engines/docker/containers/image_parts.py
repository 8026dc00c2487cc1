"""Parts of an image that count for its hosts: user, entry point, working folder, files of ``/opt/ml``, volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.agent.system.files import host_layout

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

USER, ENTRYPOINT, WORKDIR = "user", "entrypoint", "workdir"
"""Names of the settings that a job, or the configuration, lets count."""
ALL = (ENTRYPOINT, USER, WORKDIR)
IMAGE_ML = "/run/smx-image"
"""Path in a container where the files that its image has in ``/opt/ml`` can be read."""
_USUAL_VARIABLES = frozenset(
    {
        *("PYTHONIOENCODING", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED"),
        *("PYTHON_GET_PIP_SHA256", "PYTHON_GET_PIP_URL", "PYTHON_PIP_VERSION", "PYTHON_SETUPTOOLS_VERSION"),
        *("PYTHON_SHA256", "PYTHON_VERSION"),
    }
)
"""Variables of many images that change neither what Python imports nor how an agent runs."""


class ImageUser(Struct, frozen=True):
    """The user of an image, as a container of it saw itself."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Supplementary groups."""
    name: str = ""
    home: str = ""

    def numbers(self) -> str:
        """Return ``uid:gid``, as the daemon takes it."""
        return f"{self.uid}:{self.gid}"

    def variables(self) -> dict[str, str]:
        """Return the variables in which libraries look for the user, those without a value left out."""
        found = {"HOME": self.home.rstrip("/"), "USER": self.name, "LOGNAME": self.name}
        return {name: value for name, value in found.items() if value}


class ImageParts(Struct, frozen=True):
    """Parts of an image that hosts take over; without any, only its files and its variables count."""

    entrypoint: tuple[str, ...] = ()
    """Program with its words that the agent is started through."""
    workdir: str = ""
    """The image's working folder, for jobs that start in it."""
    user: ImageUser | None = None
    files: str = ""
    """Folder of this machine with the files that the image has in ``/opt/ml``; "" if there are none."""
    archive: str = ""
    """The agent's archive with bytecode for the image's Python; "" if the usual one has to do."""
    volumes: tuple[str, ...] = ()
    """Folders that are none of the image's in its containers, but new ones, each on the disk of the daemon."""
    closed_volumes: tuple[str, ...] = ()
    """Those of the volumes that jobs cannot write to."""
    has_bytecode: bool = True
    """False if most packages of the image have no ``.pyc`` file, so that each container would compile them."""

    has_usual_python: bool = False
    """True if no variable or entry point of the image changes what its Python loads, so an agent starts as jobs."""

    def user_numbers(self) -> str:
        """Return the image's user as ``uid:gid``, "" if it does not count."""
        return self.user.numbers() if self.user else ""

    def groups(self) -> dict[str, list[str]]:
        """Return the supplementary groups of the image's user, as an option of a container."""
        more = [str(group) for group in self.user.groups if group != self.user.gid] if self.user else []
        return {"GroupAdd": more} if more else {}

    def facts(self) -> dict[str, object]:
        """Return what an agent has to find in the description of its host."""
        found = {"image_files": IMAGE_ML if self.files else "", "image_workdir": self.workdir}
        return {name: value for name, value in found.items() if value}


NO_PARTS = ImageParts()


def is_usual_python(variables: Iterable[str], *, has_bytecode: bool) -> bool:
    """Return True if no variable changes what Python imports or keeps; ``variables`` are the names of all.

    An agent that obeys ``PYTHONDONTWRITEBYTECODE`` would compile an image without bytecode at each start.
    """
    usual = _USUAL_VARIABLES | ({"PYTHONDONTWRITEBYTECODE"} if has_bytecode else set())
    return all(name in usual for name in variables if name.startswith("PYTHON"))


def files_folder(data_dir: Path, image: str) -> Path:
    """Return the folder of this machine for the files that an image has in ``/opt/ml``, by the image's id."""
    return data_dir / "images" / image.rpartition(":")[2] / host_layout.ML
