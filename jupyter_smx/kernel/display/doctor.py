"""The doctor page: reports of this process and the controller."""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_config_path, jupyter_path

from jupyter_smx import controller_launch
from jupyter_smx.kernel import front_end
from jupyter_smx.kernel.request import pack_cache
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.package_version import installed_version
from jupyter_smx.model.text import format_count, format_size

if TYPE_CHECKING:
    from jupyter_smx.kernel.client.client import Client

_SERVER_CONFIG = "jupyter_server_config.d/jupyter_smx.json"
_LAB_FOLDER = "labextensions/jupyter-smx"


def collect_facts(client: Client) -> dict[str, Any]:
    """Collect the facts; asking the controller starts one, and a controller that does not start is a fact too."""
    running = controller_launch.is_listening()
    facts: dict[str, Any] = {
        "python": f"{platform.python_version()} at {sys.executable}",
        "jupyter_smx": installed_version(),
        "data_folder": str(controller_launch.data_dir()),
        **({"records": note} if (note := controller_launch.records_note()) else {}),
        "sent_files": describe_sent_files(controller_launch.data_dir() / "payloads"),
        "magics_wait": _wait_setting(),
        "server_extension": _find_path(_SERVER_CONFIG, jupyter_config_path(), "pip install jupyter-smx"),
        "lab_extension": _find_path(_LAB_FOLDER, jupyter_path(), "pip install jupyter-smx"),
    }
    try:
        greeting = client.controller_info()
        told = client.doctor()
    except SmxError as error:
        return facts | {"controller": str(error)}
    how = "already running" if running else "just started"
    return facts | {
        "controller": {"found": f"process {greeting.pid}, version {greeting.version}, {how}", **_format_facts(told)}
    }


def has_problem(facts: dict[str, Any]) -> bool:
    """Return True if an engine, or one of its machines, cannot be used."""
    return any(
        not report.keys().isdisjoint(("trouble", "not_usable"))
        or any("problem" in machine for machine in report.get("machines", {}).values())
        for report in facts["engines"].values()
    )


def _format_facts(told: dict[str, Any]) -> dict[str, Any]:
    facts = {name: value for name, value in told.items() if name not in ("version", "pid", "data_dir")}
    if isinstance(capacity := facts.get("capacity"), dict):
        facts["capacity"] = {name: " of ".join(map(str, pair)) for name, pair in capacity.items()}
    return facts


def describe_sent_files(payloads: Path) -> str:
    """Count what was packed for jobs and lies in a folder: archives of source folders, and sent variables."""
    archives = _sizes(payloads, pack_cache.SUFFIX)
    variables = _sizes(payloads, ".pkl")
    rows = [
        f"{format_count(len(archives), 'source folder')}, {format_size(sum(archives))}",
        f"{format_count(len(variables), 'set')} of variables, {format_size(sum(variables))}",
    ]
    return f"{'; '.join(rows)}; deleted a day after their last use"


def _sizes(folder: Path, suffix: str) -> list[int]:
    found = []
    for path in folder.glob(f"*{suffix}"):
        with suppress(OSError):  # deleted meanwhile
            found.append(path.stat().st_size)
    return found


def _wait_setting() -> str:
    setting = front_end.wait_setting()
    return f"{front_end.WAIT_VARIABLE}={setting}" if setting else "if no front end accepts input"


def _find_path(name: str, folders: list[str], cure: str) -> str:
    found = next((path for path in (Path(folder) / name for folder in folders) if path.exists()), None)
    return str(found) if found else f"not found ({cure})"
