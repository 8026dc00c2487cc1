"""What ``nvidia-smi`` prints of the first GPU and of the processes that use it."""

from __future__ import annotations

import csv
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT = 15.0
"""Seconds that one call may take: without a process on the GPU, the driver may have to start first."""
_FIELDS = ("uuid", "name", "driver_version", "memory.total", "memory.used", "utilization.gpu")


@dataclass(frozen=True)
class Card:
    """The first GPU at a moment (seconds since the epoch); memory in MiB, utilisation in percent; None if not reported.

    ``used_by`` has the MiB of each computing process, by pid.
    """

    at: float
    uuid: str
    name: str
    driver: str
    total: float | None
    used: float | None
    percent: float | None
    used_by: dict[int, float | None]


def missing_reason() -> str:
    """Say in a sentence why there is no GPU to measure, '' when there is one."""
    if shutil.which("nvidia-smi") is None:
        return "There is no GPU: this machine has no nvidia-smi."
    try:
        seen = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=LIMIT)  # noqa: S607 - by its name
    except subprocess.TimeoutExpired:
        return f"There is no GPU: nvidia-smi gave no answer within {LIMIT:.0f} s."
    if seen.returncode or "GPU" not in seen.stdout:
        return f"There is no GPU: nvidia-smi lists none ({(seen.stdout + seen.stderr).strip()[:200]})."
    return ""


def read() -> Card:
    """Ask for the first GPU's state, and for the processes on it.

    :raises RuntimeError: ``nvidia-smi`` fails.
    :raises subprocess.TimeoutExpired: it gives no answer.
    """
    row = _rows(f"--query-gpu={','.join(_FIELDS)}")[0]
    uuid, name, driver = row[:3]
    apps = _rows("--query-compute-apps=gpu_uuid,pid,used_memory")
    used_by = {int(row[1]): _number(row[2]) for row in apps if row[0] == uuid and row[1].isdecimal()}
    total, used, percent = map(_number, row[3:])
    return Card(time.time(), uuid, name, driver, total, used, percent, used_by)


def _rows(query: str) -> list[list[str]]:
    words = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    seen = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT)
    if seen.returncode:
        raise RuntimeError(
            f"{' '.join(words)} exits with {seen.returncode}: {(seen.stdout + seen.stderr).strip()[:300]}"
        )
    return [row for row in csv.reader(seen.stdout.splitlines(), skipinitialspace=True) if len(row) > 1]


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def holders() -> dict[int, str]:
    """Return the commands of processes that have CUDA's device file open, by pid; driver queries do not open it."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and _has_device(folder):
            found[int(folder.name)] = _command(folder)
    return found


def _has_device(folder: Path) -> bool:
    try:
        return any(str(file.readlink()).startswith("/dev/nvidia-uvm") for file in (folder / "fd").iterdir())
    except OSError:  # it is another user's, or has just ended
        return False


def _command(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:120]
    except OSError:
        return ""
