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


def find_inputs_folder(source: Path) -> Path | None:
    """Return the folder of a job's manifests to which the source of a channel belongs; None for other sources."""
    folder = source.parent
    is_one = folder.suffix == _INPUTS and folder.parent == request_folder(front_folder())
    return folder if is_one else None
