"""Variables that a job inherits: the host's, without secrets or traces of the Jupyter server; and its GPUs."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see agent/forkserver/spawn
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

MARKER = "JUPYTER_SMX_HOST"
BASE = "base-python.txt"
"""File of an environment that names the interpreter below it, as ``agent.code.environment_build`` writes it."""
_SECRET_PREFIXES = ("JUPYTERHUB_", "JPY_", "JUPYTER_SMX_")
_SECRETS = ("JUPYTER_TOKEN", "JUPYTER_SERVER_TOKEN", "CONFIGPROXY_AUTH_TOKEN")
# The kernel sets them for output that goes to a notebook; a job writes to a log.
_NOTEBOOK_ONLY = ("PYDEVD_USE_FRAME_EVAL", "PYTHONSTARTUP", "PYTHONINSPECT")
_MARKS = (MARKER, "JUPYTER_SMX_TEST_RUN")
_ACTIVATION_VARIABLES = (
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "CONDA_PROMPT_MODIFIER",
)
SPIN_VARIABLE = "OPENBLAS_THREAD_TIMEOUT"
SPIN = "18"
"""Cycles, as a power of 2, that OpenBLAS's threads wait busily; its own 26 burn 30 ms of CPU in each parked child."""
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables by which CUDA and ROCm limit the GPUs of a process."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def scrub(inherited: Mapping[str, str], marker: str, python: str = sys.executable) -> Dict[str, str]:
    """Return the environment of the host's processes: no token, the host's mark, our Python first in ``PATH``.

    Variables that name the active environment name ours, or are removed: another Python's packages are not this one's.
    In an environment of ``--requirements`` the programs of its base come next, as without requirements.
    """
    clean = {}
    for name, value in inherited.items():
        if name in _NOTEBOOK_ONLY or name in _SECRETS or (name.startswith(_SECRET_PREFIXES) and name not in _MARKS):
            continue
        if name in _ACTIVATION_VARIABLES:
            continue
        if name == "MPLBACKEND" and "inline" in value:
            continue
        clean[name] = value
    clean[MARKER] = marker
    prefix = os.path.dirname(os.path.dirname(python))
    clean.update(_activation(prefix))
    base = _base_python(prefix)
    clean["PATH"] = _path(clean.get("PATH", os.defpath), base) if base else clean.get("PATH", os.defpath)
    clean["PATH"] = _path(clean["PATH"], python)
    return clean


def _base_python(prefix: str) -> str:
    """Return the interpreter whose packages an environment shows behind its own; "" if there is none."""
    try:
        with open(os.path.join(prefix, BASE), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _path(known: str, python: str) -> str:
    """Put the folder of this Python first in ``PATH``, unless its programs come before another Python's already.

    The author of an image's or shell's ``PATH`` may rely on other programs in front of them.
    """
    first, folders = os.path.dirname(python), [entry for entry in known.split(os.pathsep) if entry]
    with_python = (entry for entry in folders if any(map(_is_program, (f"{entry}/python", f"{entry}/python3"))))
    if os.path.realpath(next(with_python, os.sep)) == os.path.realpath(first):
        return os.pathsep.join(folders)
    return os.pathsep.join([first, *(entry for entry in folders if entry != first)])


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK)


def _activation(prefix: str) -> Dict[str, str]:
    if os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        return {"VIRTUAL_ENV": prefix}
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return {"CONDA_PREFIX": prefix}
    return {}


def zygote_environment(clean: Mapping[str, str], tmp: str) -> Dict[str, str]:
    """Add what keeps a zygote fit for forking: numeric libraries with one thread, raised again in each job.

    ``tmp`` is where it and its jobs have their temporary files.
    """
    found = dict(clean, TMPDIR=tmp, **dict.fromkeys(THREAD_VARIABLES, "1"))
    found.setdefault(SPIN_VARIABLE, SPIN)
    return found


def visibility_variables(gpus: List[int], environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that show a job only its GPUs; none if no GPU is assigned to it.

    ``gpus`` are indexes of the GPUs of this host, which may be some of the machine's, by number or by name.
    """
    found = {}
    for name in GPU_VARIABLES if gpus else ():
        here = [word.strip() for word in environ.get(name, "").split(",") if word.strip()]
        found[name] = ",".join(here[gpu] if gpu < len(here) else str(gpu) for gpu in gpus)
    return found
