"""Packages that a job's own code installs: they are gone with the job, and its Python stays as it was."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from source_archives import packed

from jupyter_smx.agent.code import variable_file, virtual_environment
from jupyter_smx.agent.code.installs import sent_functions
from jupyter_smx.agent.code.variable_file import Packed
from jupyter_smx.kernel.request.call import call_of, pickle_by_value
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

pytestmark = pytest.mark.heavy("environments")

PIP = "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', {words}])\n"
SEE = """
import importlib.metadata as metadata, json, os, subprocess, sys
def found(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
ask = "import importlib.metadata as m; print(m.version('alpha'))"
program = subprocess.run(["python", "-c", ask], capture_output=True, text=True).stdout.strip()
print(json.dumps({"alpha": found("alpha"), "beta": found("beta"), "program": program or None,
    "preloaded": before, "prefix": sys.prefix}))
"""
BEFORE = "import sys\nbefore = 'alpha' in sys.modules\n"


def files_of(folder: Path) -> dict[str, int]:
    """Give each file below a folder with the time of its last change; caches of bytecode are left out."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): path.stat().st_mtime_ns for path in paths}


class Home:
    """The Python of a host: an environment that jobs share, which has alpha 1.0, and wheels of newer packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "environment"
        self.packages = Path(virtual_environment.make(str(self.folder), []))
        for name in (
            "pip",
            "msgspec",
            "cloudpickle",
        ):  # with all that is here, pip would be slow
            there = Path(str(distribution(name).locate_file(name)))
            for path in (there, next(there.parent.glob(f"{name}-*.dist-info"))):
                (self.packages / path.name).symlink_to(path)
        pip = self.folder / "bin" / "pip"  # without it, a job would find that of these tests' Python
        pip.write_text(f"#!{self.folder}/bin/python\nimport runpy\nrunpy.run_module('pip', run_name='__main__')\n")
        pip.chmod(0o755)
        self.wheels = folder / "wheels"
        self.add(write_wheel(folder / "old", "alpha", "1.0"))
        write_wheel(self.wheels, "alpha", "2.0")
        write_wheel(self.wheels, "beta", "1.0", needs=("alpha",))
        self.before = files_of(self.folder)

    def add(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.packages)

    def variables(self) -> dict[str, str]:
        """Give what leads pip to the wheels, and to nothing of this machine's user."""
        settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "HOME": str(self.folder.parent / "home")}
        settings["PYTHONPATH"] = ""  # as on other machines, only the agent's start finds our package
        return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), **settings}

    def own(self, name: str) -> str:
        """Give where a file of a package is in an environment."""
        return str((self.packages / name).relative_to(self.folder))

    def is_unchanged(self) -> bool:
        return files_of(self.folder) == self.before


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def agent(home: Home, start_agent: Callable[..., Agent]) -> Agent:
    """Start a host in that Python."""
    program = (str(home.folder / "bin" / "python"), "-m", "jupyter_smx.agent")
    return start_agent(options={"program": program}, environment=home.variables())


def preload(agent: Agent) -> None:
    agent.client.ask("preload", modules=["alpha"])
    assert agent.client.event("preload")["loaded"] == ["alpha"]


def seen(record: dict[str, Any]) -> dict[str, Any]:
    assert record["exit_code"] == 0, record["text"]
    found: dict[str, Any] = json.loads(record["text"].splitlines()[-1])
    return found


def install(*words: str) -> str:
    """Write a job that installs packages by pip and says what it finds then."""
    return BEFORE + PIP.format(words=", ".join(map(repr, words))) + SEE


def test_what_a_script_installs_is_gone_with_its_job_and_a_warm_job_is_as_a_cold_one(agent: Agent, home: Home) -> None:
    ask = install("-q", "beta")
    cold = agent.run(ask)
    preload(agent)
    warm = agent.run(ask)
    for record in (cold, warm):
        found = seen(record)
        assert (found["beta"], found["alpha"], found["program"], found["preloaded"]) == ("1.0", "1.0", "1.0", False)
        assert found["prefix"] == f"{agent.folder}/ml/installed"
        assert record["left_behind"] == record["errors"] == []
        assert (len(record["missing_preloads"]["reasons"]), record["log"]) == (1, cold["log"])
    (reason,) = warm["missing_preloads"]["reasons"]
    assert reason.startswith("This job's code installs packages (pip install): it began in a new interpreter")
    assert warm["missing_preloads"]["modules"] == ["alpha"]
    after = seen(agent.run(BEFORE + SEE))
    assert (after["beta"], after["alpha"], after["preloaded"]) == (None, "1.0", True)
    assert home.is_unchanged()
    assert not (agent.folder / "ml" / "installed").exists()


@pytest.mark.parametrize("words", [["--upgrade", "alpha"], ["--user", "alpha>=2"]], ids=["upgrade", "user"])
def test_another_version_is_the_jobs_own_and_the_shared_environment_keeps_its_own(
    agent: Agent, home: Home, words: list[str]
) -> None:
    record = agent.run(install(*words) + "import alpha\nassert alpha.version == '2.0', alpha.__file__\n")
    found = seen(record)
    assert (found["alpha"], found["program"]) == ("2.0", "2.0")
    assert seen(agent.run(BEFORE + SEE))["alpha"] == "1.0"
    assert home.is_unchanged()
    assert not (home.folder.parent / "home" / ".local").exists()


def test_what_is_there_already_is_not_downloaded_and_uninstalling_it_removes_nothing(agent: Agent, home: Home) -> None:
    (home.wheels / "alpha-2.0-py3-none-any.whl").unlink()
    record = agent.run(install("alpha", "msgspec"))
    assert seen(record)["alpha"] == "1.0"
    assert record["text"].count("Requirement already satisfied") == 2
    gone = agent.run("import os\nos.system('pip uninstall -y alpha')\n")
    assert (gone["exit_code"], "outside environment" in gone["text"]) == (0, True), gone["text"]
    assert home.is_unchanged()


def test_variables_of_the_host_do_not_lead_pip_out_of_the_job(home: Home, start_agent: Callable[..., Agent]) -> None:
    elsewhere = home.folder.parent / "elsewhere"
    given = {"PIP_USER": "1", "PIP_TARGET": str(elsewhere), "PIP_PREFIX": str(elsewhere)}
    program = (str(home.folder / "bin" / "python"), "-m", "jupyter_smx.agent")
    agent = start_agent(options={"program": program}, environment={**home.variables(), **given})
    assert seen(agent.run(install("beta")))["beta"] == "1.0"
    assert home.is_unchanged()
    assert not elsewhere.exists()


SCRIPT = "#!/bin/sh\nset -e\npip install -q beta\npython show.py\nshared-tool\n"
TOOL = (
    "#!{python}\nimport beta, subprocess, sys\n"
    "subprocess.check_call([sys.executable, '-m', 'pip', '-q', 'install', 'alpha>=2'])\n"
)


def test_a_program_of_a_shell_installs_for_its_job_too_and_so_do_programs_of_the_environment(
    agent: Agent, home: Home, tmp_path: Path
) -> None:
    tool = home.folder / "bin" / "shared-tool"
    tool.write_text(TOOL.format(python=home.folder / "bin" / "python"))
    tool.chmod(0o755)
    home.before = files_of(home.folder)
    source = packed(tmp_path, {"run.sh": SCRIPT, "show.py": BEFORE + SEE})
    record = agent.run(SCRIPT, source_dir=source, entry_point="run.sh")
    assert seen(record)["beta"] == "1.0"
    assert home.is_unchanged()
    assert seen(agent.run(BEFORE + SEE))["beta"] is None


@pytest.mark.parametrize(
    "line", ["pip install -q beta && python show.py", "if true; then pip install -q beta; fi; python show.py"]
)
def test_a_command_alone_installs_for_its_job(agent: Agent, home: Home, tmp_path: Path, line: str) -> None:
    words = ["bash", "-c", line]
    source = packed(tmp_path, {"show.py": BEFORE + SEE})
    record = agent.run(shlex.join(words), source_dir=source, command=words)
    assert seen(record)["beta"] == "1.0"
    assert home.is_unchanged()
    alone = agent.run("", kind="process", command=["pip", "install"], arguments=["-q", "beta"])
    assert (alone["exit_code"], alone["errors"]) == (0, []), alone["text"]
    assert home.is_unchanged()


def test_a_script_in_a_channel_installs_for_its_job(agent: Agent, home: Home, tmp_path: Path) -> None:
    """The driver of SDK 3 is such a script."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "run.sh").write_text("pip install -q beta && python $SM_CHANNEL_TOOLS/show.py\n")
    (tmp_path / "tools" / "show.py").write_text(BEFORE + SEE)
    line = f"sh {agent.folder}/ml/input/data/tools/run.sh || sh /opt/ml/input/data/tools/run.sh"
    channels = [{"name": "tools", "source": str(tmp_path / "tools")}]
    record = agent.run("", command=["sh", "-c", line], channels=channels)
    assert seen(record)["beta"] == "1.0"
    assert home.is_unchanged()


HELPER = "import os\n\ndef get(name):\n    assert os.system(f'pip install -q {name}') == 0\n"


@pytest.mark.parametrize("names_it", [True, False])
def test_a_sent_file_counts_where_the_script_may_run_it(
    agent: Agent, home: Home, tmp_path: Path, *, names_it: bool
) -> None:
    preload(agent)
    script = "import lib\n" if names_it else ""
    files = {"lib/__init__.py": "from lib import fetching\n", "lib/fetching.py": HELPER, "train.py": ""}
    files["train.py"] = BEFORE + script + ("lib.fetching.get('beta')\n" if names_it else "") + SEE
    for _ in range(2):  # unpacked, and from what was unpacked
        record = agent.run(files["train.py"], source_dir=packed(tmp_path, files), entry_point="train.py")
        found = seen(record)
        assert (found["beta"], found["preloaded"]) == ("1.0" if names_it else None, not names_it)
        assert record["missing_preloads"]["modules"] == (["alpha"] if names_it else [])
    assert home.is_unchanged()


def test_what_the_job_requires_is_before_what_is_shared_and_behind_what_it_installs(agent: Agent, home: Home) -> None:
    write_wheel(home.wheels, "beta", "2.0")
    ask = install("beta==2.0") + "import beta\nassert beta.version == '2.0'\n"
    assert seen(agent.run(ask, requirements=["alpha==2.0", "beta==1.0"]))["alpha"] == "2.0"
    assert home.is_unchanged()


def fetch_and_see() -> str:
    """Be a function of a notebook."""
    import subprocess  # noqa: PLC0415

    subprocess.check_call(["pip", "install", "-q", "beta"])  # noqa: S607
    import beta  # type: ignore[import-not-found]  # noqa: PLC0415

    return str(beta.__file__)


def test_a_function_of_the_notebook_installs_for_its_job(agent: Agent, home: Home, tmp_path: Path) -> None:
    call = call_of(fetch_and_see)
    with pickle_by_value(fetch_and_see), (tmp_path / "variables.pkl").open("wb") as file:
        packed_values = {name: Packed(value, cloudpickle.dumps) for name, value in call.variables.items()}
        variable_file.write(file, packed_values)
    record = agent.run(call.source + "print(value)\n", send={"path": file.name})
    assert (record["exit_code"], record["errors"]) == (0, []), record["text"]
    assert record["packages"]["beta"] == "1.0"
    assert record["text"].splitlines()[-1] == f"{agent.folder}/ml/installed/{home.own('beta.py')}"
    assert home.is_unchanged()


def test_variables_are_not_read_for_a_function_whose_file_names_no_installer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text("def empty(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    empty = importlib.import_module("own").empty
    monkeypatch.setattr(variable_file, "read", lambda _file: pytest.fail("the variables were read"))
    (tmp_path / "variables.pkl").touch()
    spec: Any = {"source": call_of(empty).source, "send": {"path": str(tmp_path / "variables.pkl")}}
    assert sent_functions.install_in(spec) == ""
    spec["source"] = call_of(fetch_and_see).source
    with pytest.raises(pytest.fail.Exception, match="were read"):
        sent_functions.install_in(spec)


def test_pip_as_a_library_installs_for_its_job(agent: Agent, home: Home) -> None:
    call = "from pip._internal.cli.main import main\nassert main(['install', 'beta']) == 0\n"
    assert seen(agent.run(BEFORE + call + SEE))["beta"] == "1.0"
    assert home.is_unchanged()


UV = """
import subprocess
def uv(*words):
    print(subprocess.run(["uv", "pip", *words], check=True, stderr=subprocess.STDOUT), flush=True)
uv("install", "beta")
uv("install", "--system", "alpha>=2")
"""


def test_uv_installs_for_its_job_also_with_its_option_for_the_system(
    home: Home, start_agent: Callable[..., Agent]
) -> None:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv")
    program = (str(home.folder / "bin" / "python"), "-m", "jupyter_smx.agent")
    variables = {"UV_FIND_LINKS": str(home.wheels), "UV_NO_INDEX": "1", "UV_NO_CACHE": "1", "UV_SYSTEM_PYTHON": "1"}
    agent = start_agent(options={"program": program}, environment={**home.variables(), **variables})
    record = agent.run(BEFORE + UV + SEE)
    assert (seen(record)["beta"], seen(record)["alpha"]) == ("1.0", "2.0"), record["text"]
    assert record["text"].count("alpha==1.0") == 1, "it is there already, and then replaced"
    assert "(uv pip install)" in record["missing_preloads"]["reasons"][0]
    after = seen(agent.run(BEFORE + SEE))
    assert (after["beta"], after["alpha"]) == (None, "1.0")
    assert home.is_unchanged()
