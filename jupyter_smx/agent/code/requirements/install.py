"""Install a job's requirements into a folder of the job, if its Python is that of an image.

SageMaker's toolkit installs into the image, which is used once. Here the next job may have the same host, so the image
stays unchanged: pip works in a virtual environment of the job that also shows the packages of the image. Packages that
do not satisfy the requirements are installed in front of these.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import site
import sys
from typing import TYPE_CHECKING, List, Optional, Tuple

from jupyter_smx.agent.code import imports, sourcedir, virtual_environment
from jupyter_smx.agent.code.requirements import kept_packages, pip_process
from jupyter_smx.agent.contract import entry_point
from jupyter_smx.agent.paths import KEPT_PACKAGES

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

FOLDER = virtual_environment.REQUIREMENTS
"""Below ``/opt/ml``, where the host removes it after the job."""
_CONSTRAINT = "-c "
_CACHE = ("sagemaker", "warmpoolcache", "pip")
_CUT_OFF = (
    "This host cannot reach a package index: install the packages when you build the image, or set a reachable "
    "index with --env PIP_INDEX_URL=…"
)


def install(spec: CompleteSpec, host_info: HostInfo, code: str) -> bool:
    """Install a job's requirements, if any, and add them to the path after the folders of its ``code``.

    Return True if this process has already imported a module of which another version was installed.

    :raises InstallError: that failed; the text is what sagemaker-training calls it, and a sentence.
    """
    lines = [_host_path(line, spec["folder"], code) for line in spec["requirements"]]
    if not lines:
        return False
    packages, kept = _provide(spec, host_info, lines, code)
    added = _path_entries(packages)
    programs = [os.path.join(host_info.path(FOLDER), "bin"), *([kept.programs] if kept else [])]
    entry_point.add_to_path(code, added, os.pathsep.join(programs))
    return any(_have_another(folder, added) for folder in added)


def _provide(
    spec: CompleteSpec, host_info: HostInfo, lines: List[str], code: str
) -> Tuple[str, Optional[kept_packages.KeptSet]]:
    """Return the job's folder of packages, and the set of an earlier job that it shows; install what is not kept.

    :raises InstallError: the installation failed.
    """
    name = kept_packages.name_of(spec["requirements"], os.environ) if os.path.isdir(KEPT_PACKAGES) else ""
    if not name:
        return _install(spec, host_info, lines, code), None
    with kept_packages.lock(KEPT_PACKAGES, name) as is_locked:
        found = kept_packages.find(KEPT_PACKAGES, name)
        if found is not None:
            entry_point.print_note(f"requirements are those of an earlier job of this image, in {found.packages}.")
            return virtual_environment.make(host_info.path(FOLDER), [found.packages, *_image_packages()]), found
        packages = _install(spec, host_info, lines, code)
        programs = os.path.join(host_info.path(FOLDER), "bin")
        with contextlib.suppress(OSError):
            if is_locked and kept_packages.can_keep(packages, programs):
                kept_packages.keep(KEPT_PACKAGES, name, packages, programs)
                entry_point.print_note("requirements are kept for later jobs of this image.")
    return packages, None


def _image_packages() -> List[str]:
    return [path for path in sys.path if path.rstrip("/").endswith(("site-packages", "dist-packages"))]


def _install(spec: CompleteSpec, host_info: HostInfo, lines: List[str], code: str) -> str:
    """Install lines into a new environment of the job; return its folder of packages.

    :raises InstallError: that failed.
    """
    if importlib.util.find_spec("pip") is None:
        raise entry_point.InstallError(
            f"InstallRequirementsError: {sys.executable} in the image has no pip, so nothing can be installed. "
            "Use an image with pip, or install the packages when you build the image."
        )
    home = host_info.path(FOLDER)
    entry_point.print_note(f"requirements are installed into {home}, a folder of this job.")
    packages = virtual_environment.make(home, _image_packages())
    cache = ["--cache-dir", host_info.path(*_CACHE)] if spec["warm_pool"] else ["--no-cache-dir"]
    pip = [os.path.join(home, "bin", "python"), "-I", "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    _call([*pip, "--disable-pip-version-check", *cache, *_write_requirements(home, lines)], code)
    return packages


def _host_path(line: str, theirs: str, code: str) -> str:
    """Name a file of the submitter's folder of code as it is called here."""
    return re.sub(re.escape(theirs) + r"(?=[/\s\[']|$)", lambda _: code, line) if len(theirs) > 1 else line


def _write_requirements(home: str, lines: List[str]) -> List[str]:
    """Write the lines where pip reads them, constraints into a file of their own; return its words for them."""
    words: List[str] = []
    for option, name, constrains in (("-r", "requirements.txt", False), ("-c", "constraints.txt", True)):
        mine = [line[len(_CONSTRAINT) * constrains :] for line in lines if line.startswith(_CONSTRAINT) is constrains]
        if mine:
            path = os.path.join(home, name)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in mine)
            words += [option, path]
    return words


def _call(words: List[str], folder: str) -> None:
    """Run pip in the folder of the code, as SageMaker does; copy its output to the log."""
    end = pip_process.run_pip(words, folder)
    if end.code:
        why = _CUT_OFF if end.is_cut_off else "The log says why."
        raise entry_point.InstallError(f"InstallRequirementsError: pip ended with exit code {end.code}. {why}")


def _path_entries(packages: str) -> List[str]:
    """Return the entries that a folder of packages adds to Python's path: itself, and those of its ``.pth`` files."""
    before = list(sys.path)
    try:
        site.addsitedir(packages)
        return [path for path in sys.path if path not in before]
    finally:
        sys.path[:] = before


def _have_another(folder: str, added: List[str], package: str = "") -> bool:
    """Return True if this process has imported another version of a part of ``folder``, which belongs to ``package``.

    A folder without ``__init__.py`` is part of a namespace (``google`` of ``google.protobuf``). Then its content
    counts, as far as this process has loaded the namespace.
    """
    if any(_is_another(f"{package}{name}", added) for name in sourcedir.top_level_modules(folder)):
        return True
    return any(
        _have_another(os.path.join(folder, name), added, f"{package}{name}.")
        for name in sourcedir.namespace_packages(folder)
        if f"{package}{name}" in sys.modules
    )


def _is_another(name: str, folders: List[str]) -> bool:
    module = sys.modules.get(name)
    return module is not None and imports.folder_of(name, getattr(module, "__spec__", None)) not in folders
