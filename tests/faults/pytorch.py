"""Interpreters with PyTorch and gRPC, mpi4py, PySpark or many libraries, made once for each checkout: all are large."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "2.13.0"
_FOLDER = Path(__file__).parents[2] / "build"


def with_mpi4py() -> str:
    """Give the path of an interpreter with mpi4py."""
    return _made("mpi4py", "mpi4py>=4")


def with_pyspark() -> str:
    """Give the path of an interpreter with PySpark, whose 3.5 runs on the Java 17 of Debian 12."""
    return _made("pyspark-3.5.9", "pyspark==3.5.9")


def with_libraries() -> str:
    """Give the path of an interpreter with the libraries of ``tests/agent/forkserver/test_library_table.py``."""
    packages = """
        numpy scipy pandas scikit-learn matplotlib numexpr numba pyarrow tqdm huggingface_hub transformers datasets dask
        sympy networkx nltk msgpack protobuf loguru joblib seaborn statsmodels xarray requests threadpoolctl
    """
    return _made("libraries", *packages.split())


def interpreter() -> str:
    """Give the path of an interpreter with PyTorch and gRPC."""
    return _made(f"torch-{VERSION}-grpc", f"torch=={VERSION}", "numpy", "grpcio")


def _made(name: str, *packages: str) -> str:
    """Make the environment; skip, saying why, where nothing can be installed, but never on the machine that decides."""
    folder = _FOLDER / name
    python = folder / "bin" / "python"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            uv = [sys.executable, "-m", "uv"]
            steps = (
                [*uv, "venv", "-q", "--seed", "--clear", "--python", sys.executable, os.fspath(folder)],
                [*uv, "pip", "install", "-q", "--python", os.fspath(python), *packages],
            )
            for step in steps:
                done = subprocess.run(step, capture_output=True, text=True, check=False)
                if done.returncode:
                    said = f"{packages[0]} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
                    (pytest.fail if os.environ.get("CI") else pytest.skip)(said)
            (folder / "ready").touch()
        if not (folder / "compiled").exists():
            # uv writes no bytecode, and a host none under PYTHONDONTWRITEBYTECODE: each one would compile its imports.
            compile_all = [os.fspath(python), "-m", "compileall", "-q", "-j", "0", "-x", "/tests?/"]
            # Some packages have modules of other versions of Python, which do not compile.
            subprocess.run([*compile_all, os.fspath(folder / "lib")], capture_output=True, check=False)
            (folder / "compiled").touch()
    return os.fspath(python)
