"""The environment of a job that installs packages: its variables and search path, and the jobs that get none."""

from __future__ import annotations

import sys
import sysconfig
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.code.environ import job_changes
from jupyter_smx.agent.code.installs import input_files, job_venv, sent_files
from jupyter_smx.agent.code.installs.job_venv import JobVenv
from jupyter_smx.agent.contract import scriptmode
from jupyter_smx.agent.paths import ML, HostInfo

if TYPE_CHECKING:
    from pathlib import Path

VENV = JobVenv("/opt/ml/installed", "/opt/ml/installed/bin/python", "/opt/ml/installed/lib/site-packages")
STDLIB = sysconfig.get_path("stdlib")
REQUIRED = "/opt/ml/requirements/lib/python3.11/site-packages"


def activated(given: dict[str, str], own: dict[str, str] | None = None, *, user_site: bool = False) -> dict[str, str]:
    environ = {**given, **(own or {})}
    job_venv.activate(VENV, environ, own or {}, user_site=user_site)
    return environ


def test_programs_and_installers_find_the_environment() -> None:
    environ = activated({"PATH": "/usr/bin", "PYTHONPATH": f"/opt/ml/code:{REQUIRED}:/libraries"})
    assert environ["PATH"] == "/opt/ml/installed/bin:/usr/bin"
    assert environ["VIRTUAL_ENV"] == VENV.home
    assert environ["PYTHONPATH"] == "/opt/ml/code:/libraries", "what is required is behind what the job installs"
    assert "PYTHONUSERBASE" not in environ
    assert activated({}, user_site=True)["PYTHONUSERBASE"] == VENV.home


def test_variables_that_lead_elsewhere_count_only_where_the_user_gave_them_to_the_job() -> None:
    given = {"PIP_TARGET": "/host", "UV_SYSTEM_PYTHON": "1", "UV_TARGET": "/host", "PIP_USER": "1"}
    assert not {"PIP_TARGET", "UV_SYSTEM_PYTHON", "UV_TARGET"} & activated(given).keys()
    assert activated(given)["PIP_USER"] == "0"
    own = {"PIP_TARGET": "/opt/ml/own", "PYTHONUSERBASE": "/opt/ml/own"}
    assert activated(given, own, user_site=True).items() >= own.items()


@pytest.mark.parametrize(("project", "found"), [(sys.prefix, VENV.home), ("/opt/ml/code/.venv", "/opt/ml/code/.venv")])
def test_a_project_of_uv_is_not_synchronised_into_the_python_of_the_host(project: str, found: str) -> None:
    assert activated({"UV_PROJECT_ENVIRONMENT": project})["UV_PROJECT_ENVIRONMENT"] == found


def test_what_a_job_installs_is_behind_its_code_and_before_the_packages_of_its_python() -> None:
    path = ["/opt/ml/code", REQUIRED, "/libraries", STDLIB, f"{STDLIB}/lib-dynload", "/usr/lib/site-packages"]
    assert job_venv.search_path(path, VENV.packages) == [
        "/opt/ml/code",
        "/libraries",
        STDLIB,
        f"{STDLIB}/lib-dynload",
        VENV.packages,
        REQUIRED,
        "/usr/lib/site-packages",
    ]


INSTALLS = "import os\nos.system('pip install x')\n"
MPI = {"sagemaker_mpi_enabled": "true"}
TORCH = {"sagemaker_torch_distributed_enabled": "true"}


@pytest.mark.parametrize(
    ("base", "hosts", "hyperparameters", "found"),
    [
        ("/data/algo-1/ml", 1, MPI, "pip install"),
        (ML, 2, MPI, "pip install"),
        ("/data/algo-1/ml", 2, MPI, ""),
        ("/data/algo-1/ml", 2, TORCH, "pip install"),
        ("/data/algo-1/ml", 2, {}, "pip install"),
    ],
    ids=["one host", "the same paths", "other paths", "torchrun", "none"],
)
def test_open_mpi_starts_python_by_a_path_that_each_host_has(
    base: str, hosts: int, hyperparameters: dict[str, str], found: str
) -> None:
    names = [f"algo-{number}" for number in range(1, hosts + 1)]
    groups = [{"instance_group_name": "group", "instance_type": "local", "hosts": names}]
    info = HostInfo("algo-1", names, groups, "group", "local", 2, 0, base)
    spec = scriptmode.complete({"source": INSTALLS, "kind": "train", "hyperparameters": hyperparameters})
    assert job_changes.install_in_script(spec, info) == found


@pytest.mark.parametrize(
    ("script", "more", "found"),
    [
        ("import tools.setup_packages", {}, "pip install"),
        ("from tools import setup_packages", {}, "pip install"),
        ("import middle", {}, "pip install"),
        ("import subprocess\nsubprocess.run(['bash', 'prepare.sh'])", {}, "pip install"),
        ("import os\nos.system(os.environ['X'])", {"arguments": ["./prepare.sh"]}, "pip install"),
        ("import model", {}, ""),
        ("print('hello')", {}, ""),
    ],
)
def test_a_job_may_run_the_sent_files_that_its_script_names(
    tmp_path: Path, script: str, more: dict[str, Any], found: str
) -> None:
    files = {
        "tools/setup_packages.py": "import os\ndef main():\n    os.system('pip install x')\n",
        "middle.py": "from tools.setup_packages import main\n",
        "prepare.sh": "pip install x\n",
        "model.py": "# needs: pip install x\n",
        "data": "pip install x\n",
        "train.py": script,
    }
    tree, home = tmp_path / "tree", tmp_path / "home"
    home.mkdir()
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    sent_files.record(str(tree), str(home))
    assert "data" not in (home / sent_files.RECORD).read_text()
    spec = scriptmode.complete({"source": script, "kind": "train", "entry_point": "train.py", **more})
    assert sent_files.install_in(str(home), str(tree), spec) == found


def test_a_folder_that_installs_nothing_has_no_record(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('pip install x')\n")
    sent_files.record(str(tmp_path), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_programs_that_cannot_be_read_have_no_wrapper(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text(f"#!{tmp_path}/python\n")
    (tmp_path / "loop").symlink_to("loop")
    folders = [str(tmp_path), str(tmp_path / "gone")]
    assert list(job_venv._python_programs(folders)) == [str(tmp_path / "tool")]


CHANNELS = "/opt/ml/input/data"
DRIVER = f"chmod +x {CHANNELS}/sm_drivers/sm_train.sh && {CHANNELS}/sm_drivers/sm_train.sh"
"""The command of SageMaker's SDK 3."""
INSTALLER = "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])\n"
START = f"python3 {CHANNELS}/sm_drivers/scripts/requirements_of_code.py\n"


@pytest.mark.parametrize(
    ("command", "files", "found"),
    [
        (DRIVER, {"sm_drivers/sm_train.sh": START}, "pip install"),
        (DRIVER, {"sm_drivers/sm_train.sh": "python3 $SM_ENTRY_SCRIPT\n"}, ""),
        (DRIVER, {"code/train.py": INSTALLER, "sm_drivers/sm_train.sh": "set -e\n"}, "pip install"),
        (DRIVER, {"code/other.py": INSTALLER, "sm_drivers/sm_train.sh": "set -e\n"}, ""),
        (f"bash {CHANNELS}/tools/run.sh", {"tools/run.sh": "pip install x\n"}, "pip install"),
        (f"bash {CHANNELS}/tools/run.sh", {"tools/run.sh": "ls\n", "data/run.sh": "pip install x\n"}, ""),
        (f"cat {CHANNELS}/tools/run.txt", {"tools/run.sh": "pip install x\n"}, ""),
    ],
)
def test_a_command_may_run_scripts_of_the_channels_that_it_names(
    tmp_path: Path, command: str, files: dict[str, str], found: str
) -> None:
    always = {
        "sm_drivers/scripts/requirements_of_code.py": INSTALLER,
        "sm_drivers/sourcecode.json": '{"entry_script": "train.py"}',
        "code/train.py": "",
    }
    for name, text in {**always, **files}.items():
        path = tmp_path / "input" / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    group = {"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": ["algo-1"]}
    place = HostInfo("algo-1", ["algo-1"], [group], "homogeneousCluster", "local", 2, 0, str(tmp_path))
    channels = [{"name": name, "source": "/data"} for name in ("code", "sm_drivers", "tools", "data")]
    spec = scriptmode.complete({"source": "", "command": ["/bin/bash", "-c", command], "channels": channels})
    assert input_files.install_in(spec, place) == found
