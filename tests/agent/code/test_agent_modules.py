"""The agent's own package is hidden from a job's imports, and found again by the agent's own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CHILD = """
import sys
from jupyter_smx.agent.code import imports

imports.end_watching()
import colorsys
from jupyter_smx.agent.code import variable_reason
imports.hide_agent_modules()
assert not [name for name in sys.modules if name.startswith("jupyter_smx")]
if sys.argv[2] == "unloads":
    sys.modules.popitem()
sys.path[:] = [sys.argv[1], *(path for path in sys.path if "packages" not in path and path)]
import jupyter_smx
assert jupyter_smx.IS_OF_THE_JOB, jupyter_smx
if sys.argv[2] == "reloads":
    name = next(name for name in reversed(sys.modules) if name != "jupyter_smx")
    del sys.modules[name]
    __import__(name)
with imports.agent_modules():
    from jupyter_smx.agent.code.installs import python_code
assert python_code.install_in_code("import os; os.system('pip install alpha')")
from jupyter_smx import IS_OF_THE_JOB
assert [name for name in sys.modules if name.startswith("jupyter_smx")] == ["jupyter_smx"]
with imports.agent_modules():
    from jupyter_smx.agent.code.installs import python_code as again
assert again is python_code
"""


@pytest.mark.parametrize("job", ["keeps", "unloads", "reloads"])
def test_a_job_imports_its_own_package_of_our_name_and_the_agent_imports_ours(tmp_path: Path, job: str) -> None:
    """Also where the job unloads or reloads the module after which new ones are looked for."""
    (tmp_path / "jupyter_smx.py").write_text("IS_OF_THE_JOB = True\n", encoding="utf-8")
    words = [sys.executable, "-c", CHILD, str(tmp_path), job]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
