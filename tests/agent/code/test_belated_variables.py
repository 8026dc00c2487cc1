"""Variables of a wish that Python or a library reads once: they count although a host has started and imported both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from source_archives import packed

from jupyter_smx.agent.code import startup_variables
from jupyter_smx.agent.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

ASK = """
import json, os, sys
import extra
print(json.dumps([extra.X, sys.path, os.environ["PYTHONPATH"].split(":")]))
"""


@pytest.fixture
def extra(tmp_path: Path) -> Path:
    """Give a folder of modules that lies where no Python looks."""
    folder = tmp_path / "extra"
    folder.mkdir()
    (folder / "extra.py").write_text("X = 'found'\n")
    return folder


@pytest.mark.parametrize(
    ("fields", "code", "first"),
    [
        ({}, ["code"], ["code"]),
        ({"entry_point": "fit.py"}, ["code"], ["code"]),
        ({"entry_point": "sub/fit.py"}, ["code/sub", "code"], ["code"]),
        ({"entry_point": "fit.py", "contract": "v3"}, ["input/data/code"], []),
        ({"entry_point": "fit.py", "kind": "process"}, ["processing/input/code"], ["processing/input/code"]),
    ],
)
def test_imports_look_behind_the_code_in_the_folders_of_pythonpath(
    shared_agent: Agent, extra: Path, fields: dict[str, Any], code: list[str], first: list[str]
) -> None:
    ml, gone = f"{shared_agent.folder}/ml", f"{extra}/gone"
    found, path, inherited = shared_agent.json(ASK, environment={"PYTHONPATH": f"{extra}::{gone}"}, **fields)
    whole = [f"{ml}/{name}" for name in code]
    assert (found, path[: len(code) + 2]) == ("found", [*whole, str(extra), gone])
    assert inherited == [*(f"{ml}/{name}" for name in first), str(extra), gone]
    shared_agent.serves()


def test_the_code_comes_before_pythonpath_and_programs_have_it_too(
    shared_agent: Agent, tmp_path: Path, extra: Path
) -> None:
    source = packed(tmp_path, {"fit.sh": "python -c 'import extra, other; print(extra.X, other.X)'", "other.py": "X=1"})
    (extra / "other.py").write_text("X = 2\n")
    record = shared_agent.run("", source_dir=source, entry_point="fit.sh", environment={"PYTHONPATH": str(extra)})
    assert record["text"] == "found 1\n"


LIBRARY = "import os\nHOME = os.environ.get('HF_HOME', 'the default')\n"
LIBRARIES = {
    "huggingface_hub/__init__.py": "from huggingface_hub.constants import HOME\n",
    "huggingface_hub/constants.py": LIBRARY,
    "transformers/__init__.py": "from huggingface_hub import HOME\n",
    "peft/__init__.py": "from transformers import HOME\n",
    "bystander.py": "HOME = 'untouched'\n",
}
HOMES = """
import json, pickle, sys
class Own:
    pass
assert isinstance(pickle.loads(pickle.dumps(Own())), Own) and sys.modules["__main__"].__dict__ is globals()
there = [name in sys.modules for name in ("peft", "bystander")]
import bystander, huggingface_hub, peft, transformers
print(json.dumps([there, huggingface_hub.HOME, transformers.HOME, peft.HOME]))
"""


@pytest.fixture
def with_libraries(start_agent: Callable[..., Agent], tmp_path: Path) -> Agent:
    """Give a host that has imported libraries which read their settings then."""
    site = tmp_path / "site-packages"
    for name, text in LIBRARIES.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    agent = start_agent(environment={"PYTHONPATH": str(site), "HF_HOME": "/of/the/host"})
    agent.client.ask("preload", modules=["peft", "bystander", "msgspec"])
    assert agent.client.event("preload")["failed"] == {}
    return agent


@pytest.mark.parametrize(
    ("environment", "there", "home"),
    [
        ({}, True, "/of/the/host"),
        ({"HF_HOME": "/mine"}, False, "/mine"),
        ({"HF_HOME": "/of/the/host"}, True, "/of/the/host"),
        ({"HF_DATASETS_CACHE": "/mine"}, True, "/of/the/host"),
        ({"HF_TOKEN": "secret"}, True, "/of/the/host"),
        ({"OTHER": "1"}, True, "/of/the/host"),
    ],
)
def test_a_library_that_read_its_settings_before_the_job_reads_them_again(
    with_libraries: Agent, environment: dict[str, str], there: bool, home: str
) -> None:
    assert with_libraries.json(HOMES, environment=environment) == [[there, there], home, home, home]


ONCE = """
import builtins
if hasattr(builtins, "told"):
    raise RuntimeError("a type of that name is known already")
builtins.told = True
from datasets import config
"""
CONFIG = "import os, huggingface_hub\nHOME = float(os.environ.get('HF_DATASETS_NUMBER', '0'))\n"


def test_a_package_that_can_be_loaded_once_reads_its_settings_in_another_process(
    start_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    site = tmp_path / "site-packages"
    for name, text in {**LIBRARIES, "datasets/__init__.py": ONCE, "datasets/config.py": CONFIG}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    agent = start_agent(environment={"PYTHONPATH": str(site)})
    agent.client.ask("preload", modules=["datasets", "peft"])
    assert agent.client.event("preload")["failed"] == {}
    see = "import datasets, json, peft\nprint(json.dumps([datasets.config.HOME, peft.HOME]))"
    assert agent.json(see, environment={"HF_DATASETS_NUMBER": "1", "HF_HOME": "/mine"}) == [1, "/mine"]
    assert agent.json(see, environment={}) == [0, "the default"]
    record = agent.run(see, environment={"HF_DATASETS_NUMBER": "many"})
    assert record["exception"]["message"] == "could not convert string to float: 'many'"


def test_a_compiled_package_of_pythonpath_cannot_replace_one_that_the_host_has_imported(
    with_libraries: Agent, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    for name in ("msgspec", "bystander"):
        (own / name).mkdir(parents=True)
        (own / name / "__init__.py").write_text("HOME = 'mine'\n")
    ask = "import bystander, msgspec\nprint(bystander.HOME, msgspec.json.encode(1))"
    record = with_libraries.run(ask, environment={"PYTHONPATH": str(own)})
    assert record["text"] == "mine b'1'\n"
    (said,) = record["errors"]
    assert said.startswith("environment: PYTHONPATH has another msgspec, but this host has imported one already")


PROTOBUF = {
    "google/protobuf/__init__.py": "",
    "google/protobuf/internal/__init__.py": "",
    "google/protobuf/internal/api_implementation.py": "import os\n"
    "_chosen = os.environ.get('PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION', 'upb')\ndef Type():\n    return _chosen\n",
    "google/protobuf/message.py": "from google.protobuf.internal import api_implementation\n"
    "KIND = api_implementation.Type()\n",
    "records_pb2.py": "from google.protobuf.message import KIND\n",
}
KINDS = """
import json, __main__, records_pb2, google.protobuf.message as m
assert __main__.__dict__ is globals()
print(json.dumps([records_pb2.KIND, m.KIND]))
"""


@pytest.mark.parametrize("bound", [False, True])
def test_protobuf_chooses_again_although_something_compiled_has_its_first_choice(
    start_agent: Callable[..., Agent], tmp_path: Path, *, bound: bool
) -> None:
    site = tmp_path / "site-packages"
    uses = {"records_pb2.py": PROTOBUF["records_pb2.py"] + "import compiled\n", "compiled/__init__.py": ""}
    uses["compiled/__init__.py"] = "import google.protobuf.message\n__spec__.origin = 'compiled.abi3.so'\n"
    for name, text in {**PROTOBUF, **(uses if bound else {})}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    agent = start_agent(environment={"PYTHONPATH": str(site)})
    agent.client.ask("preload", modules=["records_pb2"])
    assert agent.client.event("preload")["failed"] == {}
    record = agent.run(KINDS, environment={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"})
    assert (json.loads(record["text"]), record["errors"]) == (["python", "python"], [])
    assert agent.json(KINDS, environment={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "upb"}) == ["upb", "upb"]
    assert agent.json(KINDS) == ["upb", "upb"]


WARN = """
import json, sys, time, warnings
warnings.warn("old", DeprecationWarning)
print(json.dumps([time.strftime("%Z", time.localtime(0)), sys.warnoptions]))
"""


@pytest.mark.parametrize(
    ("environment", "told", "warns"),
    [
        ({"TZ": "Asia/Tokyo"}, ["JST", []], True),
        (
            {"TZ": "UTC0", "PYTHONWARNINGS": "ignore::DeprecationWarning"},
            ["UTC", ["ignore::DeprecationWarning"]],
            False,
        ),
    ],
)
def test_what_python_reads_at_its_start_counts(
    start_agent: Callable[..., Agent], environment: dict[str, str], told: list[Any], warns: bool
) -> None:
    record = start_agent(environment={"TZ": "America/Lima"}).run(WARN, environment=environment)
    assert json.loads(record["text"].splitlines()[-1]) == told
    assert ("DeprecationWarning: old" in record["text"]) is warns


def test_matplotlib_is_told_its_backend_and_what_it_does_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Params(dict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            if value == "nonsense":
                raise ValueError("no backend")
            super().__setitem__(name, value)

    library = type("matplotlib", (), {"rcParams": Params()})
    monkeypatch.setitem(startup_variables.sys.modules, "matplotlib", library)  # type: ignore[arg-type]
    startup_variables.apply_variables({"MPLBACKEND": "svg"}, {}, 1, [])
    assert library.rcParams == {"backend": "svg"}
    startup_variables.apply_variables({"MPLBACKEND": "pdf"}, {"MPLBACKEND": "pdf"}, 1, [])
    assert library.rcParams == {"backend": "svg"}, "the host's own was read already"
    with pytest.raises(RefusalError, match="MPLBACKEND is 'nonsense', which matplotlib does not accept: no backend"):
        startup_variables.apply_variables({"MPLBACKEND": "nonsense"}, {}, 1, [])
