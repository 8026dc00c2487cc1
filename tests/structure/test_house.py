"""Rules that are counted: lengths, imports, clocks, and tests that do not sleep."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE = 600
MAX_FUNCTION = 50
BROAD = {"Exception", "BaseException"}
CLOCK_CALLS = {("time", "time"), ("datetime", "now"), ("datetime", "utcnow")}

BORDERS = {
    "jupyter_smx/agent/code/execute.py": "the user's code, its exceptions, its hooks, and what pickles it",
    "jupyter_smx/agent/forkserver/spawn.py": "a forked process must not go on as a second agent",
    "jupyter_smx/agent/forkserver/job_process.py": "a forked process must not go on as a second zygote",
    "jupyter_smx/agent/stores/fsspec_worker.py": "a library for a store may raise anything, and each is an answer",
    "jupyter_smx/agent/startup.py": "loading a damaged archive may raise anything, and ends the host",
    "jupyter_smx/agent/host/host.py": "nobody comes to a host's end twice, and a deadline is an end",
    "jupyter_smx/agent/system/processes/forked_task.py": "a forked process must not go on as a second agent",
    "jupyter_smx/agent/job/job.py": "whatever a job left behind or wrote about itself, its record must come",
    "jupyter_smx/agent/system/processes/event_loop.py": "one job's trouble must not end the host",
    "jupyter_smx/agent/stores/upload.py": "a library for a store may raise anything, each an outcome of one file",
    "jupyter_smx/agent/stores/sftp_ftp.py": "a library for a store may raise anything, and another way may be open",
    "jupyter_smx/agent/stores/retry.py": "a library for a store may raise anything, and some of it may pass",
    "jupyter_smx/agent/job/end_on_error.py": "whatever goes wrong in a step of a job, its end must come",
    "jupyter_smx/agent/launchers/parameter_server.py": "TensorFlow's own code, in a forked process that must not go on",
    "jupyter_smx/agent/forkserver/fork_safety.py": "importing runs code of any library",
    "jupyter_smx/aws_endpoint/settings.py": "the administrator's configuration file is code",
    "jupyter_smx/aws/front.py": "a service may have any fault, and each request has an answer",
    "jupyter_smx/controller/agents/channels.py": "an error of one connection must not leave its client without an end",
    "jupyter_smx/controller/agents/stream.py": "one bad event must not deafen the stream",
    "jupyter_smx/controller/app.py": "the administrator's configuration file is code",
    "jupyter_smx/controller/retention.py": "a chore for which no user waits, and which is done again in its turn",
    "jupyter_smx/controller/telemetry/progress_tracker.py": "a log may say anything, and no outcome may depend on it",
    "jupyter_smx/controller/server.py": "one bad record must not end all others' jobs",
    "jupyter_smx/controller/errors.py": "an engine or the system may raise anything, and no job may wait for ever",
    "jupyter_smx/engines/registry.py": "an engine is somebody else's code",
    "jupyter_smx/kernel/options/line_syntax.py": "attributes and items of the user's objects",
    "jupyter_smx/kernel/handles/job.py": "the user's callbacks",
    "jupyter_smx/kernel/request/payload.py": "pickling and unpickling the user's objects",
    "jupyter_smx/kernel/api/watcher.py": "what draws the card of an array",
    "jupyter_smx/model/text.py": "how the user's objects are written",
    "jupyter_smx/server/message_sender.py": "receivers may answer anything, and one message must not end the others",
    "jupyter_smx/server/event_relay.py": "one bad event must not end the relay",
}
"""Files that may catch everything and continue, and whose code or failure they catch there."""

GENERATED = "src/_types.ts"
"""Generated, so no rule of style applies; `make types-check` compares it with the structs."""

CLOCKS = {
    "jupyter_smx/agent": "hosts have their own clocks",
    "jupyter_smx/aws/app.py": "the wiring gives the clock to everybody else",
    "jupyter_smx/cli": "shows ages to a person, and notes the moment in which the user asked",
    "jupyter_smx/controller/server.py": "the wiring gives the clock to everybody else",
    "jupyter_smx/controller_start.py": "compares with the time of the lock file",
    "jupyter_smx/engines/docker/engine.py": "compares with times of files",
    "jupyter_smx/engines/local/engine.py": "compares with times of files",
    "jupyter_smx/engines/remote/remote_engine.py": "says since when a machine is silent",
    "jupyter_smx/engines/slurm/engine.py": "compares with moments that Slurm tells",
    "jupyter_smx/kernel/api/array_session.py": "shows ages to a person",
    "jupyter_smx/kernel/api/map.py": "notes the moment in which the user asked",
    "jupyter_smx/kernel/subcommands/host_subcommands.py": "shows ages to a person",
    "jupyter_smx/kernel/subcommands/job_subcommands.py": "shows ages to a person",
    "jupyter_smx/kernel/api/functions.py": "notes the moment in which the user asked",
    "jupyter_smx/kernel/magics/magics.py": "notes the moment in which the user asked",
    "jupyter_smx/kernel/api/session.py": "shows ages to a person",
    "jupyter_smx/server": "tells the browser the time of this side",
    "jupyter_smx/testing": "stands where the kernel stands",
}
"""Files and folders at the edge that may read the wall clock, and why."""

SLEEPERS = {
    "tests/faults/chaos": "faults last for a while, by a seed",
    "tests/engines/test_contract_itself.py": "engines that block the loop are what is tested",
}
"""Tests that may let real time pass, and why."""


@functools.cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def source_files() -> list[Path]:
    typescript = [path for kind in ("*.ts", "*.tsx") for path in sorted((ROOT / "src").rglob(kind))]
    return python_files("jupyter_smx") + typescript


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Facts(NamedTuple):
    """What the rules of this file count in one Python file; one walk collects all of it, because trees are large."""

    has_docstring: bool
    functions: dict[str, int]
    """Lines of each function."""
    broad_handlers: list[int]
    clock_calls: list[int]
    sleeps: list[int]


@functools.cache
def facts(path: Path) -> Facts:
    tree = ast.parse(text(path), str(path))
    found = Facts(bool((ast.get_docstring(tree) or "").strip()), {}, [], [], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.functions[f"{node.name}:{node.lineno}"] = (node.end_lineno or 0) - node.lineno + 1
        elif isinstance(node, ast.ExceptHandler) and is_broad(node):
            found.broad_handlers.append(node.lineno)
        elif isinstance(node, ast.Attribute) and (getattr(node.value, "id", ""), node.attr) in CLOCK_CALLS:
            found.clock_calls.append(node.lineno)
        elif isinstance(node, ast.Call) and is_sleep(node):
            found.sleeps.append(node.lineno)
    return found


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Return True if a handler catches everything and does not raise it again."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in kinds)
    last = handler.body[-1]
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def is_sleep(call: ast.Call) -> bool:
    """Return True if a call lets time pass; ``asyncio.sleep(0)`` only yields to other tasks."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first = call.args[0] if call.args else None
    return called == "sleep" and not (isinstance(first, ast.Constant) and first.value == 0)


def declared(path: Path, list_of: dict[str, str]) -> bool:
    return any(name(path) == entry or name(path).startswith(f"{entry}/") for entry in list_of)


def test_there_is_something_to_count() -> None:
    assert len(source_files()) > 50


def test_no_file_has_more_than_six_hundred_lines() -> None:
    everything = [*source_files(), *python_files("tests", "ui-tests", "bench", "examples")]
    sizes = {name(path): len(text(path).splitlines()) for path in everything}
    assert {file: lines for file, lines in sizes.items() if lines > MAX_FILE and file != GENERATED} == {}


def test_what_is_generated_says_so() -> None:
    assert "json-schema-to-typescript" in text(ROOT / GENERATED)[:400]


def test_no_function_has_more_than_fifty_lines() -> None:
    found = {
        f"{name(path)}:{function}": lines
        for path in python_files("jupyter_smx", "tests")
        for function, lines in facts(path).functions.items()
        if lines > MAX_FUNCTION
    }
    assert found == {}


def test_every_file_begins_with_a_sentence() -> None:
    silent = [name(path) for path in python_files("jupyter_smx") if not facts(path).has_docstring]
    assert set(silent) <= {"jupyter_smx/_version.py"}, "only the file that the build writes"


def test_everything_is_caught_only_at_declared_borders() -> None:
    undeclared = [
        f"{name(path)}:{line}"
        for path in python_files("jupyter_smx")
        if not declared(path, BORDERS)
        for line in facts(path).broad_handlers
    ]
    assert undeclared == []


def test_every_declared_border_is_one() -> None:
    assert [entry for entry in BORDERS if not facts(ROOT / entry).broad_handlers] == []


def test_the_worlds_clock_is_read_only_at_the_edge() -> None:
    undeclared = [
        f"{name(path)}:{line}"
        for path in python_files("jupyter_smx")
        if not declared(path, CLOCKS)
        for line in facts(path).clock_calls
    ]
    assert undeclared == []


def test_no_test_sleeps() -> None:
    found = [
        f"{name(path)}:{line}"
        for path in python_files("tests")
        if not declared(path, SLEEPERS)
        for line in facts(path).sleeps
    ]
    assert found == []


def test_every_declared_sleeper_and_reader_of_the_clock_is_one() -> None:
    asleep = [name(path) for path in python_files("tests") if facts(path).sleeps]
    reading = [name(path) for path in python_files("jupyter_smx") if facts(path).clock_calls]
    for declarations, found in ((SLEEPERS, asleep), (CLOCKS, reading)):
        needless = [entry for entry in declarations if not any(f"{file}/".startswith(f"{entry}/") for file in found)]
        assert needless == []


def test_no_test_of_the_browser_waits_for_a_time() -> None:
    waits = re.compile(r"waitForTimeout|wait_for_timeout|\bsleep\(|(?<!jest\.)setTimeout\([^)]*\d{3}")
    folders = [ROOT / "ui-tests", ROOT / "src" / "__tests__"]
    files = [path for folder in folders for kind in ("*.py", "*.ts*") for path in folder.rglob(kind)]
    assert [name(path) for path in files if waits.search(text(path))] == []


@pytest.mark.parametrize("word", ["helper", "util", "manager", "misc", "common"])
def test_no_file_has_a_name_that_says_nothing(word: str) -> None:
    assert [name(path) for path in source_files() if word in path.stem.lower()] == []


def test_no_two_files_of_tests_have_one_name() -> None:
    """Pytest imports them by that name alone: a second one ends the whole collection, which a run of one file hides."""
    for folder in ("tests", "ui-tests"):
        counted = Counter(path.name for path in python_files(folder) if path.name != "conftest.py")
        assert [one for one, times in counted.items() if times > 1] == []


def test_the_page_knows_the_version_of_the_package() -> None:
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["version"]
    page = re.findall(r"VERSION = '(.+)'", (ROOT / "src" / "version.ts").read_text(encoding="utf-8"))
    assert page == [package]


def test_every_engine_is_kept_from_the_others() -> None:
    """Import-linter checks a new engine only once it is in the list of the contract."""
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (apart,) = map(json.loads, re.findall(r'"Engines do not import each other"\n.*\nmodules = (.*)', contracts))
    folders = [path.parent.name for path in (ROOT / "jupyter_smx" / "engines").glob("*/engine.py")]
    assert sorted(apart) == sorted(f"jupyter_smx.engines.{name}" for name in folders)
    assert len(apart) > 1
