"""An installation of conda in the home of an account: folders, shell function and program as an activation uses them.

No registry that the tests install from has conda itself. ``etc/profile.d/conda.sh`` defines the function ``conda``, and
the shell evaluates what ``bin/conda shell.posix activate NAME`` prints. An environment is a folder of ``envs`` with its
own Python, which finds its library beside itself, and ``conda-meta`` has a file for each package.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from worlds.ssh import disk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worlds.ssh.machine import Machine

ROOT = "miniforge3"
"""Folder of the installation in the home."""
SITE_VARIABLE = "SITE_LIBRARIES"
"""Variable that a script of an environment sets at its activation."""
_FUNCTION = """\
export CONDA_EXE='{root}/bin/conda'
export CONDA_PYTHON_EXE='{root}/bin/python'
__conda_activate() {{
    \\local ask_conda
    ask_conda="$(PS1="${{PS1:-}}" "$CONDA_EXE" shell.posix "$@")" || \\return
    \\eval "$ask_conda"
    \\hash -r
}}
conda() {{
    case "${{1-__missing__}}" in
        activate | deactivate) __conda_activate "$@" ;;
        *) "$CONDA_EXE" "$@" ;;
    esac
}}
if [ -z "${{CONDA_SHLVL+x}}" ]; then
    \\export CONDA_SHLVL=0
    PATH="{root}/condabin${{PATH:+":${{PATH}}"}}"
    \\export PATH
fi
"""
_PROGRAM = """\
#!/bin/sh
case "$1 $2" in
    "shell.posix activate") ;;
    activate*) echo "CondaError: Run 'conda init' before 'conda activate'" >&2; exit 1 ;;
    *) echo "conda: error: invalid choice: $1" >&2; exit 2 ;;
esac
prefix={root}/envs/$3
if [ ! -d "$prefix/conda-meta" ]; then
    echo "EnvironmentNameNotFound: Could not find conda environment: $3" >&2
    exit 1
fi
cat <<END
PS1='($3) '
export PATH='$prefix/bin:$PATH'
export CONDA_PREFIX='$prefix'
export CONDA_SHLVL='1'
export CONDA_DEFAULT_ENV='$3'
export CONDA_PROMPT_MODIFIER='($3) '
END
for script in "$prefix"/etc/conda/activate.d/*.sh; do
    if [ -e "$script" ]; then echo ". \\"$script\\""; fi
done
"""
_INITIALIZATION = """\
# >>> conda initialize >>>
__conda_setup="$('{root}/bin/conda' 'shell.bash' 'hook' 2> /dev/null)"
if [ $? -eq 0 ]; then
    eval "$__conda_setup"
else
    if [ -f "{root}/etc/profile.d/conda.sh" ]; then
        . "{root}/etc/profile.d/conda.sh"
    else
        export PATH="{root}/bin:$PATH"
    fi
fi
unset __conda_setup
# <<< conda initialize <<<
"""
"""What ``conda init`` adds to ``~/.bashrc``."""


def install(machine: Machine, environment: str, packages: Mapping[str, str]) -> str:
    """Write an installation with one environment; give the folder of that environment on the machine.

    :param packages: text of each package's module, by its name.
    """
    root, inside = machine.home / ROOT, f"{disk.HOME}/{ROOT}"
    for folder in ("bin", "condabin", "conda-meta", "etc/profile.d", "pkgs"):
        (root / folder).mkdir(parents=True)
    (root / "bin/conda").write_text(_PROGRAM.format(root=inside), encoding="utf-8")
    (root / "bin/conda").chmod(0o755)
    (root / "condabin/conda").symlink_to("../bin/conda")
    (root / "conda-meta/history").touch()
    (root / "etc/profile.d/conda.sh").write_text(_FUNCTION.format(root=inside), encoding="utf-8")
    prefix = root / "envs" / environment
    library = _write_python(prefix, machine.plan)
    scripts = prefix / "etc/conda/activate.d"
    scripts.mkdir(parents=True)
    (scripts / "site.sh").write_text(f"export {SITE_VARIABLE}=$CONDA_PREFIX/lib\n", encoding="utf-8")
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta/history").touch()
    for name, text in {"python": "", **packages}.items():
        about = {"name": name, "version": "1.0", "build": "0", "files": []}
        (prefix / f"conda-meta/{name}-1.0-0.json").write_text(json.dumps(about), encoding="utf-8")
        if text:
            (library / name).mkdir()
            (library / name / "__init__.py").write_text(text, encoding="utf-8")
    machine.run(f"chown -R {machine.uid}:{machine.uid} {inside}", root=True)
    return f"{inside}/envs/{environment}"


def initialize(machine: Machine) -> None:
    """Do what ``conda init`` does, for an account whose login shells read ``~/.bashrc``."""
    (machine.home / ".bashrc").write_text(_INITIALIZATION.format(root=f"{disk.HOME}/{ROOT}"), encoding="utf-8")
    (machine.home / ".bash_profile").write_text("[ -f ~/.bashrc ] && . ~/.bashrc\n", encoding="utf-8")


def remove(machine: Machine) -> None:
    """Delete all that this module wrote."""
    machine.run(f"rm -rf {ROOT} .bashrc .bash_profile")


def _write_python(prefix: Path, plan: disk.Plan) -> Path:
    """Copy the machine's Python into a folder, with links to its library; give the folder of packages."""
    version = f"python{plan.version}"
    here = Path(plan.base or "/usr")
    (prefix / "bin").mkdir(parents=True)
    shutil.copy(here / "bin" / version, prefix / "bin" / version)
    for name in ("python", "python3"):
        (prefix / "bin" / name).symlink_to(version)
    library = prefix / "lib" / version
    library.mkdir(parents=True)
    for entry in (here / "lib" / version).iterdir():
        if entry.name not in ("site-packages", "dist-packages", "__pycache__"):
            (library / entry.name).symlink_to(Path("/opt/base" if plan.base else "/usr", "lib", version, entry.name))
    (library / "site-packages").mkdir()
    if not plan.base:  # Debian's Python looks there
        (library / "dist-packages").symlink_to("site-packages")
    return library / "site-packages"
