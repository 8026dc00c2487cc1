"""Logs by the names of their streams, of a job that really began twice on two hosts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from test_spot_end_to_end import cell

from jupyter_smx.cli import main
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from pathlib import Path

TWICE = """
import os, time
from pathlib import Path
here = os.environ["SM_CURRENT_HOST"]
kept = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"), "checkpoints", here)
if kept.exists():
    print("again", here)
else:
    print("one\\ntwo\\nfirst", here, flush=True)
    kept.write_text("")
    while True:
        time.sleep(0.1)
"""


@pytest.fixture
def job(notebook: Any, real: Path, monkeypatch: pytest.MonkeyPatch, eventually_blocking: Any) -> Any:
    """Give a job that lost its hosts once."""
    monkeypatch.setenv("SMX_WAIT", "0")
    cell(notebook, f"%%train --name twice -n 2 --spot --checkpoint kept --as job\n{TWICE}")
    both = [real / "kept" / host for host in ("algo-1", "algo-2")]
    eventually_blocking(lambda: all(path.exists() for path in both), "both hosts keep theirs", within=30.0)
    found = notebook.user_ns["job"].interrupt().wait()
    assert found.status == "Completed", found.record.failure_reason
    return found


def test_a_stream_is_one_host_of_one_run_in_python_on_a_line_and_in_a_terminal(
    job: Any, notebook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [stream.name for stream in job.log_streams]
    assert [(one.host, one.attempt) for one in job.log_streams] == [
        ("algo-1", 1), ("algo-2", 1), ("algo-1", 2), ("algo-2", 2)
    ]  # fmt: skip
    assert all(re.fullmatch(rf"{job.name}/algo-[12]-1\d{{9}}", name) for name in names)
    first, again = ["one\ntwo\nfirst algo-1\n", "one\ntwo\nfirst algo-2\n"], ["again algo-1\n", "again algo-2\n"]
    assert [job.logs(name) for name in names] == [*first, *again]
    assert job.logs("algo-2") == f"{first[1]}--- attempt 2 ---\n{again[1]}"
    assert job.logs(names[0], tail=1) == "first algo-1\n"
    assert job.logs(names[0], tail=9) == first[0]
    capsys.readouterr()
    notebook.run_line_magic("smx", f"logs {job.name} --streams")
    assert capsys.readouterr().out.split() == names
    notebook.run_line_magic("smx", f"logs {job.name} --host {names[1]} -f")
    assert capsys.readouterr().out == first[1]
    with pytest.raises(ValidationError, match=r"--host: 'algo-3' is not one of its values\."):
        notebook.run_line_magic("smx", f"logs {job.name} --host algo-3")
    notebook.run_line_magic("smx", f"logs {job.name} --streams --host {names[1]}")
    assert capsys.readouterr().out.split() == [names[1]]
    assert main(["logs", job.name, "--streams"]) == 0
    assert capsys.readouterr().out.split() == names
    assert main(["logs", job.name, "--streams", "--host", "algo-2"]) == 0
    assert capsys.readouterr().out.split() == [names[1], names[3]]
    assert main(["logs", job.name, "--streams", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[2] == {
        "name": names[2],
        "group": "/aws/sagemaker/TrainingJobs",
        "host": "algo-1",
        "instance_group": "homogeneousCluster",
        "attempt": 2,
    }
    assert main(["logs", job.name, "--host", names[3]]) == 0
    assert capsys.readouterr().out == again[1]
