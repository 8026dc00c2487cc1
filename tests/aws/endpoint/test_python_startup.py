"""Each Python process of a shell leads SageMaker's SDK to the front, whichever interpreter it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_smx.aws_endpoint import python_startup
from jupyter_smx.aws_endpoint.switch import python_variables

FOLDER = str(Path(python_startup.__file__).parent)
FRONT = {"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1"}
ASK = "import sagemaker.session as session; print(session.sts_regional_endpoint('r'))"


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """Provide a folder with the SDK's module that calls STS, and with a startup module of the interpreter."""
    (tmp_path / "sagemaker").mkdir()
    (tmp_path / "sagemaker" / "__init__.py").touch()
    (tmp_path / "sagemaker" / "session.py").write_text("def sts_regional_endpoint(region): return 'https://sts'\n")
    (tmp_path / "sitecustomize.py").write_text("print('startup of', __name__)\n")
    return tmp_path


def run_python(code: str, path: Path, variables: dict[str, str]) -> str:
    """Run code in an interpreter that does not have this package, as one beside it."""
    environ = {"PATH": os.environ["PATH"], **python_variables({"PYTHONPATH": str(path)}, FOLDER), **variables}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sdk_calls_sts_at_the_front_and_the_startup_module_of_the_interpreter_runs_too(sdk: Path) -> None:
    assert run_python(ASK, sdk, FRONT) == "startup of sitecustomize\nhttp://127.0.0.1:1\n"


def test_sagemaker_core_without_the_sdk_calls_sts_at_the_front(tmp_path: Path) -> None:
    package = tmp_path / "sagemaker_core" / "helper"
    package.mkdir(parents=True)
    (package / "session_helper.py").write_text("def sts_regional_endpoint(region): return 'https://sts'\n")
    ask = ASK.replace("sagemaker.session", "sagemaker_core.helper.session_helper")
    assert run_python(ask, tmp_path, FRONT) == "http://127.0.0.1:1\n"


def test_without_the_fronts_variable_the_sdk_calls_aws(sdk: Path) -> None:
    assert run_python(ASK, sdk, {}) == "startup of sitecustomize\nhttps://sts\n"


def test_a_process_without_the_sdk_imports_no_patch(sdk: Path) -> None:
    listed = run_python("import json, sys; print('jupyter_smx_sagemaker_patch' in sys.modules)", sdk, FRONT)
    assert listed.endswith("False\n")


@pytest.mark.parametrize("before", ["", "/one", f"{FOLDER}{os.pathsep}/one"])
def test_the_folder_is_the_first_one_and_in_the_variable_once(before: str) -> None:
    rest = [part for part in before.split(os.pathsep) if part and part != FOLDER]
    assert python_variables({"PYTHONPATH": before}, FOLDER)["PYTHONPATH"].split(os.pathsep) == [FOLDER, *rest]
