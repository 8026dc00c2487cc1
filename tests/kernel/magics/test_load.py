from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

HEAVY = {
    "tornado", "sqlalchemy", "alembic", "jupyter_server", "jupyter_events", "docker", "ray", "boto3", "psutil",
    "cloudpickle", "numpy", "ipywidgets", "zmq", "httpx", "requests",
}  # fmt: skip

FORMS = {
    "jupyter_smx.agent",
    "jupyter_smx.agent.code",
    "jupyter_smx.agent.code.variable_file",
    "jupyter_smx.agent.code.variable_unpickler",
    "jupyter_smx.agent.stores",
    "jupyter_smx.agent.stores.url_schemes",
    "jupyter_smx.agent.system",
    "jupyter_smx.agent.system.files",
    "jupyter_smx.agent.system.files.host_layout",
}
"""The form of variables, URL schemes, and names in a host's folder."""

SCRIPT = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "jupyter_smx")
import jupyter_smx as smx
smx.train
after = set(sys.modules) - before
print(json.dumps({
    "loaded": sorted({name.partition(".")[0] for name in after}),
    "ours": sorted(name for name in after if name.startswith("jupyter_smx.")),
}))
"""


@pytest.mark.processes
def test_loading_the_extension_imports_nothing_heavy_and_starts_nothing(data_folder: Path) -> None:
    answer = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    found = json.loads(answer.stdout)
    assert not HEAVY & set(found["loaded"])
    agents = {name for name in found["ours"] if name.split(".")[1] == "agent"}
    assert agents == FORMS, "what both sides agree on, and nothing else"
    others = {name.split(".")[1] for name in set(found["ours"]) - agents}
    assert others <= {
        "controller_launch",
        "controller_launch_errors",
        "controller_start",
        "data_folder",
        "kernel",
        "model",
        "python_version",
        "rerun_spec",
    }
    assert not data_folder.exists()
