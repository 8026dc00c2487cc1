"""Name the files of code that a job request sends: a folder, and files and folders that are put beside the script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from jupyter_smx.kernel.options.option_values import path_kind
from jupyter_smx.kernel.request.script import REQUIREMENTS, own_modules
from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUFFIX = ".py"


class SourceCopyLike(Protocol):
    """A folder with the files of an archive or a URL, as :class:`jupyter_smx.kernel.request.source_copy.SourceCopy`."""

    origin: str
    folder: str


class RequirementsPathError(ValidationError):
    """Requirements name a path in an archive or a URL; ``value`` is the line."""


class CodeFiles(Struct, frozen=True, kw_only=True):
    """Files of code to pack for a job: absolute paths of this machine."""

    folder: str = ""
    """The folder of code, "" for none."""
    copy: SourceCopyLike | None = None
    """The copy of an archive or a URL that ``folder`` is a part of; it is deleted with the last request for it."""
    dependencies: tuple[str, ...] = ()

    def is_empty(self) -> bool:
        """Return True if only the script is sent."""
        return not self.folder and not self.dependencies

    def origin(self, script: str = "") -> str:
        """Return what tracebacks and records call the folder: the archive or URL that it was copied from, or itself.

        Without a folder it is the one that has the dependencies and the path ``script`` ("" for a cell) directly in it;
        if they are in several, "".
        """
        if self.folder:
            return self.copy.origin if self.copy else self.folder
        folders = {str(Path(os.path.normpath(path)).parent) for path in (*self.dependencies, script) if path}
        return folders.pop() if len(folders) == 1 else ""


def name_in_job(dependency: str) -> str:
    """Return the name of a dependency beside the script: the last part of its path, as SageMaker's SDK has it."""
    return Path(dependency).name


def check_dependencies(dependencies: Sequence[str]) -> None:
    """Check that files and folders beside the script exist and have different names there.

    :raises ValidationError: one does not.
    """
    names: dict[str, str] = {}
    for path in dependencies:
        if not path_kind(path):
            raise _dependency_error(path)
        name = name_in_job(path)
        if name in names:
            raise ValidationError(
                f"--dependency: {names[name]} and {path} have the same name.",
                field="dependencies",
                value=path,
                rule="Each is put beside the script under its own name.",
                cure="Rename one.",
            )
        names[name] = path


def _dependency_error(path: str) -> ValidationError:
    if "://" in path:
        sentence, cure = "is not on this machine", "Fetch it first, or pass it with --input."
    else:
        sentence, cure = "does not exist", suggest_names(name_in_job(path), _names_in(Path(path).parent))
    return ValidationError(
        f"--dependency: {path} {sentence}.",
        field="dependencies",
        value=path,
        rule="It is a folder or a file of this machine.",
        cure=cure or f"The folder {Path(path).parent} was searched.",
    )


def _names_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def check_copied_requirements(lines: Sequence[str], copy: SourceCopyLike) -> None:
    """Check that the requirements of an archive or a URL name no files in it.

    :raises RequirementsPathError: one does; its copy is deleted after the submission, and pip installs later.
    """
    line = next((one for one in lines if copy.folder in one), None)
    if line is None:
        return
    named = line.partition(" # content ")[0].replace(f"{copy.folder}/", "").replace(copy.folder, ".")
    raise RequirementsPathError(
        f"--requirements: {named!r} is a path in {copy.origin}.",
        field="requirements",
        value=named,
        rule="An archive or a URL is copied for the submission only, so pip cannot install files of it.",
        cure="Unpack it and pass its folder as --source-dir, or name a package of an index.",
    )


def dependency_requirements(dependencies: Sequence[str]) -> str:
    """Return the requirements file among the dependencies, which lies beside the script in the job; "" for none."""
    return next((path for path in dependencies if name_in_job(path) == REQUIREMENTS and Path(path).is_file()), "")


def dependency_modules(dependencies: Sequence[str]) -> frozenset[str]:
    """Name the modules and packages that the script may import from its dependencies."""
    return frozenset(
        name_in_job(path).removesuffix(_SUFFIX)
        for path in dependencies
        if path.endswith(_SUFFIX) or (Path(path).is_dir() and own_modules(path))
    )
