"""What a job ran with, from its host to the notebook, the records and the file; with the real controller and agent."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from jupyter_smx import cli, controller_launch
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.display.diff import previous_run


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


def run(shell: Any, line: str, code: str) -> Any:
    done = shell.run_cell(f"%%train --name digits --keep-alive 5m --wait --as job {line}\n{code}")
    if done.error_in_exec:
        raise done.error_in_exec
    return shell.user_ns["job"]


CODE = "import numpy, random\nrandom.seed(3)\nprint(numpy.__version__)"


def test_two_runs_are_kept_as_they_were_and_compared(
    notebook: Any, tmp_path: Path, eventually_blocking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("1,2\n")
    first = run(notebook, "--input train=data.csv --hp lr=0.1", CODE)
    found = first.provenance
    assert found.packages["numpy"] == version("numpy")
    assert found.python == sys.executable
    assert found.python_version == ".".join(map(str, sys.version_info[:3]))
    (digest,) = found.inputs
    row = f"data.csv\0{4}\0{hashlib.sha256(b'1,2' + bytes([10])).hexdigest()}\n"
    assert (digest.method, digest.sha256) == ("content", hashlib.sha256(row.encode()).hexdigest())
    (host,) = found.hosts
    assert host.machine.hostname == socket.gethostname()
    assert host.isolation in {"namespace", "variables"}
    assert (host.limits.cpus and host.limits.memory_bytes) or host.limits.reason
    assert found.seeds.calls
    file = Path(os.environ[controller_launch.DATA_DIR_VARIABLE], "jobs", first.id, "provenance.json")
    eventually_blocking(file.exists, "the file for people")
    kept = json.loads(file.read_text())
    assert (kept["job"], kept["packages"]) == (first.name, found.packages)

    second = run(notebook, "--input train=data.csv --hp lr=0.2", CODE.replace("3", "4"))
    assert previous_run(autostart.client(), second.record).id == first.id
    assert cli.main(["diff", second.name, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["before"], told["after"]) == (first.name, second.name)
    assert [line for line in told["code"] if line[1:].startswith("random")] == ["-random.seed(3)", "+random.seed(4)"]
    assert [(one["before"], one["after"]) for one in told["changes"] if one["name"] == "lr"] == [("0.1", "0.2")]
    assert {one["section"] for one in told["changes"]} <= {"hyperparameter", "outcome"}

    assert cli.main(["provenance", second.name]) == 0
    assert f"numpy {version('numpy')}" in capsys.readouterr().out
    notebook.run_line_magic("smx", f"diff {first.name} job")
    assert re.search(r"hyperparameter +lr +0\.1 +0\.2\n", capsys.readouterr().out)
    notebook.run_line_magic("smx", "provenance")
    assert "SHA-256" in capsys.readouterr().out
    data.write_text("1,3\n")
    third = run(notebook, "--input train=data.csv --hp lr=0.2", CODE.replace("3", "4"))
    (changed,) = [
        one for one in notebook.ev(f"__import__('jupyter_smx').diff('{third.name}')").changes if one.section == "input"
    ]
    assert changed.name == "train"


def test_the_reason_of_a_warm_start_says_how_long_the_imports_that_were_there_took(
    notebook: Any, eventually_blocking: Any
) -> None:
    code = "import scipy.sparse, yaml\nprint('done')"
    run(notebook, "", code)
    client = autostart.client()
    eventually_blocking(
        lambda: any({"scipy.sparse", "yaml"} <= {*pool.preloaded} for pool in client.pools()), "the import"
    )
    again = run(notebook, "", code)
    assert re.search(r"Already imported: scipy\.sparse, yaml \(about [\d.]+ m?s of imports\)\.", again.why), again.why
    assert {"PyYAML", "numpy", "scipy"} <= set(again.provenance.packages)
    assert run(notebook, "", "print('no imports')").provenance.packages == {}
