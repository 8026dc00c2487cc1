"""Entry points that are no script: shell scripts, programs and packages, as sagemaker-training starts them."""

from __future__ import annotations

import json
import sys
import venv
from importlib.metadata import distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_archives import packed

from jupyter_smx.agent.contract import entry_point, scriptmode
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


BUILDS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
IN_TREE = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import os, zipfile
def build_wheel(folder, *args, **kwargs):
    info, name = "fitting-1.0.dist-info", "fitting-1.0-py3-none-any.whl"
    files = {
        "parts/__init__.py": "where = __file__\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: fitting\\nVersion: 1.0\\n"
        "Requires-Dist: msgspec\\nRequires-Dist: alpha>=1; python_version>'3'\\nRequires-Dist: gone; extra=='x'\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: here\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{file},,\\n" for file in [*files, f"{info}/RECORD"]))
    return name
"""
PACKAGE = {"setup.py": "", "pyproject.toml": IN_TREE, "backend.py": BACKEND}
TOOLS = "[tool.ruff]\nline-length = 100\n"


@pytest.mark.parametrize(
    ("files", "spec", "how"),
    [
        ((), {"entry_point": "train.py"}, entry_point.SCRIPT),
        ((), {"entry_point": ""}, entry_point.SCRIPT),
        ((), {"entry_point": "train.sh"}, entry_point.COMMAND),
        ((), {"entry_point": "bin/train"}, entry_point.COMMAND),
        ((), {"entry_point": "train.py", "command": ["python3", "-v"]}, entry_point.COMMAND),
        ((), {"entry_point": "", "command": ["train"]}, entry_point.COMMAND),
        (("setup.py",), {"entry_point": "train.R", "command": ["Rscript"]}, entry_point.COMMAND),
        (("setup.py",), {"entry_point": "train.py"}, entry_point.PACKAGE),
        (("setup.py",), {"entry_point": "train"}, entry_point.PACKAGE),
        (("setup.py",), {"entry_point": "train.sh"}, entry_point.COMMAND),
        (("setup.py",), {"entry_point": ""}, entry_point.SCRIPT),
        (("setup.py",), {"entry_point": "train.py", "kind": "process"}, entry_point.SCRIPT),
        (("setup.py",), {"entry_point": "train.py", "source_dir": None}, entry_point.SCRIPT),
        (("setup.py",), {"entry_point": "train.py", "contract": "v3"}, entry_point.SCRIPT),
        (("pyproject.toml",), {"entry_point": "train.py"}, entry_point.SCRIPT),
        (("pyproject.toml", "src/parts/__init__.py"), {"entry_point": "train.py"}, entry_point.PACKAGE),
        (("pyproject.toml", "parts/__init__.py"), {"entry_point": "parts/train.py"}, entry_point.PACKAGE),
        (("pyproject.toml", "parts/__init__.py"), {"entry_point": "train.py"}, entry_point.SCRIPT),
        (("settings.toml", "src/parts/__init__.py"), {"entry_point": "train.py"}, entry_point.SCRIPT),
    ],
)
def test_how_code_begins_is_decided_as_sagemakers_toolkit_does(
    tmp_path: Path, files: tuple[str, ...], spec: dict[str, Any], how: str
) -> None:
    for name in files:
        path = tmp_path / name.replace("settings", "pyproject")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text({"pyproject.toml": BUILDS, "settings.toml": TOOLS}.get(name, ""))
    whole = scriptmode.complete({"source": "", "source_dir": {}, **spec})
    if spec.get("source_dir", {}) is not None:
        whole["source_dir"] = {"folder": "/home/me"}
    assert entry_point.entry_kind(whole, str(tmp_path)) == how


SHELL = """\
trap 'echo told; exit 5' TERM
echo "$PWD|$0|$SM_HP_EPOCHS|$SM_USER_ENTRY_POINT|$SM_MODULE_NAME"
for word in "$@"; do echo "[$word]"; done
python -c 'import helper, sys; print(helper.X, sys.path[1])'
echo made > "$SM_MODEL_DIR/model.txt"
"""


def shell(agent: Agent, tmp_path: Path, text: str, name: str = "train.sh", **fields: Any) -> dict[str, Any]:
    source = packed(tmp_path, {name: text, "helper.py": "X = 'helped'\n"})
    return agent.run(text, source_dir=source, entry_point=name, **fields)


def test_a_shell_script_is_run_with_quoted_words_in_the_folder_of_the_code(agent: Agent, tmp_path: Path) -> None:
    record = shell(agent, tmp_path, SHELL, hyperparameters={"epochs": "3", "words": "it's $HOME", "x": "[1, 2]"})
    code = f"{agent.folder}/ml/code"
    assert record["text"].splitlines() == [
        f"{code}|./train.sh|3|train.sh|train.sh",
        *("[--epochs]", "[3]", "[--words]", "[it's $HOME]", "[-x]", "[[1, 2]]"),
        f"helped {code}",
    ]
    assert (record["cause"], record["exit_code"], record["errors"]) == ("exit", 0, [])
    assert [one["name"] for one in record["artifacts"]] == ["model.tar.gz"]
    assert record["at"]["first_line"] <= record["at"]["exited"]


def test_a_program_in_its_folder_is_made_executable_and_its_exit_code_is_the_jobs(agent: Agent, tmp_path: Path) -> None:
    text = f"#!{sys.executable}\nimport os, sys\nprint(sys.argv[0], os.getcwd())\nsys.exit(7)\n"
    record = shell(agent, tmp_path, text, name="bin/fit")
    assert record["text"] == f"./bin/fit {agent.folder}/ml/code\n"
    assert (record["cause"], record["exit_code"], record["failure"]) == ("exit", 7, "")
    assert record["reason"] == 'ExecuteUserScriptError:\nExitCode 7\nErrorMessage ""\nCommand "/bin/sh -c ./bin/fit"'


NO_PROGRAMS = """
import os
from types import SimpleNamespace
from jupyter_smx.agent.__main__ import main
from jupyter_smx.agent.system.resources import disk
statvfs = os.statvfs
def without_programs(path):
    found = statvfs(path)
    return SimpleNamespace(**{name: getattr(found, name) for name in dir(found) if name.startswith("f_")} | {
        "f_flag": found.f_flag | os.ST_NOEXEC})
disk.os.statvfs = without_programs
main()
"""


def test_a_data_folder_that_is_mounted_without_programs_is_the_reason(
    start_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = start_agent(options={"program": (sys.executable, "-c", NO_PROGRAMS)})
    record = shell(agent, tmp_path, "exit 126")
    assert record["exit_code"] == 126
    said = f"Programs in {agent.folder}/ml cannot be started, because its file system is mounted with noexec. Set "
    assert record["failure"].startswith(said), record["failure"]
    assert "noexec" not in shell(agent, tmp_path, "exit 7")["failure"]


def test_a_program_that_cannot_be_started_elsewhere_has_another_reason(agent: Agent, tmp_path: Path) -> None:
    assert "noexec" not in shell(agent, tmp_path, "exit 126")["failure"]


def test_a_shell_script_alone_is_written_there(agent: Agent) -> None:
    record = agent.run("cat $0 | head -c 5", entry_point="train.sh")
    assert (record["text"], record["exit_code"]) == ("cat $", 0)


def test_a_shell_script_of_a_processing_job_is_named_by_its_whole_path(agent: Agent) -> None:
    record = agent.run('echo "$0 $PWD"', entry_point="run.sh", kind="process")
    ml = f"{agent.folder}/ml"
    assert record["text"] == f"{ml}/processing/input/code/run.sh {ml}/code\n"


def test_a_stop_reaches_the_trap_of_a_shell_script(agent: Agent) -> None:
    job, lease = agent.start("trap 'echo told; exit 5' TERM\n(echo on; exec sleep 60) & wait", entry_point="train.sh")
    agent.wait_for_log(job, "on\n")
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (agent.log(job), record["cause"], record["exit_code"]) == ("on\ntold\n", "stopped", 5)
    assert record["left_behind"] == []
    agent.serves()


def test_a_pipe_that_nobody_reads_ends_a_program_of_a_shell_script(agent: Agent) -> None:
    record = agent.run("yes | head -n 1; echo ${PIPESTATUS[0]}", entry_point="train.sh")
    assert "Broken pipe" not in record["text"]


TRAIN = """
import json, os, sys
import alpha, parts
print(json.dumps({
    "parts": parts.where, "alpha": alpha.__file__,
    "argv": sys.argv, "file": __file__, "name": __name__, "package": __package__, "spec": __spec__.name,
    "cwd": os.getcwd(), "module": os.environ["SM_MODULE_NAME"], "path": sys.path[:2],
    "installed": __import__("importlib.metadata").metadata.version("fitting"),
    "python_path": os.environ["PYTHONPATH"].split(":")[:2], "main": sys.modules["__main__"].__file__,
}))
"""


def installed(agent: Agent, tmp_path: Path, files: Mapping[str, str], name: str = "train.py", **more: Any) -> Any:
    source = packed(tmp_path, files)
    write_wheel(tmp_path / "wheels", "alpha", "1.0")
    nearby = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    return agent.run(files.get(name, ""), source_dir=source, entry_point=name, environment=nearby, **more)


def test_a_package_is_installed_for_the_job_alone_and_run_as_a_module(agent: Agent, tmp_path: Path) -> None:
    files = {**PACKAGE, "train.py": TRAIN}
    record = installed(agent, tmp_path, files, hyperparameters={"n": "1"})
    assert record["exit_code"] == 0, record["text"]
    seen = json.loads(record["text"].splitlines()[-1])
    ml = f"{agent.folder}/ml"
    file = f"{ml}/code/train.py"
    assert (seen["argv"], seen["file"], seen["main"]) == ([file, "-n", "1"], file, file)
    assert (seen["name"], seen["package"], seen["spec"], seen["module"]) == ("__main__", "", "train", "train")
    assert (seen["cwd"], seen["installed"]) == (f"{ml}/code", "1.0")
    assert (seen["parts"], seen["alpha"]) == (f"{ml}/packages/parts/__init__.py", f"{ml}/packages/alpha.py")
    assert "msgspec" not in record["text"], "it is there already"
    assert seen["path"] == seen["python_path"] == [f"{ml}/code", f"{ml}/packages"]
    assert f"is installed into {ml}/packages, for this job alone" in record["text"]
    after = agent.json("import importlib.util, json; print(json.dumps(importlib.util.find_spec('fitting') is None))")
    assert after is True
    assert not (agent.folder / "ml" / "packages").exists()


ASK = """
import importlib.metadata, json
import alpha, parts
print(json.dumps([parts.where, importlib.metadata.version("msgspec")]))
"""


@pytest.mark.parametrize("here", [("packaging", "msgspec"), ()])
def test_uv_installs_a_package_where_no_pip_is_and_leaves_what_is_there_where_it_can_tell(
    start_agent: Callable[..., Agent], tmp_path: Path, here: tuple[str, ...]
) -> None:
    home, wheels = tmp_path / "no-pip", tmp_path / "wheels"
    venv.create(home, with_pip=False)
    site = next(home.glob("lib/python3*/site-packages"))
    for name in here:
        there = Path(str(distribution(name).locate_file(name)))
        for path in (there, next(there.parent.glob(f"{name}-*.dist-info"))):
            (site / path.name).symlink_to(path)
    write_wheel(wheels, "msgspec", "99.0")
    agent = start_agent(
        options={"program": (str(home / "bin" / "python"), "-m", "jupyter_smx.agent")},
        environment={"UV_FIND_LINKS": str(wheels), "UV_OFFLINE": "1"},
    )
    record = installed(agent, tmp_path, {**PACKAGE, "train.py": ASK})
    assert record["exit_code"] == 0, record["text"]
    found = version("msgspec") if here else "99.0"
    assert json.loads(record["text"].splitlines()[-1]) == [f"{agent.folder}/ml/packages/parts/__init__.py", found]


def test_a_failure_in_a_package_has_its_line(agent: Agent, tmp_path: Path) -> None:
    files = {**PACKAGE, "train.py": "import parts\nraise KeyError('no')\n"}
    record = installed(agent, tmp_path, files, folder="/home/me/project")
    assert (record["exception"]["type"], record["exception"]["line"]) == ("KeyError", 2)
    assert 'File "/home/me/project/train.py", line 2, in <module>' in record["exception"]["traceback"]
    assert "jupyter_smx" not in record["exception"]["traceback"]


def test_a_package_that_cannot_be_installed_is_named_as_sagemaker_names_it(agent: Agent, tmp_path: Path) -> None:
    record = installed(
        agent, tmp_path, {**PACKAGE, "backend.py": "raise SystemExit('no such luck')", "train.py": "print('ran')"}
    )
    assert (record["exit_code"], record["exception"]) == (1, None)
    assert record["failure"].startswith("InstallModuleError: the package in the folder of code cannot be installed")
    assert record["failure"] == record["reason"]
    assert "no such luck" in record["text"]
    assert "ran\n" not in record["text"]


def test_a_script_whose_project_cannot_be_installed_runs_as_on_sagemaker(agent: Agent, tmp_path: Path) -> None:
    broken = '[build-system]\nrequires = []\nbuild-backend = "gone"\nbackend-path = ["."]\n'
    files = {"pyproject.toml": broken, "src/parts.py": "", "train.py": "print(__name__, __spec__)"}
    record = installed(agent, tmp_path, files)
    assert record["exit_code"] == 0
    assert record["text"].endswith("the script is run without its package, as SageMaker does.\n__main__ None\n")


def test_a_command_runs_the_entry_point_with_its_arguments(agent: Agent, tmp_path: Path) -> None:
    source = packed(tmp_path, {"fit.txt": "echo fit $0 $@ $SM_USER_ENTRY_POINT"})
    record = agent.run(
        "", source_dir=source, entry_point="fit.txt", command=["sh", "-u"], hyperparameters={"x": "it's"}
    )
    assert (record["exit_code"], record["text"]) == (0, "fit fit.txt -x it's fit.txt\n")


def test_a_command_alone_is_all_that_runs(agent: Agent) -> None:
    words = ["sh", "-c", 'ls; echo "$#$0$1"; exit 4', "a b"]
    record = agent.run("not Python", command=words, hyperparameters={"x": "1"})
    assert (record["exit_code"], record["text"]) == (4, "0a b\n"), "neither a file of ours, nor an argument"
    record = agent.run("", kind="process", command=words, arguments=["c"])
    assert (record["exit_code"], record["text"]) == (4, "1a bc\n")


def test_a_command_alone_has_the_hyperparameters_of_the_request_only(agent: Agent) -> None:
    """The driver of SDK 3 passes each entry of the file to the script, which refuses an unknown one."""
    words = ["sh", "-c", 'cat "$SM_INPUT_CONFIG_DIR/hyperparameters.json"']
    given = {"x": "1", "sagemaker_program": "other.py"}
    assert json.loads(agent.run("", command=words, hyperparameters=given)["text"]) == given


def test_a_command_that_is_not_there_says_so(agent: Agent) -> None:
    record = agent.run("", command=["no-such-program"])
    assert record["exit_code"] == 127
    assert "no-such-program" in record["text"]


def test_a_command_without_a_name_is_refused(agent: Agent) -> None:
    record = agent.run("", command=["", "x"])
    assert record["cause"] == "refused"
    assert record["errors"] == [entry_point.NO_PROGRAM]
    agent.serves()


def test_a_command_that_is_too_long_for_the_system_is_named_as_a_command(agent: Agent) -> None:
    record = agent.run("", command=["true", "x" * (1 << 18)])
    assert record["cause"] == "refused"
    assert "command: true cannot be started (Argument list too long)." in record["errors"]
