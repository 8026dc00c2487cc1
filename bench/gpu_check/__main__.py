"""Run jobs on a real GPU, say what was seen, and write it as JSON; six minutes at most, without a network.

    python -m bench.gpu_check [--wheels FOLDER] [--out FOLDER] [--commit ID] [--date WORDS] [CHECK …]
    python -m bench.gpu_check --page gpu-check.json > docs/gpu.md

It exits with 0 if every check is well, or there is no GPU, and with 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from bench.gpu_check import environment, report

ROOT = Path(__file__).parents[2]
LIMIT = 330.0
"""Seconds for all checks together."""
INSTALLED = "SMX_GPU_CHECK_INSTALLED"


def main() -> int:
    """Install, if there are wheels, then run the checks; or print the page."""
    options = _options()
    if options.page:
        print(report.page(json.loads(options.page.read_text(encoding="utf-8"))), end="")
        return 0
    options.commit = options.commit or environment.commit_of(options.wheels) or _head()
    if options.wheels.is_dir() and INSTALLED not in os.environ:
        return _in_environment(options)
    if INSTALLED in os.environ:  # that one is measured, and not this checkout's, which `-m` puts first
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]
    from bench.gpu_check.session import Run  # noqa: PLC0415 - needs what was just installed

    return Run(options, deadline=time.monotonic() + options.limit).run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="run these alone")
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "gpu-wheels", help="folder of wheels")
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT") or ROOT / "build"), help="folder of the JSON"
    )
    parser.add_argument("--commit", default="", help="default: what the wheels or git say")
    parser.add_argument("--date", default=datetime.now(timezone.utc).strftime("%Y-%m-%d"))
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for all checks together")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load while usage is compared")
    parser.add_argument("--warm", type=int, default=7, help="warm jobs whose first kernel is timed")
    parser.add_argument("--cold", type=int, default=3, help="cold ones")
    parser.add_argument("--mib", type=int, default=4096, help="MiB of the GPU's memory that a job holds")
    parser.add_argument("--page", type=Path, metavar="JSON", help="print docs/gpu.md from a document, and run nothing")
    return parser.parse_args()


def _in_environment(options: argparse.Namespace) -> int:
    """Install the wheels and run this again, with the Python that has them."""
    began = time.monotonic()
    python = environment.make(ROOT / "build" / "gpu-venv", options.wheels)
    print(f"Installed from {options.wheels} in {time.monotonic() - began:.1f} s.", flush=True)
    words = [str(python), "-m", "bench.gpu_check", *sys.argv[1:], "--commit", options.commit]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, INSTALLED: "1"}, check=False).returncode


def _head() -> str:
    try:
        said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - by its name
    except OSError:
        return ""
    return said.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
