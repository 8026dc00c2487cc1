"""Run the checks one after another in a data folder of their own, and write the document after each of them."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jupyter_smx
from bench.gpu_check import checks, jobs, nvidia_smi, report, sources
from jupyter_smx import controller_launch
from jupyter_smx.kernel.api import session
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

DOCUMENT = "gpu-check.json"
_TEARDOWN_LIMIT = 25.0
_LEAST = 15.0
"""Seconds without which no check begins."""


class Run:
    """One run; ``deadline`` is a moment of the monotonic clock."""

    def __init__(self, options: argparse.Namespace, deadline: float) -> None:
        self._options = options
        self._deadline = deadline
        self._began = time.monotonic()
        self._amounts = checks.Options(options.cold, options.warm, options.seconds, options.mib)
        self._chosen = [check for check in checks.CHECKS if not options.checks or check.name in options.checks]
        self.document: dict[str, Any] = {
            "kind": "gpu-check",
            "version": 1,
            "date": options.date,
            "commit": options.commit,
            "machine": {},
            "checks": [],
            "logs": {},
        }

    def run(self) -> int:
        """Run what was chosen, print what was seen, and give the exit status."""
        reason = nvidia_smi.missing_reason()
        if reason:
            return self._only_say(reason)
        try:
            self._describe_machine()
        except (Exception, jobs.LimitError) as error:  # noqa: BLE001 - border: why there are no figures is a figure, too
            print(f"Nothing was measured: {error}\n{getattr(error, 'log', '')}")
            self._skip_all(str(error))
            return 1
        with _folder() as folder:
            self._run_in(folder)
        self._write()
        self._print()
        return int(any(check["verdict"] != "ok" for check in self.document["checks"]))

    def _only_say(self, reason: str) -> int:
        print(f"{reason} Nothing was measured. With one, this would run:")
        for check in self._chosen:
            print(f"  {check.name:20}{check.title}, {check.limit:.0f} s at most.")
            print(f"  {'':20}{(check.run.__doc__ or '').strip()}")
        self._skip_all(reason)
        return 0

    def _skip_all(self, reason: str) -> None:
        for check in self._chosen:
            self._add(check, "skipped", [reason], {}, 0.0)

    def _describe_machine(self) -> None:
        """Note what this machine is, and what torch says in a fresh interpreter, the first to read it from the disk."""
        machine = self.document["machine"]
        machine.update(checks.card_facts())
        machine["kernel"] = f"{platform.system()} {platform.release()}"
        machine["cpu"], machine["cores"] = _cpu_name(), os.cpu_count()
        machine["python"] = platform.python_version()
        machine["jupyter_smx"] = f"{version('jupyter-smx')} in {Path(jupyter_smx.__file__).parent}"
        machine["cuda_visible_devices"] = os.environ.get("CUDA_VISIBLE_DEVICES")
        began = time.monotonic()
        with jobs.limit(checks.FIRST_LIMIT + 10):
            seen = jobs.plain(sources.FIRST_KERNEL, checks.FIRST_LIMIT)
        machine["torch"], machine["cuda"], machine["cards"] = seen["torch"], seen["cuda"], seen["cards"]
        machine["first_use_seconds"] = round(time.monotonic() - began, 2)
        print(json.dumps(machine), flush=True)

    def _run_in(self, folder: Path) -> None:
        libraries = folder / "site-packages"  # by its name it is a place of installed packages
        libraries.mkdir()
        (libraries / f"{sources.LIBRARY}.py").write_text(sources.LIBRARY_SOURCE, encoding="utf-8")
        path = os.pathsep.join([str(libraries), *filter(None, [os.environ.get("PYTHONPATH")])])
        os.environ |= {controller_launch.DATA_DIR_VARIABLE: str(folder / "data"), "PYTHONPATH": path, "SMX_WAIT": "0"}
        os.environ.pop("SMX_GPU_CHECK_INSTALLED", None)
        try:
            for check in self._chosen:
                self._run_one(check)
        finally:
            if any(check["verdict"] == "failed" for check in self.document["checks"]):
                self.document["logs"] |= jobs.log_tails()
            self._end()

    def _run_one(self, check: checks.Check) -> None:
        left = self._deadline - time.monotonic()
        if left < _LEAST:
            self._add(check, "skipped", ["The time of the whole run is over."], {}, 0.0)
            return
        session.close_session()  # the last check's limit may have left an answer unread
        began = time.monotonic()
        problems: list[str] = []
        figures: dict[str, Any] = {}
        try:
            with jobs.limit(min(check.limit, left)):
                problems, figures = check.run(self._amounts)
        except jobs.CheckError as error:
            problems = [str(error)]
            self.document["logs"][f"job of {check.name}"] = error.log
        except jobs.LimitError as error:
            problems = [str(error)]
            self._stop_jobs()
        except Exception as error:  # noqa: BLE001 - border: one check's trouble must not end the others
            problems = [f"{type(error).__name__}: {error}"]
        verdict = "failed" if problems else "ok"
        self._add(check, verdict, problems, figures, time.monotonic() - began)

    def _add(
        self, check: checks.Check, verdict: str, reasons: list[str], figures: dict[str, Any], seconds: float
    ) -> None:
        row: dict[str, Any] = {"name": check.name, "title": check.title, "verdict": verdict, "reasons": reasons}
        row |= {"seconds": round(seconds, 1), "figures": figures}
        self.document["checks"].append(row)
        self._write()
        print(f"{verdict}: {check.name} {json.dumps(figures, default=str)[:1500]}", flush=True)

    @staticmethod
    def _stop_jobs() -> None:
        """Stop what a check has left running, so that the next one has the card."""
        with contextlib.suppress(Exception, jobs.LimitError), jobs.limit(10):
            session.close_session()
            client = session.current_session().client
            for job in client.jobs(100):
                if not job.ended_at:
                    client.stop(job.id)

    def _end(self) -> None:
        try:
            with jobs.limit(_TEARDOWN_LIMIT):
                stop_everything()
        except (Exception, jobs.LimitError) as error:  # noqa: BLE001 - border: the figures must still be written
            self.document["teardown"] = f"{type(error).__name__}: {error}"
            print(f"The controller or its hosts did not end: {self.document['teardown']}", flush=True)

    def _write(self) -> None:
        self.document["seconds"] = round(time.monotonic() - self._began, 1)
        self._options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.document, indent=1, default=str) + "\n"
        (self._options.out / DOCUMENT).write_text(text, encoding="utf-8")

    def _print(self) -> None:
        print("\n".join([*report.log_lines(self.document), "", *report.verdict_lines(self.document)]))
        print(f"{self.document['seconds']} s in all; figures in {self._options.out / DOCUMENT}", flush=True)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Give a folder that is removed; not below /tmp, which a host may hide from its jobs."""
    top = Path(sys.argv[0]).resolve().parents[2] / "build"
    top.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="gpu-check-", dir=top))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
