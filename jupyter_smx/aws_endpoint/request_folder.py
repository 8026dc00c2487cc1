"""Name the front's folder of requests, apart from the front, because a rerun looks for its first job's files in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx import controller_launch

if TYPE_CHECKING:
    from pathlib import Path

_INPUTS = ".inputs"


def front_folder() -> Path:
    """Return the folder with the front's files about jobs."""
    return controller_launch.chosen_data_dir() / "aws"


def request_folder(front: Path) -> Path:
    """Return the folder with the requests of jobs below the front's folder."""
    return front / "requests"


def inputs_folder(requests: Path, job: str) -> Path:
    """Return the folder for the objects of a job's manifests."""
    return requests / f"{job}{_INPUTS}"


def is_manifest_input(source: Path) -> bool:
    """Return True if the source of a channel is a folder with the objects of a manifest."""
    folder = source.parent
    return folder.suffix == _INPUTS and folder.parent == request_folder(front_folder())
