"""The agent's modules come from the bytecode of its archive, and are ordinary modules otherwise."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system import archive_importer
from jupyter_smx.engines.machine import agent_zipapp

if TYPE_CHECKING:
    from pathlib import Path

IMPORTER = ("system/__init__.py", "system/archive_importer.py")
CODE = {
    "__init__.py": b"__version__ = '1'\n",
    **{name: agent_zipapp.members()[f"jupyter_smx/agent/{name}"] for name in IMPORTER},
    "one.py": b"from jupyter_smx.agent.folder import two\n\ndef fail():\n    raise ValueError  # of the source\n",
    "folder/__init__.py": b"IS_PACKAGE = True\n",
    "folder/two.py": b"WORD = 'of the bytecode'\n",
}
LOADER = "type(one.two.__spec__.loader).__name__"
CONTENT = {
    "jupyter_smx/__init__.py": agent_zipapp.members()["jupyter_smx/__init__.py"],
    **{f"jupyter_smx/agent/{name}": source for name, source in CODE.items()},
}


def write(folder: Path) -> Path:
    """Write an archive whose bytecode differs from its sources, as is never so, to see what is imported."""
    content = agent_zipapp.add_bytecode(CONTENT)
    content["jupyter_smx/agent/folder/two.py"] = b"WORD = 'of the source'\n"
    path = folder / "agent.pyz"
    path.write_bytes(agent_zipapp.pack(content))
    return path


def run(archive: Path, code: str) -> str:
    words = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(archive)!r})\n{code}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=archive.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_modules_and_packages_are_loaded_from_the_bytecode(tmp_path: Path) -> None:
    archive = write(tmp_path)
    printed = f"one.two.WORD, one.__file__, folder.__path__, {LOADER}"
    inside = f"{archive}/jupyter_smx/agent"
    expected = f"of the bytecode {inside}/one.py ['{inside}/folder'] ArchiveImporter"
    assert run(archive, f"from jupyter_smx.agent import one, folder\nprint({printed})") == expected


def test_a_traceback_shows_the_lines_of_the_source(tmp_path: Path) -> None:
    code = "import traceback\nfrom jupyter_smx.agent import one\ntry:\n    one.fail()\nexcept ValueError:\n    {}"
    printed = run(write(tmp_path), code.format("print(traceback.format_exc())"))
    assert "raise ValueError  # of the source" in printed


def test_a_module_that_is_missing_is_an_import_error(tmp_path: Path) -> None:
    code = "try:\n    import jupyter_smx.agent.none\nexcept ModuleNotFoundError as error:\n    print(error.name)"
    assert run(write(tmp_path), code) == "jupyter_smx.agent.none"


def test_imports_go_on_after_caches_were_dropped(tmp_path: Path) -> None:
    code = "import importlib, jupyter_smx.agent\n{}\nfrom jupyter_smx.agent import one\nprint(one.two.WORD)"
    archive = write(tmp_path)
    for drop in ("importlib.invalidate_caches()", "sys.path_importer_cache.clear()"):
        assert run(archive, code.format(drop)) == "of the bytecode"


@pytest.mark.parametrize("index", [b"\0\0\0\0jupyter_smx/agent/one", None])
def test_an_interpreter_of_another_version_reads_the_source(tmp_path: Path, index: bytes | None) -> None:
    archive = write(tmp_path)
    with zipfile.ZipFile(archive) as packed:
        content = {name: packed.read(name) for name in packed.namelist() if not name.endswith(".pyc")}
    del content[archive_importer.INDEX]
    archive.write_bytes(agent_zipapp.pack(content if index is None else {**content, archive_importer.INDEX: index}))
    printed = run(archive, f"from jupyter_smx.agent import one\nprint(one.two.WORD, {LOADER})")
    assert printed == "of the source zipimporter"


def test_the_index_names_every_module_of_the_agent(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(agent_zipapp.write_archive(tmp_path).read_bytes())) as packed:
        rows = set(packed.read(archive_importer.INDEX)[4:].decode().split("\n"))
        compiled = {name for name in packed.namelist() if name.endswith(".pyc")}
    assert rows == {name.removesuffix(".pyc").removesuffix("__init__") for name in compiled}
    assert {"jupyter_smx/agent/startup", "jupyter_smx/agent/host/", "jupyter_smx/agent/pynvml"} <= rows
