"""What mypy sees of the keywords, as an editor does."""

from __future__ import annotations

import pytest
from mypy import api

PROGRAM = """
import jupyter_smx as smx
smx.train("pass", keep_alive="10m", max_run=60, hyperparameters={"lr": 1}, after=["prepare"])
smx.train("pass", keep_alive=[])
smx.train("pass", keep_alve="10m")
smx.process("pass", spot=True)
smx.process("pass", arguments=["--split", "0.2"], outputs={"report": ":report"})
@smx.remote(retries="many")
def call() -> None: ...
reveal_type(smx.train("pass"))
"""


@pytest.mark.processes  # it starts none, but takes seconds
def test_mypy_finds_wrong_keywords_and_wrong_types() -> None:
    options = ["--config-file=", "--strict", "--no-error-summary", "--hide-error-codes"]
    output, errors, _ = api.run([*options, "-c", PROGRAM])
    assert not errors
    lines = {int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line}
    assert lines == {4, 5, 6, 8}, output
    assert "Job | jupyter_smx" in output
    assert 'Unexpected keyword argument "keep_alve" for "train"; did you mean "keep_alive"?' in output
