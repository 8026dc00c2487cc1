"""Environments on another machine: built there by an index, with packages of this machine, or by a uv that is sent."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import psutil
import pytest
from msgspec.structs import replace
from package_index import PackageIndex
from shell_engine import ShellEngine, ShellMachine

from jupyter_smx.engines.base import ClusterRequest, HostSpec, RequirementsError
from jupyter_smx.engines.remote import environments
from jupyter_smx.engines.remote.account import Account
from jupyter_smx.engines.remote.environments import RemoteEnvironment, environment_request, provide
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, QueueStatus
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from jupyter_smx.engines.remote.environments import EnvironmentRequest

NO_WAY = "http://127.0.0.1:9"
"""A proxy that no process listens at."""
UV = Path(sys.executable).parent / "uv"
pytestmark = [
    pytest.mark.heavy("environments"),
    pytest.mark.skipif(not UV.exists(), reason="uv builds in a moment; pip takes 20 times as long"),
]


class Machine(ShellMachine):
    """A machine with uv and variables of its own; ``cut_off`` machines reach no index."""

    def __init__(self, name: str, home: Path, variables: dict[str, str]) -> None:
        super().__init__(name, home)
        self.home = home
        self.variables = variables
        self.commands: list[str] = []

    @asynccontextmanager
    async def open(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start a shell with the machine's variables."""
        self.commands.append(command)
        with mock.patch.dict(os.environ, self.variables):
            context = super().open(command)
            process = await context.__aenter__()
        try:
            yield process
        finally:
            await context.__aexit__(None, None, None)

    @property
    def root(self) -> Path:
        return self.home / ".local/share/jupyter_smx"

    def environments(self) -> list[Path]:
        return sorted((self.root / "environments").glob("*"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        write_wheel(folder, "alpha", version)
    write_wheel(folder, "beta", "1.0", needs=("alpha",))
    return folder


@pytest.fixture(scope="module")
def index(wheels: Path) -> Iterator[PackageIndex]:
    made = PackageIndex(wheels)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let installers give up at once, and keep what they downloaded out of the user's caches."""
    for name, value in {"UV_HTTP_RETRIES": "0", "PIP_RETRIES": "0", "NO_PROXY": "", "no_proxy": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UV_CACHE_DIR", os.fspath(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    # Of steps within half a second a user sees the last one.
    monkeypatch.setattr(environments, "_PROGRESS_INTERVAL", 0.0)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Machine]:
    """Give ``make(name, cut_off=…)``, which makes a machine whose ``python3`` is bare, and which has uv."""

    def machine(name: str = "gpu-box", *, cut_off: bool = False, has_uv: bool = True, **variables: str) -> Machine:
        home = tmp_path / name
        tools = home / "tools"
        tools.mkdir(parents=True)
        base = home / "base"
        if not base.exists():
            subprocess.run([UV, "venv", "-q", "--python", Path(sys.executable).resolve(), base], check=True)
        if has_uv:
            (tools / "uv").symlink_to(UV)
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NO_WAY if cut_off else "")
        return Machine(name, home, {"PATH": f"{base}/bin:{tools}:/usr/bin:/bin", **proxies, **variables})

    return machine


def wanted(*lines: str, only: bool = False, python: str = "", setup: str = "") -> EnvironmentRequest:
    groups = (InstanceGroup(),)
    request = ClusterRequest(cluster="c1", hosts=(), instance_groups=groups, python="", requirements=lines)
    request = replace(request, requirements_only=only)
    found = environment_request(request, python, setup, os.environ)
    assert found is not None
    return found


async def collect(
    *machines: Machine, request: EnvironmentRequest, limit: float = 60.0
) -> tuple[list[str], dict[str, RemoteEnvironment]]:
    reasons: list[str] = []
    accounts = {each.name: (Account(each), request) for each in machines}
    async with aclosing(provide(accounts, limit)) as reports:
        async for report in reports:
            if isinstance(report, dict):
                return reasons, report
            reasons.append(report.reason)
    raise AssertionError(reasons)


def modules(python: str, *names: str) -> list[str]:
    """Ask an interpreter which versions it imports."""
    code = "import importlib, sys\nfor name in sys.argv[1:]: print(importlib.import_module(name).version)"
    answer = subprocess.run([python, "-I", "-c", code, *names], check=True, capture_output=True, text=True)
    return answer.stdout.split()


async def test_requirements_are_installed_there_once_and_the_second_time_nothing_is_reported(
    make: Callable[..., Machine], index: PackageIndex
) -> None:
    machine = make()
    request = wanted(f"--index-url {index.url}", "beta")
    reasons, found = await collect(machine, request=request)
    environment = found["gpu-box"]
    assert environment.built
    assert environment.python.startswith(os.fspath(machine.root / "environments"))
    assert environment.version == ".".join(map(str, sys.version_info[:3]))
    assert modules(environment.python, "alpha", "beta") == ["2.0", "1.0"]
    assert reasons[0].startswith("Installs requirements on gpu-box: ")
    again, ready = await collect(machine, request=request)
    assert again == []
    assert ready["gpu-box"].python == environment.python
    assert not ready["gpu-box"].built
    assert len(machine.environments()) == 1


async def test_several_machines_build_side_by_side_and_each_has_its_own(
    make: Callable[..., Machine], index: PackageIndex
) -> None:
    machines = make("one"), make("two")
    _, found = await collect(*machines, request=wanted(f"--index-url {index.url}", "alpha==1.0"))
    assert {*found} == {"one", "two"}
    assert [modules(each.python, "alpha") for each in found.values()] == [["1.0"], ["1.0"]]


async def test_a_wrong_requirement_is_said_with_the_installers_words_the_machine_and_its_log(
    make: Callable[..., Machine], index: PackageIndex
) -> None:
    machine = make()
    with pytest.raises(RequirementsError) as caught:
        await collect(machine, request=wanted(f"--index-url {index.url}", "alpha==7"))
    message = str(caught.value)
    assert message.startswith("--requirements: alpha")
    assert "uv ended with exit code 1 on gpu-box" in message
    [folder] = machine.environments()
    assert f"The full log is {folder}/build.log there." in message
    assert not (folder / "venv").exists()


async def test_a_machine_that_reaches_no_index_gets_the_packages_from_here(
    make: Callable[..., Machine], index: PackageIndex
) -> None:
    machine = make(cut_off=True)
    reasons, found = await collect(machine, request=wanted(f"--index-url {index.url}", "beta", "-c alpha<2"))
    assert modules(found["gpu-box"].python, "alpha", "beta") == ["1.0", "1.0"]
    assert any("Sending packages" in reason for reason in reasons), reasons
    assert not [*(machine.root / "wheels").iterdir()], "nothing is left of what was sent"


async def test_if_this_machine_reaches_no_index_either_the_sentence_has_both(
    make: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make(cut_off=True)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, NO_WAY)
    with pytest.raises(RequirementsError) as caught:
        await collect(machine, request=wanted("--index-url http://packages.example/simple", "beta"))
    assert "gpu-box reaches no package index, and this machine reaches none either." in str(caught.value)


async def test_a_package_without_a_wheel_for_that_machine_is_named(
    make: Callable[..., Machine], tmp_path: Path
) -> None:
    write_wheel(tmp_path / "other", "gamma", "1.0").rename(tmp_path / "other" / "gamma-1.0-cp27-none-win32.whl")
    other = PackageIndex(tmp_path / "other")
    try:
        with pytest.raises(RequirementsError, match=r"gamma.*so wheels for Python 3\.\d+ on linux-\w+ are downloaded"):
            await collect(make(cut_off=True), request=wanted(f"--index-url {other.url}", "gamma"))
    finally:
        other.close()


def write_project(folder: Path, name: str, backend: str = "") -> Path:
    """Write a project that needs nothing to be built; one without a ``backend`` of its own needs beta to run."""
    project = folder / name
    project.mkdir(parents=True)
    wheel = write_wheel(folder / "built", name, "1.0", needs=("beta",))
    code = backend or f"def build_wheel(folder, *_):\n    return shutil.copy({str(wheel)!r}, folder).split('/')[-1]\n"
    (project / "backend.py").write_text(f"import shutil\n{code}")
    (project / "pyproject.toml").write_text(
        f'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "1.0"\n'
        f"dependencies = {[] if backend else ['beta']}\n"
    )
    return project


def write_archive(project: Path, folder: Path) -> None:
    """Pack a project as its index has it."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f"{project.name}-1.0.tar.gz", "w:gz") as archive:
        archive.add(project, f"{project.name}-1.0")


async def test_a_package_that_has_no_wheel_is_built_here_if_it_is_pure(
    make: Callable[..., Machine], wheels: Path, tmp_path: Path
) -> None:
    shutil.copytree(wheels, tmp_path / "served")
    write_archive(write_project(tmp_path / "sources", "theta"), tmp_path / "served")
    served = PackageIndex(tmp_path / "served")
    try:
        _, found = await collect(make(cut_off=True), request=wanted(f"--index-url {served.url}", "theta"))
    finally:
        served.close()
    assert modules(found["gpu-box"].python, "theta", "beta") == ["1.0", "1.0"]


async def test_without_uv_here_pip_downloads_the_packages(
    make: Callable[..., Machine], index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_smx.engines.remote.wheels._uv", list)
    _, found = await collect(make(cut_off=True), request=wanted(f"--index-url {index.url}", "beta", "-c alpha<2"))
    assert modules(found["gpu-box"].python, "alpha", "beta") == ["1.0", "1.0"]


async def test_without_pip_here_uv_builds_projects_and_nothing_is_downloaded(
    make: Callable[..., Machine], index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_smx.engines.remote.wheels._pip", list)
    monkeypatch.setattr("jupyter_smx.engines.remote.wheels._uv", lambda: [os.fspath(UV)])
    project = write_project(tmp_path / "here", "theta")
    request = wanted(f"--index-url {index.url}", f"{project} # content 0123456789ab")
    _, found = await collect(make(), request=request)
    assert modules(found["gpu-box"].python, "theta") == ["1.0"]
    with pytest.raises(RequirementsError, match="there is no pip here to download with"):
        await collect(make("other", cut_off=True), request=wanted(f"--index-url {index.url}", "alpha"))


@pytest.mark.parametrize("cut_off", [False, True])
async def test_a_project_of_this_machine_is_built_here_and_sent(
    make: Callable[..., Machine], index: PackageIndex, tmp_path: Path, *, cut_off: bool
) -> None:
    project = write_project(tmp_path / "here", "theta")
    machine = make(cut_off=cut_off)
    request = wanted(f"--index-url {index.url}", f"{project} # content 0123456789ab")
    reasons, found = await collect(machine, request=request)
    assert modules(found["gpu-box"].python, "theta", "beta", "alpha") == ["1.0", "1.0", "2.0"]
    assert "Installs requirements on gpu-box: Building a wheel of theta" in reasons
    shutil.rmtree(project)
    again, _ = await collect(machine, request=request)
    assert again == [], "an environment that is ready needs nothing from here"


async def test_wheels_and_folders_of_wheels_of_this_machine_are_sent(
    make: Callable[..., Machine], wheels: Path, tmp_path: Path
) -> None:
    shutil.copytree(wheels, tmp_path / "hidden")
    lines = ("--no-index", f"--find-links {tmp_path / 'hidden'}", "beta ; python_version > '3'")
    named = f"alpha @ file://{tmp_path / 'hidden' / 'alpha-1.0-py3-none-any.whl'} # content 0123456789ab"
    machine = make(cut_off=True)
    _, found = await collect(machine, request=wanted(*lines, named))
    assert modules(found["gpu-box"].python, "alpha", "beta") == ["1.0", "1.0"]
    log = (machine.environments()[0] / "build.log").read_text()
    assert os.fspath(tmp_path / "hidden") not in log


async def test_a_project_that_has_gone_is_named(make: Callable[..., Machine], tmp_path: Path) -> None:
    with pytest.raises(RequirementsError, match=r"gone does not exist any more\. Submit the job again"):
        await collect(make(), request=wanted(f"{tmp_path / 'gone'} # content 0123456789ab"))


async def test_a_project_that_cannot_be_built_here_is_named(make: Callable[..., Machine], tmp_path: Path) -> None:
    project = write_project(tmp_path / "here", "iota", "def build_wheel(*_):\n    raise RuntimeError('no compiler')\n")
    with pytest.raises(RequirementsError, match=r"no wheel can be built of \S+/iota: (?s:.*)no compiler"):
        await collect(make(), request=wanted(f"{project} # content 0123456789ab"))


async def test_variables_that_lines_name_reach_the_installer_there_and_no_command(
    make: Callable[..., Machine], index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, path = index.url.removeprefix("http://").partition("/")
    monkeypatch.setenv("INDEX_TOKEN", "s3cret")
    monkeypatch.setenv("OTHER_SECRET", "other")
    machine = make()
    request = wanted(f"--index-url http://me:${{INDEX_TOKEN}}@{host}/{path}", "alpha")
    _, found = await collect(machine, request=request)
    assert modules(found["gpu-box"].python, "alpha") == ["2.0"]
    assert request.variables == {"INDEX_TOKEN": "s3cret"}
    assert not [command for command in machine.commands if "s3cret" in command]
    files = [path.read_bytes() for path in machine.environments()[0].glob("*") if path.is_file()]
    assert not [text for text in files if b"s3cret" in text]


async def test_the_interpreter_may_come_from_lines_of_a_shell(
    make: Callable[..., Machine], index: PackageIndex
) -> None:
    machine = make()
    other = machine.home / "modules"
    shutil.copytree(machine.home / "base", other, symlinks=True)
    setup = f"export PATH={other}/bin:/usr/bin:/bin; export UV_HTTP_RETRIES=0"
    request = wanted(f"--index-url {index.url}", "alpha", setup=setup)
    _, found = await collect(machine, request=request)
    facts = json.loads((Path(found["gpu-box"].python).parents[2] / "ready.json").read_text())
    assert facts["python"].startswith(os.fspath(other))
    with pytest.raises(RefusedError, match=r"cannot be started on gpu-box \(.*not found\)"):
        await collect(machine, request=wanted("alpha", setup="export PATH=/nowhere"))


async def test_a_base_that_is_not_there_is_refused(make: Callable[..., Machine]) -> None:
    with pytest.raises(RefusedError, match=r"python: '/nowhere/python' cannot be started on gpu-box"):
        await collect(make(), request=wanted("alpha", python="/nowhere/python"))


NO_VENV = "import os, sys; 'venv' in sys.orig_argv and (os.write(2, b'python3: No module named venv\\n'), os._exit(1))"


@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys.orig_argv is new in Python 3.10")
async def test_uv_is_sent_to_a_machine_whose_python_creates_no_virtual_environments(
    make: Callable[..., Machine], index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make(has_uv=False)
    site = next((machine.home / "base").glob("lib/python*/site-packages"))
    (site / "no_venv.pth").write_text(NO_VENV)
    monkeypatch.setenv("PATH", f"{UV.parent}:{os.environ['PATH']}")
    reasons, found = await collect(machine, request=wanted(f"--index-url {index.url}", "alpha"))
    assert "Installs requirements on gpu-box: Sending uv, which creates virtual environments" in reasons
    assert modules(found["gpu-box"].python, "alpha") == ["2.0"]
    with pytest.raises(RequirementsError, match="install uv or python3-venv on gpu-box"):
        await collect(machine, request=wanted(f"--index-url {index.url}", "--pre", "alpha"))


ENDLESS = """\
import os, pathlib, signal
def build_wheel(*_):
    pathlib.Path({begun!r}).write_text(str(os.getpid()))
    while True:
        signal.pause()
"""


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[tuple[EnvironmentRequest, Path]]:
    """Give what is built there without an end, and the file that has the build's process id."""
    begun = tmp_path / "begun"
    project = write_project(tmp_path / "sources", "omega", ENDLESS.format(begun=str(begun)))
    write_archive(project, tmp_path / "archives")
    served = PackageIndex(tmp_path / "archives")
    yield wanted(f"--index-url {served.url}", "omega"), begun
    served.close()


def pid_in(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_launch_that_is_given_up_leaves_no_process_there(
    make: Callable[..., Machine], endless: tuple[EnvironmentRequest, Path], eventually: Callable[..., Any]
) -> None:
    request, begun = endless
    task = asyncio.create_task(collect(make(), request=request, limit=1_000.0))
    pid = await eventually(lambda: pid_in(begun), "the build's beginning", within=40.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not is_alive(pid), "the build's end")


async def test_a_build_that_takes_too_long_ends(
    make: Callable[..., Machine], endless: tuple[EnvironmentRequest, Path], eventually: Callable[..., Any]
) -> None:
    request, begun = endless
    with pytest.raises(UnavailableError, match="the environment on gpu-box took longer than 3 s"):
        await collect(make(), request=request, limit=3.0)
    await eventually(lambda: not is_alive(pid_in(begun)), "the build's end")


def acquired(home: Path, index: PackageIndex, *lines: str) -> tuple[ShellEngine, ClusterRequest]:
    engine = ShellEngine(data_dir=os.fspath(home.parent / "controller"), homes={"box": os.fspath(home)})
    host = HostSpec(host="algo-1", group="homogeneousCluster", instance_type="local", vcpus=1)
    request = ClusterRequest(
        cluster="cafe0001",
        hosts=(host,),
        instance_groups=(InstanceGroup(),),
        python="",
        requirements=(f"--index-url {index.url}", *lines),
    )
    return engine, request


async def test_an_engine_installs_first_and_starts_agents_with_the_environment(
    make: Callable[..., Machine], index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make()
    monkeypatch.setenv("PATH", machine.variables["PATH"])
    engine, request = acquired(machine.home, index, "beta")
    assert engine.plan(request)["requirements"] == [f"--index-url {index.url}", "beta"]
    assert "requirements" not in engine.plan(replace(request, requirements=()))
    news = [each async for each in engine.acquire(request)]
    handle = news[-1]
    assert isinstance(handle, Handle)
    try:
        assert news[0] == Handle(engine="shell", cluster=request.cluster), "so that it is released if this fails"
        assert isinstance(news[1], QueueStatus)
        [(_, pid)] = process_scan.find_agents(request.cluster)
        python = psutil.Process(pid).cmdline()[0]
        assert modules(python, "beta") == ["1.0"]
        listed = await engine._account("box").ask("list_environments", {})
        [row] = listed["environments"]
        assert (row["is_ready"], row["is_used"]) == (True, True)
        ready = Path(python).parents[2] / "ready.json"
        os.utime(ready, (0, 0))
        assert await engine.prune(lambda _: True) == []
        assert ready.exists(), "it runs a host"
    finally:
        await engine.release(handle)
    await engine.prune(lambda _: True)
    assert not ready.exists()
    assert machine.environments() == []
