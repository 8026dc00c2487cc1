"""Inputs of processing jobs where their scripts look: anywhere below ``/opt/ml/processing``, also around code."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.code import sourcedir
from jupyter_smx.agent.contract import script, scriptmode
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

PLACE = HostInfo("algo-1", ["algo-1"], [], "homogeneousCluster", "local", 1, 0)
IN = "/opt/ml/processing/input"
LOOK = """
import json, os
found = {}
for top, _folders, names in os.walk(BASE + "/processing"):
    for name in names:
        path = os.path.join(top, name)
        found[os.path.relpath(path, BASE + "/processing")] = open(path, errors="replace").read()
"""
SEE = 'BASE = "/opt/ml"' + LOOK + "print(json.dumps(found))"


def channel(name: str, source: Path | str, path: str = "", **fields: Any) -> dict[str, Any]:
    return {"name": name, "source": str(source), "path": path, **fields}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, text in {"one/rows.csv": "1", "one/deep/more.csv": "2", "two/deep/last.csv": "3"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def packed(tmp_path: Path, **files: str) -> dict[str, Any]:
    with tarfile.open(tmp_path / "code.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{name}.py")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    content = (tmp_path / "code.tar.gz").read_bytes()
    known = {"sha256": hashlib.sha256(content).hexdigest(), "files": len(files), "size": len(content)}
    return {"folder": str(tmp_path), "path": str(tmp_path / "code.tar.gz"), **known}


def test_config_file_and_variable_name_the_folder() -> None:
    spec = scriptmode.complete({"source": "", "kind": "process", "channels": [channel("raw", "s3://b/x/", IN + "/")]})
    config = json.loads(scriptmode.config_files(spec, PLACE)["config/processingjobconfig.json"])
    assert [one["S3Input"]["LocalPath"] for one in config["ProcessingInputs"]] == [IN]
    assert scriptmode.variables(spec, PLACE)["SMX_INPUT_RAW"] == IN


def test_code_goes_by_a_rename_unless_an_input_is_mounted_over_it() -> None:
    spec = {"kind": "process", "source_dir": {}, "entry_point": "x.py", "contract": "v2"}
    beside = dict(spec, channels=[channel("raw", "/x"), channel("model", "/x", "/opt/ml/processing/model")])
    assert script.code_target_folder(beside, PLACE, "/host/ml") == "/host/ml/processing/input/code"
    around = dict(spec, channels=[channel("raw", "/x", IN)])
    assert script.code_target_folder(around, PLACE, "/host/ml") == f"{IN}/code"


def test_inputs_lie_where_they_are_wished_and_in_each_other_and_come_anew(isolated: Agent, data: Path) -> None:
    channels = [
        channel("two", data / "two", f"{IN}/deep/two"),
        channel("one", data / "one", IN),
        channel("model", data / "one" / "rows.csv", "/opt/ml/processing/model"),
    ]
    wanted = {
        "input/rows.csv": "1",
        "input/deep/more.csv": "2",
        "input/deep/two/deep/last.csv": "3",
        "model/rows.csv": "1",
        "input/code/clean.py": SEE + "\nopen('/opt/ml/processing/input/deep/two/new', 'w').close()",
    }
    for _ in range(2):
        seen = isolated.json(wanted["input/code/clean.py"], kind="process", entry_point="clean.py", channels=channels)
        assert seen == wanted
    assert sorted(path.name for path in data.rglob("*.csv")) == ["last.csv", "more.csv", "rows.csv"]
    assert not (data / "two" / "new").exists()
    isolated.serves()


@pytest.mark.parametrize("is_small", [True, False])
def test_a_folder_of_code_lies_in_an_input(isolated: Agent, data: Path, far_folder: Path, is_small: bool) -> None:
    # Code lies in the data folder, which no host hides; inputs may lie in a folder that is hidden.
    source = packed(far_folder, clean=SEE, helper="x = 1")
    if not is_small:
        source["files"] = sourcedir._INLINE_FILES + 1
    wishes = {"kind": "process", "entry_point": "clean.py", "source_dir": source}
    for _ in range(2):
        seen = isolated.json(SEE, channels=[channel("one", data / "one", IN)], **wishes)
        code = [f"input/code/{name}" for name in ("clean.py", "helper.py", "sourcedir.tar.gz")]
        assert sorted(seen) == [*code, "input/deep/more.csv", "input/entrypoint/runproc.sh", "input/rows.csv"]


def test_without_a_world_of_its_own_copies_lie_in_each_other(agent: Agent, data: Path) -> None:
    see = "import os\nBASE = os.environ['SAGEMAKER_BASE_DIR']" + LOOK + "print(json.dumps(sorted(found)))"
    channels = [channel("two", data / "two", IN), channel("one", data / "one", f"{IN}/deep")]
    seen = agent.json(see, kind="process", entry_point="clean.py", channels=channels)
    assert seen == ["input/code/clean.py", "input/deep/deep/more.csv", "input/deep/last.csv", "input/deep/rows.csv"]
    agent.serves()
