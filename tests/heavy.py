"""Run the tests that need large packages or minutes, part by part, and remember which code each part was green with.

``tests/heavy.json`` holds, for each part, git's ids of the trees and files that it covers. ``--changed`` skips a part
whose ids are those of ``HEAD``, and says so. What is not committed has no id, so it is never recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).parents[1]
RECORD = Path("tests", "heavy.json")
OPTION = "--heavy"
MARKER = re.compile(r"""pytest\.mark\.heavy\(\s*["'](\w+)["']""")

Ids = dict[str, str]
Lane = Literal["daemons", "processes"]
"""Parts of one lane run one after the other; the lanes run side by side, for most of a test's time it waits.

The parts with Docker, Slurm, sshd and JupyterHub take as long as all others together.
"""


@dataclass(frozen=True)
class Part:
    """Tests that are run together: those of files with the part's marker, or ``paths`` under a Hypothesis profile."""

    covers: tuple[str, ...]
    """Folders and files whose change makes the part run again; its own test files count without being named."""
    paths: tuple[str, ...] = ()
    profile: str = ""
    lane: Lane = "processes"


_FRAMEWORKS = ("jupyter_smx/agent", "tests/faults/conftest.py", "tests/faults/pytorch.py", "tests/faults/world.py")
_DAEMONS = ("jupyter_smx/agent", "jupyter_smx/engines", "jupyter_smx/testing/docker", "jupyter_smx/testing/groups")

_FAULTS = (
    "jupyter_smx/agent",
    "jupyter_smx/controller",
    "jupyter_smx/engines",
    "jupyter_smx/policy",
    "jupyter_smx/testing",
)
# Files, since git lists no folder of which a test file is named, too.
_CHAOS = tuple(
    f"tests/faults/chaos/{name}.py"
    for name in ("chaos_bursts", "chaos_invariants", "chaos_loop", "chaos_namespaces", "chaos_world", "run_chaos")
)
_HUB = tuple(
    f"tests/worlds/hub/{name}.py"
    for name in (
        "conftest",
        "hub_packages",
        "hub_process",
        "named_pipe",
        "nginx_front",
        "server_client",
        "shared_machine",
    )
)
_SSH_WORLD = tuple(
    f"tests/worlds/ssh/{name}"
    for name in (
        "client_files.py",
        "connect.py",
        "disk.py",
        "fixture.py",
        "machine.py",
        "machine.sh",
        "namespace_mount.py",
        "ssh_world.py",
        "supervisor.py",
    )
)

PARTS: Mapping[str, Part] = {
    "aws": Part(
        covers=(
            "jupyter_smx/aws",
            "jupyter_smx/aws_endpoint",
            "jupyter_smx/kernel/sagemaker",
            "jupyter_smx/kernel/subcommands",
            "tests/aws/clients/aws_client.py",
            "tests/aws/clients/boto3_jobs.py",
            "tests/aws/clients/client_packages.py",
            "tests/aws/clients/conftest.py",
        )
    ),
    "docker": Part(
        covers=(*_DAEMONS, "jupyter_smx/aws/app.py", "jupyter_smx/aws/sagemaker/requests/job_clients.py"),
        lane="daemons",
    ),
    "environments": Part(
        covers=(
            "jupyter_smx/agent/code",
            "jupyter_smx/agent/remote",
            "jupyter_smx/controller/environments",
            "jupyter_smx/engines/remote",
        )
    ),
    "faults": Part(covers=(*_FAULTS, *_CHAOS, "tests/faults/conftest.py", "tests/faults/world.py")),
    "hub": Part(
        covers=(
            "jupyter-config",
            "jupyter_smx/controller/server.py",
            "jupyter_smx/controller/singleton.py",
            "jupyter_smx/controller_launch.py",
            "jupyter_smx/controller_start.py",
            "jupyter_smx/data_folder",
            "jupyter_smx/kernel/client",
            "jupyter_smx/model/http_routes.py",
            "jupyter_smx/request_body.py",
            "jupyter_smx/server",
            *_HUB,
        ),
        lane="daemons",
    ),
    "libraries": Part(covers=("jupyter_smx/agent", "tests/faults/pytorch.py")),
    "mpi": Part(covers=_FRAMEWORKS),
    "oldest_lab": Part(
        covers=(
            "jupyter-config",
            "jupyter_smx/kernel/display",
            "jupyter_smx/server",
            "package.json",
            "pyproject.toml",
            "schema",
            "src",
            "style",
            "tests/worlds/oldest_lab/conftest.py",
            "tests/worlds/oldest_lab/oldest_packages.py",
            "tsconfig.json",
            "ui-tests",
        )
    ),
    "podman": Part(covers=_DAEMONS, lane="daemons"),
    "random": Part(
        covers=(
            "jupyter_smx/controller",
            "jupyter_smx/kernel/options",
            "jupyter_smx/model",
            "jupyter_smx/policy",
            "jupyter_smx/testing/simulation",
        ),
        paths=(
            "tests/controller/api/test_api_input.py",
            "tests/controller/scheduling/test_histories.py",
            "tests/kernel/options/test_any_line.py",
            "tests/model",
            "tests/policy",
        ),
        profile="heavy",
    ),
    "remote": Part(
        covers=(
            "jupyter_smx/agent",
            "jupyter_smx/engines",
            "jupyter_smx/testing",
            "tests/engines/remote/conftest.py",
            "tests/engines/remote/gateway.py",
            "tests/worlds/hosts_meet.py",
            "tests/engines/remote/remote_harness.py",
            "tests/engines/remote/shell_engine.py",
            "tests/engines/remote/toy_engine.py",
            "tests/engines/remote/toy_harness.py",
        )
    ),
    "rootless": Part(
        covers=(*_DAEMONS, "tests/engines/nobody.py", "tests/engines/docker_daemons/rootless_life.py"), lane="daemons"
    ),
    "spark": Part(covers=(*_FRAMEWORKS, "tests/worlds/executors_meet.py", "tests/worlds/machine_libraries.py")),
    "slurm": Part(
        covers=(
            "jupyter_smx/agent",
            "jupyter_smx/engines",
            "jupyter_smx/testing/groups",
            "tests/worlds/hosts_meet.py",
            "tests/engines/remote/remote_harness.py",
            "tests/engines/slurm/contract/conftest.py",
            "tests/engines/slurm/contract/slurm_harness.py",
            "tests/engines/slurm/slurm_controller.py",
            "tests/worlds/conda_folder.py",
            "tests/worlds/machines_controller.py",
            "tests/worlds/slurm",
            "tests/worlds/ssh",
        ),
        lane="daemons",
    ),
    "ssh": Part(
        covers=(
            "jupyter_smx/agent",
            "jupyter_smx/engines",
            "jupyter_smx/testing/groups",
            "tests/worlds/hosts_meet.py",
            "tests/engines/remote/remote_harness.py",
            "tests/engines/ssh/contract/conftest.py",
            "tests/engines/ssh/contract/ssh_harness.py",
            *_SSH_WORLD,
        ),
        lane="daemons",
    ),
    "stores": Part(
        covers=(
            "jupyter_smx/agent",
            "jupyter_smx/controller/transfer",
            "jupyter_smx/testing/servers",
            "tests/agent/far_side.py",
        )
    ),
    "toolkits": Part(
        covers=(
            "jupyter_smx/agent/contract",
            "jupyter_smx/agent/launchers",
            "jupyter_smx/agent/system",
            "tests/agent/real_toolkit.py",
        )
    ),
    "torch": Part(covers=(*_FRAMEWORKS, "examples/heterogeneous")),
}


_PRINTING = threading.Lock()
_RECORDING = threading.Lock()


class UncommittedError(Exception):
    """Paths that a part covers are not as in ``HEAD``."""


@dataclass(frozen=True)
class Verdict:
    """How a part went."""

    code: int
    passed: int = 0
    skipped: int = 0

    def is_green(self) -> bool:
        """Say whether every test of the part ran and passed."""
        return self.code == 0 and self.passed > 0 and self.skipped == 0


def run_git(*words: str) -> str:
    """Give what git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S607


def marked_files(root: Path = ROOT) -> dict[str, tuple[str, ...]]:
    """Find the test files of each part by the markers in their text."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for part in sorted(set(MARKER.findall(path.read_text(encoding="utf-8")))):
            found.setdefault(part, []).append(path.relative_to(root).as_posix())
    return {part: tuple(paths) for part, paths in found.items()}


def covered_paths(name: str, files: Mapping[str, Sequence[str]]) -> list[str]:
    """List what a part covers, its own test files included."""
    part = PARTS[name]
    return sorted({*part.covers, *part.paths, *files.get(name, ())})


def committed_ids(paths: Sequence[str], git: Callable[..., str] = run_git) -> Ids:
    """Give git's ids of folders and files in ``HEAD``.

    :raises UncommittedError: one of them has changes that are not committed, or is not in ``HEAD``.
    """
    changed = git("status", "--porcelain", "--untracked-files=all", "--", *paths).splitlines()
    if changed:
        raise UncommittedError("not committed: " + ", ".join(line[3:] for line in changed))
    rows = (line.split("\t") for line in git("ls-tree", "HEAD", "--", *paths).splitlines())
    ids = {path: about.split()[2] for about, path in rows}
    if missing := [path for path in paths if path not in ids]:
        raise UncommittedError("not in HEAD: " + ", ".join(missing))
    return ids


def read_record(path: Path) -> dict[str, Ids]:
    """Read which ids each part was green with; empty where there is no record."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_record(path: Path, record: Mapping[str, Ids]) -> None:
    """Write the record in an order that does not depend on the run."""
    known = {name: record[name] for name in record if name in PARTS}
    path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def differing_paths(recorded: Ids, ids: Ids) -> list[str]:
    """List what a part covers now that was not so when it was green."""
    return [path for path, one in sorted(ids.items()) if recorded.get(path) != one]


def pytest_words(name: str, files: Mapping[str, Sequence[str]], report: str) -> list[str]:
    """Give the command that runs a part; it can be typed again, for it names the seed of random tests."""
    part = PARTS[name]
    words = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", f"--junitxml={report}"]
    # In CI these get a second chance, too, as in `make test-py`.
    words += ["--reruns", "1", "-raR"] if os.environ.get("CI") else []
    if part.profile:
        seed = secrets.randbelow(1 << 31)
        return [*words, f"--hypothesis-profile={part.profile}", f"--hypothesis-seed={seed}", *part.paths]
    return [*words, f"{OPTION}={name}", *files.get(name, ())]


def read_verdict(code: int, report: Path) -> Verdict:
    """Read from pytest's report how many tests passed and how many did not run."""
    if not report.exists():
        return Verdict(code)
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - what our own pytest wrote
    kinds = [{part.tag for part in case} for case in cases]
    skipped = sum("skipped" in tags for tags in kinds)
    return Verdict(code, sum(not tags & {"failure", "error", "skipped"} for tags in kinds), skipped)


def run_part(name: str, files: Mapping[str, Sequence[str]]) -> Verdict:
    """Run the tests of one part, and print their output at its end, apart from that of the other lane.

    A package or program that is missing fails them, as in CI.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder, "report.xml"), Path(folder, "output")
        words = pytest_words(name, files, os.fspath(report))
        say("$ " + " ".join(words))
        env = {**os.environ, "CI": "true"}
        with output.open("wb") as file:
            code = subprocess.run(words, cwd=ROOT, env=env, stdout=file, stderr=file, check=False).returncode
        with _PRINTING:
            sys.stdout.write(output.read_text(encoding="utf-8", errors="replace"))
        return read_verdict(code, report)


def say(line: str) -> None:
    """Print a line now, whole."""
    with _PRINTING:
        sys.stdout.write(f"== heavy: {line}\n")
        sys.stdout.flush()


@dataclass
class HeavyRun:
    """One run over some parts."""

    changed_only: bool
    is_recording: bool
    record_path: Path = ROOT / RECORD
    git: Callable[..., str] = run_git
    run: Callable[[str, Mapping[str, Sequence[str]]], Verdict] = run_part
    files: Mapping[str, Sequence[str]] = field(default_factory=marked_files)
    _interrupted: threading.Event = field(default_factory=threading.Event)

    def do(self, names: Sequence[str]) -> int:
        """Run the parts, lane beside lane; give the exit code: 1 where one of them failed."""
        lanes = [[name for name in names if PARTS[name].lane == lane] for lane in get_args(Lane)]
        with ThreadPoolExecutor(len(lanes)) as threads:
            try:
                failed = [name for names in threads.map(self._do_lane, lanes) for name in names]
            except KeyboardInterrupt:
                self._interrupted.set()  # else the lanes would begin their next parts
                raise
        say(f"failed: {', '.join(failed)}" if failed else "no part failed")
        return 1 if failed else 0

    def _do_lane(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if not self._interrupted.is_set() and not self._do_one(name)]

    def _do_one(self, name: str) -> bool:
        recorded = read_record(self.record_path).get(name, {})
        try:
            ids: Ids | None = self._ids(name)
            changed = differing_paths(recorded, ids or {})
        except UncommittedError as why:
            ids, changed = None, [str(why)]
        if self.changed_only and not changed:
            say(f"skip {name}: green with this code already ({RECORD})")
            return True
        why_now = "changed: " + ", ".join(changed) if recorded else "never recorded"
        say(f"run {name} ({why_now if changed else 'as asked'})")
        begun = time.monotonic()
        verdict = self.run(name, self.files)
        said = f"{verdict.passed} passed, {verdict.skipped} skipped, exit code {verdict.code}"
        say(f"{name}: {said} ({time.monotonic() - begun:.0f} s)")
        if self.is_recording:
            self._record(name, ids, verdict)
        return verdict.code == 0

    def _ids(self, name: str) -> Ids:
        return committed_ids(covered_paths(name, self.files), self.git)

    def _record(self, name: str, before: Ids | None, verdict: Verdict) -> None:
        """Keep the ids of a green part, unless the code changed while it ran."""
        reason = "" if verdict.is_green() else "a test failed or was skipped"
        try:
            if before is None or self._ids(name) != before:
                reason = reason or "covered files changed, or are not committed"
        except UncommittedError as why:
            reason = reason or str(why)
        if reason or before is None:
            say(f"{name} is not recorded: {reason}")
            return
        with _RECORDING:
            write_record(self.record_path, {**read_record(self.record_path), name: before})


def main(words: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changed", action="store_true", help="skip parts that were green with the code of HEAD")
    parser.add_argument("--record", action="store_true", help=f"write what is green to {RECORD}")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all where none is named")
    asked = parser.parse_args(words)
    return HeavyRun(asked.changed, asked.record).do(asked.parts or list(PARTS))


if __name__ == "__main__":
    sys.exit(main())
