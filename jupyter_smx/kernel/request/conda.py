"""Find environments of conda and similar tools by name: by their own list and in their folders.

A file and a folder answer most questions; the program itself, which takes a second to start, is asked last.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_BASE = "base"
_ENVS = "envs"
_PROGRAMS = ("conda", "mamba", "micromamba")
_TIMEOUT = 30.0


def prefix_of(
    name: str,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    run: Callable[[list[str]], str] | None = None,
) -> Path:
    """Find the folder of the environment ``name``.

    ``environ``, ``home`` and ``run`` (returns a command's output) are this process's unless they are passed.

    :raises ValidationError: there is none of that name, or several; the text has the nearest names, or their folders.
    """
    environ, home, run = os.environ if environ is None else environ, home or Path.home(), run or _run
    roots = _roots(environ)
    found = name_prefixes([*_registered_prefixes(home), *_prefixes_in_roots(roots)], roots)
    if name not in found:
        found = _merge_names(found, *_query_conda(environ, run, roots))
    folders = found.get(name, [])
    if len(folders) == 1:
        return folders[0]
    if folders:
        raise ValidationError(
            f"--python conda:{name}: {len(folders)} environments have this name.",
            field="python",
            value=name,
            rule=f"They are {' and '.join(map(str, folders))}.",
            cure="Name the folder: --python PATH.",
        )
    raise ValidationError(
        f"--python conda:{name}: conda has no environment {name!r}.",
        field="python",
        value=name,
        rule=f"It has {', '.join(sorted(found))}." if found else "No environment of conda was found on this machine.",
        cure=suggest_names(name, found) or f"`conda create -n {name} python` makes one.",
    )


def name_prefixes(prefixes: Iterable[Path], roots: Iterable[Path]) -> dict[str, list[Path]]:
    """Name prefixes as conda does: those in a folder ``envs`` after their own folder, an installation ``base``."""
    known = set(roots)
    found: dict[str, list[Path]] = {}
    for prefix in {os.path.realpath(each): each for each in prefixes}.values():  # a link is no second environment
        if prefix.parent.name == _ENVS:
            found.setdefault(prefix.name, []).append(prefix)
        elif prefix in known or (prefix / "condabin").is_dir():
            found.setdefault(_BASE, []).append(prefix)
    return found


def parse_env_list(text: str) -> tuple[list[Path], dict[str, list[Path]]]:
    """Parse the output of ``conda env list --json``: the prefixes, and the names if it has them (conda 25.11 does)."""
    try:
        said: dict[str, Any] = json.loads(text)
    except ValueError:
        return [], {}
    names: dict[str, list[Path]] = {}
    details = said.get("envs_details", {})
    for prefix, facts in details.items():
        if facts.get("name"):
            names.setdefault(facts["name"], []).append(Path(prefix))
    return [Path(prefix) for prefix in said.get("envs", ()) if prefix not in details], names


def _roots(environ: Mapping[str, str]) -> list[Path]:
    program = environ.get("CONDA_EXE") or environ.get("MAMBA_EXE")
    found = [Path(program).parent.parent] if program else []
    found += [Path(environ[name]) for name in ("MAMBA_ROOT_PREFIX", "CONDA_ROOT") if environ.get(name)]
    active = environ.get("CONDA_PREFIX")
    if active:
        folder = Path(active)
        found.append(folder.parent.parent if folder.parent.name == _ENVS else folder)
    return [root for root in dict.fromkeys(found) if (root / "conda-meta").is_dir() or (root / _ENVS).is_dir()]


def _registered_prefixes(home: Path) -> list[Path]:
    try:
        lines = (home / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    # Folders that a user deleted by hand remain in the list.
    return [Path(line.strip()) for line in lines if line.strip() and Path(line.strip()).is_dir()]


def _prefixes_in_roots(roots: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for root in roots:
        found.append(root)
        if (root / _ENVS).is_dir():
            found += sorted(path for path in (root / _ENVS).iterdir() if (path / "conda-meta").is_dir())
    return found


def _query_conda(
    environ: Mapping[str, str], run: Callable[[list[str]], str], roots: list[Path]
) -> tuple[dict[str, list[Path]], dict[str, list[Path]]]:
    program = environ.get("CONDA_EXE") or environ.get("MAMBA_EXE")
    program = program or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if not program:
        return {}, {}
    try:
        prefixes, names = parse_env_list(run([program, "env", "list", "--json"]))
    except (OSError, subprocess.SubprocessError):
        return {}, {}
    return names, name_prefixes(prefixes, roots)


def _merge_names(*several: dict[str, list[Path]]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for names in several:
        for name, prefixes in names.items():
            known = found.setdefault(name, [])
            known += [prefix for prefix in prefixes if not any(prefix.samefile(other) for other in known)]
    return found


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=True, text=True
    )
    return done.stdout
