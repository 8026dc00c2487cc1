"""A data folder of its own for one run, with a shell in it, and everything ended and gone afterwards."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx import controller_launch
from jupyter_smx.kernel.api import session
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE = 120.0
"""Seconds that the slowest import may take."""
ROOT = Path(__file__).parent.parent
GIB = 1 << 30


@contextmanager
def place() -> Iterator[None]:
    """Let jobs and controller live in a folder that is removed; nothing is drawn."""
    with tempfile.TemporaryDirectory(prefix="smx-bench-") as folder:
        os.environ[controller_launch.DATA_DIR_VARIABLE] = folder
        os.environ["SMX_WAIT"] = "0"
        session.close_session()
        try:
            yield
        finally:
            stop_everything()  # also after an error, while jobs still run


@contextmanager
def notebook() -> Iterator[Any]:
    """Give a shell with the magics in a place of its own."""
    with place():
        from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415 - after the folder is set

        shell = InteractiveShell.instance()
        shell.run_line_magic("load_ext", "jupyter_smx")
        yield shell


@contextmanager
def configuration(config: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Let the controllers that start meanwhile read a configuration: traits by the name of their class."""
    before = os.environ.get("JUPYTER_CONFIG_DIR")
    with tempfile.TemporaryDirectory(prefix="smx-bench-") as folder:
        Path(folder, "jupyter_smx_config.json").write_text(json.dumps(config), encoding="utf-8")
        os.environ["JUPYTER_CONFIG_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("JUPYTER_CONFIG_DIR")
            if before is not None:
                os.environ["JUPYTER_CONFIG_DIR"] = before


def client() -> Any:
    """Give the client of this process."""
    return session.current_session().client


def release_all(of: Any) -> None:
    """End every pool and wait until it is gone."""
    for pool in of.pools():
        of.release(pool.id)
    while of.pools():
        time.sleep(0.02)


def wait_for_preload(of: Any, modules: tuple[str, ...]) -> None:
    """Wait until the idle pool says that the modules are there."""
    deadline = time.monotonic() + PATIENCE
    wanted = {name.split(".")[0] for name in modules}
    while time.monotonic() < deadline:
        pools = of.pools()
        if pools and wanted <= {name.split(".")[0] for name in pools[0].preloaded}:
            return
        time.sleep(0.1)
    raise SystemExit(f"The pool never preloaded {sorted(wanted)}: {of.pools()}")


def print_machine(checkouts: tuple[Path, ...] = (ROOT,)) -> None:
    """Print what a page of figures names: processors, memory, kernel, Python, date, load and commits."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    commits = " and ".join(map(_commit, checkouts))
    print(f"{os.cpu_count()} processors, {memory:.0f} GiB, {platform.system()} {platform.release()}, ", end="")
    print(f"Python {platform.python_version()}, {time.strftime('%Y-%m-%d', time.gmtime())}, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}, commit {commits}", flush=True)


def _commit(checkout: Path) -> str:
    words = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def percentile(values: list[float], share: float) -> float:
    """Give the value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
