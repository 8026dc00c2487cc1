"""JupyterLab 4.2 and Notebook 7.2: their lists of extensions, their types, and the core behaviours in a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from oldest_packages import LAB, NOTEBOOK, ROOT, TSCONFIG, oldest_types, skip_or_fail

if TYPE_CHECKING:
    from pathlib import Path

    from oldest_packages import OldestLab

pytestmark = [pytest.mark.heavy("oldest_lab"), pytest.mark.timeout(2400)]

FEWEST = 15
"""Browser tests that the oldest JupyterLab passes, at least."""


def test_the_environment_has_the_oldest_versions(lab: OldestLab) -> None:
    assert lab.run("jupyter", "lab", "--version").strip() == LAB.split("==")[1]
    assert lab.run("jupyter", "notebook", "--version").strip() == NOTEBOOK.split("==")[1]


def test_jupyterlab_finds_the_labextension_enabled_and_compatible(lab: OldestLab) -> None:
    said = lab.run("jupyter", "labextension", "list")
    assert re.search(r"jupyter-smx v[\d.]+ enabled +OK", said), said
    assert "outdated" not in said


def test_the_server_finds_its_extension(lab: OldestLab) -> None:
    said = lab.run("jupyter", "server", "extension", "list")
    assert re.search(r"jupyter_smx [\d.]+ *OK", said), said


def test_the_code_compiles_against_the_types_of_the_oldest_jupyterlab(lab: OldestLab) -> None:
    node = shutil.which("node")
    if node is None:
        skip_or_fail("A compilation needs node on PATH.")
        raise AssertionError
    folder = oldest_types(lab)
    compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
    command = [node, os.fspath(compiler), "-p", os.fspath(folder / TSCONFIG), "--listFiles", "--pretty", "false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=600)
    lines = done.stdout.splitlines()
    errors = [line for line in lines if "error TS" in line]
    assert (done.returncode, errors) == (0, []), "\n".join(errors)
    assert f"{folder}/node_modules/@jupyterlab/application/lib/index.d.ts" in lines
    newest = {f"{ROOT}/node_modules/", f"{(ROOT / 'node_modules').resolve()}/"}
    of_the_newest = [line for line in lines if line.startswith(tuple(newest))]
    assert of_the_newest == [], "a package is missing in the folder, so the compiler took the checkout's"


# Each of its browser tests has a second chance, so all of them together need none, which would take minutes.
@pytest.mark.flaky(reruns=0)
def test_the_core_behaviours_work_in_a_browser(lab: OldestLab, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    words = ["ui-tests", "--confcutdir", "ui-tests", "-m", "core", "--lab-python", lab.python, f"--junitxml={report}"]
    words += ["-n", "2", "--dist", "loadfile"]
    words += ["--timeout", "300", *(["--reruns", "1"] if os.environ.get("CI") else [])]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == pytest.ExitCode.OK and report.exists():
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - what our own pytest wrote
        skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
        if skipped:
            skip_or_fail(f"{len(skipped)} browser tests were skipped: {done.stdout[-600:]}")
        assert len(cases) >= FEWEST
        return
    pytest.fail(
        f"pytest {' '.join(words)} ended with {done.returncode}:\n{done.stdout[-12_000:]}{done.stderr[-2_000:]}"
    )
