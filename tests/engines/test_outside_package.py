"""The wheel, ``pytest`` and ``pytest-asyncio`` are all that the contract needs on the engine of another package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "jupyter_smx" / "labextension" / "static" / "style.js"
NEEDED = ("LICENSE", "README.md", "install.json", "jupyter-config", "jupyter_smx", "package.json", "pyproject.toml")
"""What the wheel is made of."""
PART = (
    "test_the_entry_point_leads_to_the_engine or test_a_handle_survives_json or test_the_plan_is_what_is_launched "
    "or test_release_leaves_nothing or test_hyperparameters_are_arguments"
)
"""One test at least of each way in which the contract looks at an engine."""
UNWANTED = ("IPython", "docker", "hypothesis", "jupyter_client", "jupyter_server", "notebook", "playwright", "tornado")

pytestmark = [
    pytest.mark.heavy("remote"),
    pytest.mark.skipif(sys.platform != "linux", reason="the leak check looks into /proc"),
]


class Outside(NamedTuple):
    """The package's folder, and a Python that has what the package needs and nothing else."""

    folder: Path
    python: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        ours = ("COVERAGE", "JUPYTER", "PYTEST", "PYTHON", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return subprocess.run(
            [self.python, *words], cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )

    def pytest(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *words)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    if not BUILT.exists():
        pytest.skip("The JupyterLab side is not built: make build.")
    top = tmp_path_factory.mktemp("outside")
    source, package, environment = top / "source", top / "package", top / "environment"
    source.mkdir()
    # Of a copy: a build writes files into its source, which other tests are reading.
    for name in NEEDED:
        of = ROOT / name
        (shutil.copytree if of.is_dir() else shutil.copy)(of, source / name)
    shutil.copytree(Path(__file__).with_name("outside_package"), package)
    run_uv("build", "--wheel", "--out-dir", top, source)
    run_uv("venv", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    run_uv("pip", "install", "--python", python, *top.glob("*.whl"), package, "pytest", "pytest-asyncio")
    return Outside(package, python)


def run_uv(*words: str | Path) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", *words, "-q"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_contract_passes_on_an_engine_of_another_package(outside: Outside) -> None:
    done = outside.pytest("-k", PART)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b5 passed, \d+ deselected in", done.stdout), "a test was renamed, or one was skipped"


def test_a_test_of_another_package_that_leaves_an_agent_fails(outside: Outside) -> None:
    done = outside.pytest("leaves_an_agent.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The test left behind:" in done.stdout


def test_the_contract_imports_no_notebook_server_and_no_random_tests(outside: Outside) -> None:
    modules = ", ".join(f"jupyter_smx.testing.{name}" for name in ("contract", "local_harness", "pytest_plugin"))
    done = outside.run("-c", f"import sys, {modules}; print([name for name in {UNWANTED} if name in sys.modules])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
