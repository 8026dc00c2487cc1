"""The verbs for environments on a machine: one build for all requests; it ends with its reader, never incomplete."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from jupyter_smx.agent.code import environment_build
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).parent / "uv"
pytestmark = pytest.mark.skipif(not UV.exists(), reason="uv builds in a moment; pip takes 20 times as long")
PATIENCE = 60.0
BASE = ""
SLOW = """\
import os, pathlib, shutil
def build_wheel(folder, *_):
    pathlib.Path({begun!r}).write_text(str(os.getpid()))
    open({gate!r}).close()
    return shutil.copy({wheel!r}, folder).split("/")[-1]
"""


class Account:
    """A folder of an account on this machine, and the requests that were sent to it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "account"
        self.root.mkdir()
        self.tools = folder / "tools"
        self.tools.mkdir()
        (self.tools / "uv").symlink_to(UV)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, verb: str, **question: Any) -> subprocess.Popen[bytes]:
        """Send a request as a controller does: the input stays open."""
        words = [sys.executable, "-m", "jupyter_smx.agent", "remote", verb, os.fspath(self.root)]
        environ = {**os.environ, "PYTHONPATH": os.fspath(ROOT), "PATH": f"{self.tools}:/usr/bin:/bin"}
        asked = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
        self.started.append(asked)
        assert asked.stdin is not None
        asked.stdin.write(json.dumps({"machine": "gpu-box", **question}).encode() + b"\n")
        asked.stdin.flush()
        return asked

    def ask(self, verb: str, **question: Any) -> list[dict[str, Any]]:
        """Return all frames of an answer."""
        return frames(self.start(verb, **question))

    def answer(self, verb: str, **question: Any) -> Any:
        """Return the answer."""
        return self.ask(verb, **question)[-1]["answer"]

    def environments(self) -> list[Path]:
        return sorted((self.root / "environments").glob("*"))


def frames(asked: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    assert asked.stdout is not None
    return [json.loads(line) for line in asked.stdout]


def question(*lines: str, **more: Any) -> dict[str, Any]:
    same = {"lines": [*lines], "pip_lines": [*lines], "only": False, "installer": "auto", "variables": {}}
    return {"python": BASE, "setup": "", "identity": "0123456789abcdef0123", **same, **more}


@pytest.fixture(scope="module", autouse=True)
def base(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make an interpreter with one package only, which uv reads quickly."""
    global BASE  # noqa: PLW0603 - the same for all tests
    folder = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([UV, "venv", "-q", "--python", Path(sys.executable).resolve(), folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "of_the_base.py").touch()
    BASE = os.fspath(folder / "bin" / "python")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    monkeypatch.setenv("UV_CACHE_DIR", os.fspath(tmp_path / "cache"))
    made = Account(tmp_path)
    yield made
    for asked in made.started:
        for pipe in (asked.stdin, asked.stdout):
            if pipe is not None:
                pipe.close()
        asked.kill()
        asked.wait()


@pytest.fixture
def lines(tmp_path: Path) -> tuple[str, ...]:
    write_wheel(tmp_path / "wheels", "alpha", "1.0")
    return "--no-index", f"--find-links {tmp_path / 'wheels'}", "alpha"


class Slow:
    """A project whose build waits for a gate: a named pipe that has no writer until it is opened."""

    def __init__(self, folder: Path) -> None:
        self.begun, self.gate = folder / "begun", folder / "gate"
        os.mkfifo(self.gate)
        self._gate_end = -1
        project = folder / "slow"
        project.mkdir()
        wheel = write_wheel(folder / "built", "slow", "1.0")
        (project / "pyproject.toml").write_text(
            '[project]\nname = "slow"\nversion = "1.0"\n'
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        )
        (project / "backend.py").write_text(SLOW.format(begun=str(self.begun), gate=str(self.gate), wheel=str(wheel)))
        self.lines = ("--no-index", str(project))

    def pid(self) -> int:
        """Wait until the build runs, and return its process id."""
        eventually_blocking(lambda: self.begun.exists() and self.begun.read_text(), "the build", within=PATIENCE)
        return int(self.begun.read_text())

    def open_gate(self) -> None:
        """Let the build that waits go on, and each later one."""
        self._gate_end = os.open(self.gate, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Let later builds wait again."""
        if self._gate_end >= 0:
            os.close(self._gate_end)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    project = Slow(tmp_path)
    yield project
    project.close()


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def imports(python: str, name: str) -> bool:
    words = [python, "-I", "-c", f"import {name}"]
    return subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode == 0


def test_an_environment_is_built_once_and_each_use_is_noted(account: Account, lines: tuple[str, ...]) -> None:
    told = account.ask("environment", **question(*lines))
    base = told[0]["progress"]["base"]
    assert (base["version"], base["root"], base["uv"]) == (
        ".".join(map(str, sys.version_info[:3])),
        os.fspath(account.root),
        os.fspath(account.tools / "uv"),
    )
    assert any("alpha" in frame["progress"].get("line", "") for frame in told[:-1])
    first = told[-1]["answer"]
    assert (first["state"], first["built"]) == ("ready", True)
    assert imports(first["python"], "alpha")
    assert imports(first["python"], "of_the_base")
    [folder] = account.environments()
    os.utime(folder / "ready.json", (0, 0))
    second = account.answer("environment", **question(*lines))
    assert second == {**first, "seconds": 0.0, "built": False}
    assert (folder / "ready.json").stat().st_mtime > 0


def test_a_check_builds_nothing(account: Account, lines: tuple[str, ...]) -> None:
    assert account.answer("environment", **question(*lines, check=True)) == {"state": "missing"}
    assert account.environments() == []
    account.answer("environment", **question(*lines))
    assert account.answer("environment", **question(*lines, check=True))["state"] == "ready"


def test_another_identity_is_another_environment(account: Account, lines: tuple[str, ...]) -> None:
    found = [account.answer("environment", **question(*lines, identity=each))["python"] for each in ("a", "b")]
    assert len({*found}) == len(account.environments()) == 2


def test_packages_of_the_base_are_left_out_if_that_is_asked_for(account: Account, lines: tuple[str, ...]) -> None:
    found = account.answer("environment", **question(*lines, only=True))
    assert imports(found["python"], "alpha")
    assert not imports(found["python"], "of_the_base")


def test_a_second_launch_waits_for_the_build_of_the_first(account: Account, slow: Slow) -> None:
    first = account.start("environment", **question(*slow.lines))
    slow.pid()
    second = account.start("environment", **question(*slow.lines))
    assert second.stdout is not None
    assert "base" in json.loads(second.stdout.readline())["progress"]
    assert json.loads(second.stdout.readline()) == {"progress": {"waits": True}}
    slow.begun.unlink()
    slow.open_gate()
    answers = [frames(each)[-1]["answer"] for each in (first, second)]
    assert [answer["built"] for answer in answers] == [True, False]
    assert answers[0]["python"] == answers[1]["python"]
    assert not slow.begun.exists(), "it was built once"


@pytest.mark.parametrize("how", ["input closed", "output closed", "process killed"])
def test_a_build_whose_engine_is_gone_ends_with_all_its_processes_and_the_next_one_begins_at_the_start(
    account: Account, slow: Slow, how: str
) -> None:
    asked = account.start("environment", **question(*slow.lines))
    pid = slow.pid()
    assert asked.stdin is not None
    assert asked.stdout is not None
    if how == "input closed":
        asked.stdin.close()
    elif how == "output closed":
        asked.stdout.close()
    else:
        asked.send_signal(signal.SIGKILL)
    eventually_blocking(lambda: not is_alive(pid), "the build's end", within=PATIENCE)
    [folder] = account.environments()
    assert not (folder / "ready.json").exists()
    (folder / "venv" / "half built").touch()
    slow.open_gate()
    answer = account.answer("environment", **question(*slow.lines))
    assert answer["built"]
    assert not (folder / "venv" / "half built").exists()


def test_an_environment_whose_base_is_gone_is_built_again(account: Account, lines: tuple[str, ...]) -> None:
    answer = account.answer("environment", **question(*lines))
    Path(answer["python"]).unlink()
    Path(answer["python"]).symlink_to("/nowhere/python")
    assert account.answer("environment", **question(*lines))["built"]


def test_without_a_path_the_base_is_the_python_of_the_agent(account: Account) -> None:
    told = account.ask("environment", **question("alpha", python="", check=True))
    assert told[0]["progress"]["base"]["python"] == sys.executable


def test_a_failure_leaves_the_log_and_the_next_question_tries_again(account: Account, lines: tuple[str, ...]) -> None:
    answer = account.answer("environment", **question(*lines, "nosuch"))
    assert (answer["state"], answer["installer"], answer["code"]) == ("failed", "uv", 1)
    assert "nosuch" in Path(answer["log"]).read_text()
    assert not (Path(answer["log"]).parent / "venv").exists()
    assert account.answer("environment", **question(*lines, "nosuch"))["state"] == "failed"


def test_a_base_that_cannot_be_started_is_refused_with_its_words(account: Account, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 1\n")
    broken.chmod(0o755)
    for python, words in ((str(broken), "no such library"), ("/nowhere/python", "No such file")):
        [frame] = account.ask("environment", **question("alpha", python=python))
        assert words in frame["refused"]["message"]
        assert "gpu-box" in frame["refused"]["message"]


@pytest.mark.heavy("environments")
def test_a_uv_that_lacks_an_option_is_not_used(account: Account, lines: tuple[str, ...]) -> None:
    (account.tools / "uv").unlink()
    (account.tools / "uv").write_text("#!/bin/sh\necho \"error: unexpected argument '--no-project'\" >&2\nexit 2\n")
    (account.tools / "uv").chmod(0o755)
    answer = account.answer("environment", **question(*lines))
    assert answer["state"] == "ready"
    assert json.loads((account.environments()[0] / "ready.json").read_text())["installer"] == "pip"


def sent(*files: tuple[str, int], no_index: bool = True) -> dict[str, Any]:
    return {"folder": "from-here", "files": dict(files), "token": "{wheels}", "no_index": no_index}


def test_packages_that_were_sent_are_used_and_removed(account: Account) -> None:
    folder = account.root / "wheels" / "from-here"
    beta = write_wheel(folder, "beta", "1.0", needs=("alpha",))
    alpha = write_wheel(folder, "alpha", "1.0")
    files = [(path.name, path.stat().st_size) for path in (alpha, beta)]
    answer = account.answer("environment", **question(f"{{wheels}}/{beta.name}", wheels=sent(*files)))
    assert imports(answer["python"], "beta")
    assert imports(answer["python"], "alpha")
    assert not folder.exists()


def test_packages_that_came_in_part_are_no_packages(account: Account) -> None:
    path = write_wheel(account.root / "wheels" / "from-here", "alpha", "1.0")
    for name, size in ((path.name, path.stat().st_size + 1), ("beta-1.0-py3-none-any.whl", 1)):
        frame = account.ask("environment", **question("alpha", wheels=sent((name, size))))[-1]
        assert frame["unavailable"]["transient"]
        assert name in frame["unavailable"]["message"]


def test_a_folder_of_packages_cannot_lead_elsewhere(account: Account, tmp_path: Path, lines: tuple[str, ...]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (account.root / "wheels").mkdir()
    wheels = {**sent(no_index=False), "folder": f"../../{elsewhere.name}"}
    account.ask("environment", **question(*lines, wheels=wheels))
    assert elsewhere.exists()


def test_environments_are_listed_and_old_ones_deleted_except_one_that_is_being_built(
    account: Account, lines: tuple[str, ...]
) -> None:
    for identity in ("old", "new", "locked"):
        account.answer("environment", **question(*lines, identity=identity))
    by_age = {"old": 5_000, "new": 700, "locked": 5_000}
    folders = dict(zip(by_age, sorted(account.environments(), key=lambda path: path.stat().st_mtime_ns), strict=True))
    now = (folders["old"] / "ready.json").stat().st_mtime
    for name, age in by_age.items():
        os.utime(folders[name] / "ready.json", (now - age, now - age))
    listed = {row["name"]: row for row in account.answer("list_environments")["environments"]}
    row = listed[folders["old"].name]
    assert 5_000 <= row["unused_seconds"] < 6_000
    assert (row["is_ready"], row["is_used"], row["requirements"]) == (True, False, [*lines])
    assert row["bytes"] > 1_000
    lock = os.open(folders["locked"] / environment_build.LOCK, os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert account.answer("delete_environments", unused_seconds=1_000) == {"deleted": [folders["old"].name]}
    os.close(lock)
    assert {path.name for path in account.environments()} == {folders["new"].name, folders["locked"].name}


def test_an_environment_that_was_just_used_is_not_deleted(account: Account, lines: tuple[str, ...]) -> None:
    account.answer("environment", **question(*lines))
    assert account.answer("delete_environments", unused_seconds=0) == {"deleted": []}


def test_packages_of_a_build_that_never_began_are_deleted_after_a_day(account: Account) -> None:
    old, new = (account.root / "wheels" / name for name in ("old", "new"))
    for folder in (old, new):
        write_wheel(folder, "alpha", "1.0")
    os.utime(old, (0, 0))
    account.answer("delete_environments", unused_seconds=1_000)
    assert (old.exists(), new.exists()) == (False, True)
