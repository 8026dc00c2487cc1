"""Write the folder of an export: new or empty before, and complete or unchanged afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel.options.option_values import expand_user
from jupyter_smx.model.errors import SmxError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable


class ExportResult(Struct, frozen=True):
    """The folder of an exported job, and the names of its files."""

    folder: str
    files: tuple[str, ...]


def write_folder(folder: Path, write: Callable[[Path], None]) -> ExportResult:
    """Let ``write`` fill a temporary folder that becomes ``folder``. All of it or nothing.

    :raises ValidationError: the folder is not empty.
    :raises SmxError: the disk refuses.
    """
    folder = expand_user(folder).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValidationError(
            f"FOLDER: {folder} {'is not empty' if folder.is_dir() else 'is a file'}.",
            field="folder",
            value=folder,
            rule="A job is exported to a new or empty folder.",
            cure="Use a folder that does not exist yet.",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as room:
            made = Path(room, "export")
            write(made)
            files = tuple(sorted(path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()))
            _move(made, folder)
    except OSError as error:
        raise SmxError(f"FOLDER: {folder} cannot be written: {error.strerror or error}.", field="folder") from error
    return ExportResult(str(folder), files)


def _move(made: Path, folder: Path) -> None:
    """Move the result to its place; an existing folder is kept, because it may be a working directory."""
    if not folder.exists():
        made.replace(folder)
        return
    for path in made.iterdir():
        path.replace(folder / path.name)
