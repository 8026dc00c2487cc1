"""Real environments, made by uv and by pip from local wheels: their content, and what a failed build leaves."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from jupyter_smx.agent.code import environment_build as build
from jupyter_smx.controller.environments.build_process import BuildError, Installer
from jupyter_smx.controller.environments.cache import EnvironmentCache
from jupyter_smx.model.records.cluster import ReuseKey
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import PythonEnvironment
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.heavy("environments"),
    pytest.mark.skipif(sys.platform == "win32", reason="controllers need unix"),
]

BOTH = pytest.mark.parametrize("choice", ["auto", "pip"], ids=["uv", "pip"])
SLOW_BUILD = """\
import os, time
open({begun!r}, "w").write(str(os.getpid()))
while True:
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        write_wheel(folder, "alpha", version)
    write_wheel(folder, "beta", "1.0", needs=("alpha",))
    write_wheel(folder, "gamma", "1.0", needs=("alpha>=2",))
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> str:
    """Return the interpreter of a virtual environment that has alpha 1.0, and a module that a .pth file adds."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, "--no-index"]
    subprocess.run([*install, "--find-links", str(wheels), "alpha==1.0"], check=True)
    edited = folder / "edited"
    edited.mkdir()
    (edited / "edited_module.py").write_text("version = 'edited'\n")
    (next(folder.glob("lib/python*/site-packages")) / "edited.pth").write_text(f"{edited}\n")
    return python


PROGRAMS = {
    "tool": "#!BASE\nimport alpha, beta, sys\nprint(sys.executable, alpha.version, beta.version, *sys.argv[1:])\n",
    "long": "#!/bin/sh\n'''exec' \"BASE\" \"$0\" \"$@\"\n' '''\nimport sys, beta\nprint(sys.executable)\n",
    "anywhere": "#!/usr/bin/env python3\nimport sys, beta\nprint(sys.executable)\n",
    "moved": "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n"
    "import sys, beta\nprint(sys.executable)\n",
    "exact": "#!/usr/bin/env python{}.{}\n".format(*sys.version_info) + "import sys, beta\nprint(sys.executable)\n",
    "elder": "#!/usr/bin/env python2\nprint 1\n",
    "conda": "#!BASE\n",
    "mamba": "#!BASE\n",
    "activate-global": "#!BASE\n",
    "mpirun": "#!/bin/sh\necho of the system\n",
    "other": "#!/usr/bin/python2\nprint 1\n",
    "data.bin": "no program",
}
"""Programs as installers write them beside the base's Python, and others."""
OF_THE_BASE = ("tool", "long", "anywhere", "moved", "exact")


@pytest.fixture
def with_programs(base: str) -> Iterator[str]:
    written = [Path(base).with_name(name) for name in PROGRAMS]
    for path in written:
        path.write_text(PROGRAMS[path.name].replace("BASE", base))
        path.chmod(0o755)
    loop = Path(base).with_name("loop")
    loop.symlink_to(loop)
    yield base
    for path in (*written, loop):
        path.unlink()


def environment(wheels: Path, *lines: str, only: bool = False) -> PythonEnvironment:
    return PythonEnvironment(requirements=("--no-index", f"--find-links {wheels}", *lines), only=only)


async def built(choice: str, folder: Path, base: str, wanted: PythonEnvironment) -> list[str]:
    steps: list[str] = []
    await Installer(choice).build(folder, base, wanted, steps.append)
    return steps


def seen(folder: Path, *modules: str) -> dict[str, str]:
    """Import modules in the environment, started as an agent's Python is; return their versions."""
    code = (
        "import importlib, json, sys\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = importlib.import_module(name).version\n"
        "    except ImportError: found[name] = ''\n"
        "print(json.dumps(found))"
    )
    python = str(folder / "venv" / "bin" / "python")
    answer = subprocess.run([python, "-I", "-c", code, *modules], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(answer.stdout)
    return found


def printed(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or answer.stderr


def state_of(python: str) -> dict[str, bytes]:
    site = next(Path(python).parents[1].glob("lib/python*/site-packages"))
    return {str(path): path.read_bytes() for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"}


@BOTH
async def test_what_the_base_has_is_seen_and_not_installed_again(
    choice: str, tmp_path: Path, base: str, wheels: Path
) -> None:
    before = state_of(base)
    steps = await built(choice, tmp_path / "e", base, environment(wheels, "beta"))
    assert seen(tmp_path / "e", "alpha", "beta", "edited_module") == {
        "alpha": "1.0",
        "beta": "1.0",
        "edited_module": "edited",
    }
    own = {path.name for path in (tmp_path / "e").glob("venv/lib/python*/site-packages/*")}
    assert "beta.py" in own
    assert not [name for name in own if name.startswith("alpha")], "neither alpha nor its shadow is here"
    assert state_of(base) == before
    assert any("package" in step or "Collecting" in step for step in steps), steps
    facts = json.loads((tmp_path / "e" / build.READY).read_text())
    assert facts["installer"] == ("uv" if choice == "auto" else "pip")


@pytest.mark.parametrize(
    ("choice", "folder"),
    [
        ("auto", "e"),
        ("auto", "a folder with spaces"),
        ("auto", "deep" * 40),
        ("pip", "e"),
    ],
    ids=["uv", "spaces", "long", "pip"],
)
async def test_programs_of_the_base_run_in_the_environment(
    choice: str, folder: str, tmp_path: Path, with_programs: str, wheels: Path
) -> None:
    place = tmp_path / folder
    await built(choice, place, with_programs, environment(wheels, "beta"))
    programs, python = place / "venv" / "bin", str(place / "venv" / "bin" / "python")
    assert {name for name in PROGRAMS if (programs / name).exists()} == {*OF_THE_BASE}
    for name in OF_THE_BASE:
        expected = f"{python} 1.0 1.0 word" if name == "tool" else python
        assert printed(str(programs / name), "word") == printed(python, str(programs / name), "word") == expected
    assert (place / "venv" / build.BASE).read_text() == with_programs


async def test_an_environment_of_its_own_has_no_programs_of_the_base(
    tmp_path: Path, with_programs: str, wheels: Path
) -> None:
    await built("auto", tmp_path / "e", with_programs, environment(wheels, "beta", only=True))
    programs = tmp_path / "e" / "venv" / "bin"
    assert not [name for name in PROGRAMS if (programs / name).exists()]
    assert not (tmp_path / "e" / "venv" / build.BASE).exists()


def test_what_cannot_be_read_in_a_folder_of_programs_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "tool").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    assert build._list_files(str(tmp_path)) == [str(tmp_path / "tool")]
    assert build._list_files(str(tmp_path / "gone")) == []


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (b"#!/base/bin/python\nprint(1)\n", b"#!/e/bin/python\nprint(1)\n"),
        (b"#!/base/bin/python3.11 -Es\nprint(1)\n", b"#!/e/bin/python -Es\nprint(1)\n"),
        (b"#! /base/bin/python\n\xff", b"#!/e/bin/python\n\xff"),
        (b"#!/usr/bin/env python\n", b"#!/e/bin/python\n"),
        (b"#!/usr/bin/env python2\n", None),
        (b"#!/usr/bin/env -S python -u\n", None),
        (b"#!/usr/bin/env bash\n", None),
        (b"#!/other/bin/python\n", None),
        (b"#!/bin/sh\n'''exec' /base/bin/python \"$0\" \"$@\"\n' '''\nx\n", b"#!/e/bin/python\nx\n"),
        (b"#!/bin/sh\n'''exec' /other/bin/python \"$0\" \"$@\"\n' '''\nx\n", None),
        (b"\x7fELF", None),
        (b"", None),
    ],
)
def test_a_program_gets_another_interpreter(program: bytes, expected: bytes | None) -> None:

    def is_base(name: str) -> bool:
        return name == "python" or name.startswith("/base/bin/python")

    assert build.set_interpreter(program, "/e/bin/python", is_base) == expected


@BOTH
async def test_what_the_base_has_in_another_version_is_put_before_it_and_the_base_is_left_alone(
    choice: str, tmp_path: Path, base: str, wheels: Path
) -> None:
    before = state_of(base)
    await built(choice, tmp_path / "e", base, environment(wheels, "gamma"))
    assert seen(tmp_path / "e", "alpha", "gamma", "edited_module") == {
        "alpha": "2.0",
        "gamma": "1.0",
        "edited_module": "edited",
    }
    assert state_of(base) == before


@pytest.fixture
def old_base(tmp_path: Path) -> str:
    """Return the interpreter of an environment with alpha as setup.py install left it, and with unreadable metadata."""
    folder = tmp_path / "old"
    subprocess.run([sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "alpha.py").write_text("version = '1.0'\n")
    metadata = {
        "alpha-1.0-py3.11.egg-info/PKG-INFO": ("alpha", "1.0"),
        "delta-1.0_here.dist-info/METADATA": ("delta", "1.0+here"),
        "eps-ilon-1.0.egg-info/PKG-INFO": ("eps-ilon", "1.0"),
        "zeta-unknown.dist-info/METADATA": ("zeta", "unknown"),
        "~eta-1.0.dist-info/METADATA": ("beta", "1.0"),
    }
    for path, (name, version) in metadata.items():
        (site / path).parent.mkdir()
        (site / path).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: none\n")
    return str(folder / "bin" / "python")


@BOTH
async def test_packages_of_the_base_may_be_described_in_the_old_way_or_in_a_broken_one(
    choice: str, tmp_path: Path, old_base: str, wheels: Path
) -> None:
    await built(choice, tmp_path / "e", old_base, environment(wheels, "beta"))
    assert seen(tmp_path / "e", "alpha", "beta") == {"alpha": "1.0", "beta": "1.0"}
    site = next((tmp_path / "e").glob("venv/lib/python*/site-packages"))
    infos = {path.name for path in site.glob("*.dist-info") if not path.name.startswith(("pip-", "setuptools-"))}
    assert infos == {"beta-1.0.dist-info"}, "neither alpha nor a shadow is here"


@BOTH
async def test_an_environment_of_its_own_has_nothing_of_the_base(
    choice: str, tmp_path: Path, base: str, wheels: Path
) -> None:
    await built(choice, tmp_path / "e", base, environment(wheels, "alpha", only=True))
    assert seen(tmp_path / "e", "alpha", "edited_module") == {"alpha": "2.0", "edited_module": ""}


_BACKEND = """\
import os, zipfile
def build_wheel(folder, *_settings):
    info = "theta-1.0.dist-info"
    texts = {
        "theta.py": "version = '1.0'",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: theta\\nVersion: 1.0\\nRequires-Dist: beta\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    with zipfile.ZipFile(os.path.join(folder, "theta-1.0-py3-none-any.whl"), "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\\n" for name in [*texts, f"{info}/RECORD"]))
    return "theta-1.0-py3-none-any.whl"
build_editable = build_wheel
"""


@BOTH
async def test_folders_may_have_a_blank_in_their_names(choice: str, tmp_path: Path, base: str, wheels: Path) -> None:
    shutil.copytree(wheels, tmp_path / "my wheels")
    project = tmp_path / "my project"
    project.mkdir()
    (project / "backend.py").write_text(_BACKEND)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "theta"\nversion = "1.0"\ndependencies = ["beta"]\n'
    )
    links = f"--find-links {tmp_path / 'my wheels'}"
    wanted = PythonEnvironment(requirements=("--no-index", links, f"-e {project} # content 0123"))
    await built(choice, tmp_path / "e", base, wanted)
    assert seen(tmp_path / "e", "theta", "beta") == {"theta": "1.0", "beta": "1.0"}


@BOTH
async def test_constraints_hold(choice: str, tmp_path: Path, base: str, wheels: Path) -> None:
    await built(choice, tmp_path / "e", base, environment(wheels, "alpha", "-c alpha<2", only=True))
    assert seen(tmp_path / "e", "alpha") == {"alpha": "1.0"}


@BOTH
async def test_a_failure_names_package_exit_code_and_cure_and_leaves_the_log(
    choice: str, tmp_path: Path, base: str, wheels: Path
) -> None:
    with pytest.raises(BuildError) as told:
        await built(choice, tmp_path / "e", base, environment(wheels, "nosuch==3"))
    said = str(told.value)
    assert "--requirements: nosuch" in said
    assert f"{'uv' if choice == 'auto' else 'pip'} ended with exit code 1" in said
    assert "Correct the name or the version" in said
    assert "environments/e/build.log" in said
    assert "nosuch" in (tmp_path / "e" / "build.log").read_text()
    assert not (tmp_path / "e" / build.READY).exists()
    assert not (tmp_path / "e" / "venv").exists()


async def test_a_failure_of_our_own_leaves_nothing_that_takes_room(tmp_path: Path, base: str, wheels: Path) -> None:
    (tmp_path / "e" / f".{build.READY}").mkdir(parents=True)
    with pytest.raises(BuildError, match="Is a directory"):
        await built("auto", tmp_path / "e", base, environment(wheels, "alpha"))
    assert not (tmp_path / "e" / "venv").exists()


@BOTH
async def test_a_log_that_finds_no_room_ends_no_build(choice: str, tmp_path: Path, base: str, wheels: Path) -> None:
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / build.LOG).symlink_to("/dev/full")
    await built(choice, tmp_path / "e", base, environment(wheels, "beta"))
    assert seen(tmp_path / "e", "beta") == {"beta": "1.0"}


async def test_an_option_that_uv_would_leave_out_is_left_to_pip(tmp_path: Path, base: str, wheels: Path) -> None:
    await built("auto", tmp_path / "e", base, environment(wheels, "--pre", "beta"))
    assert json.loads((tmp_path / "e" / build.READY).read_text())["installer"] == "pip"


async def test_a_base_that_is_gone_is_said(tmp_path: Path, wheels: Path) -> None:
    for choice in ("auto", "pip"):
        with pytest.raises(BuildError) as told:
            await built(choice, tmp_path / choice, "/nowhere/bin/python", environment(wheels, "alpha"))
        assert "/nowhere/bin/python" in str(told.value)


async def test_variables_that_would_lead_the_installer_elsewhere_are_not_passed_on(
    tmp_path: Path, base: str, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    for choice in ("auto", "pip"):
        await built(choice, tmp_path / choice, base, environment(wheels, "beta"))
        assert seen(tmp_path / choice, "beta") == {"beta": "1.0"}
    assert not (tmp_path / "elsewhere").exists()


def slow_project(folder: Path) -> tuple[Path, Path]:
    """Write a project whose build never ends; the second path exists once the build runs, with its process id."""
    project, begun = folder / "slow", folder / "begun"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    body = SLOW_BUILD.format(begun=str(begun))
    (project / "backend.py").write_text(
        f"def build_wheel(*args, **kwargs):\n    {body.replace(chr(10), chr(10) + '    ')}\n"
    )
    return project, begun


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pid_in(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


@BOTH
async def test_a_build_that_is_cancelled_leaves_no_process(
    choice: str, tmp_path: Path, base: str, eventually: Callable[..., Any]
) -> None:
    project, begun = slow_project(tmp_path)
    wanted = PythonEnvironment(requirements=(str(project),))
    task = asyncio.create_task(built(choice, tmp_path / "e", base, wanted))
    pid = await eventually(lambda: pid_in(begun), "the build's beginning", within=40.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not alive(pid), "the build's end")
    assert not (tmp_path / "e" / build.READY).exists()


async def test_a_build_whose_controller_is_killed_ends_and_the_next_one_waits_for_that_and_cleans(
    tmp_path: Path, base: str, wheels: Path, eventually: Callable[..., Any]
) -> None:
    project, begun = slow_project(tmp_path)
    script = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from jupyter_smx.controller.environments.build_process import Installer\n"
        "from jupyter_smx.model.spec.job_spec import PythonEnvironment\n"
        f"wanted = PythonEnvironment(requirements=({str(project)!r},))\n"
        f"asyncio.run(Installer().build(Path({str(tmp_path / 'e')!r}), {base!r}, wanted, print))\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(build.__file__).parents[3])}
    controller = await asyncio.create_subprocess_exec(sys.executable, "-c", script, env=environ)
    try:
        pid = await eventually(lambda: pid_in(begun), "the build's beginning", within=40.0)
    finally:
        controller.send_signal(signal.SIGKILL)
        await controller.wait()
    (tmp_path / "e" / "venv" / "left behind").touch()
    await built("auto", tmp_path / "e", base, environment(wheels, "beta"))
    assert not alive(pid)
    assert not (tmp_path / "e" / "venv" / "left behind").exists()
    assert seen(tmp_path / "e", "beta") == {"beta": "1.0"}


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who waits for a lock")
async def test_nobody_builds_in_a_folder_before_the_one_who_built_there_is_gone(
    tmp_path: Path, base: str, wheels: Path, eventually: Callable[..., Any]
) -> None:
    folder = tmp_path / "e"
    folder.mkdir()
    lock = os.open(folder / build.LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    inode = f":{os.fstat(lock).st_ino} "
    task = asyncio.create_task(built("auto", folder, base, environment(wheels, "beta")))

    def somebody_waits() -> bool:
        rows = Path("/proc/locks").read_text().splitlines()
        return any("->" in row and inode in row for row in rows)

    await eventually(somebody_waits, "the second builder", within=40.0)
    assert not (folder / build.LOG).exists()
    os.close(lock)
    await task
    assert seen(folder, "beta") == {"beta": "1.0"}


async def test_a_machine_that_starts_no_process_fails_the_requirements_with_a_sentence(
    tmp_path: Path, base: str, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(BuildError, match="cannot be started") as caught:
        await built("auto", tmp_path / "e", base, environment(wheels, "beta"))
    assert (caught.value.field, bool(caught.value.cure)) == ("requirements", True)


async def test_the_room_gives_the_interpreter_of_what_it_built(tmp_path: Path, base: str, wheels: Path) -> None:
    room = EnvironmentCache(tmp_path, Installer(), limit=60.0, max_unused=1)
    key = ReuseKey(engine="local", user="me", role="", instance_groups=(InstanceGroup(),), python=base)
    assert room.python_of(key) == base
    assert room.is_ready(key)
    key = ReuseKey(
        engine="local",
        user="me",
        role="",
        instance_groups=(InstanceGroup(),),
        python=base,
        environment=environment(wheels, "beta"),
    )
    assert not room.is_ready(key)
    await asyncio.gather(room.provide(key, lambda _: None), room.provide(key, lambda _: None))
    assert room.is_ready(key)
    assert seen(Path(room.python_of(key)).parents[2], "beta") == {"beta": "1.0"}
