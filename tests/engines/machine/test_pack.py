from __future__ import annotations

import io
import subprocess
import sys
import threading
import zipfile
from typing import TYPE_CHECKING

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.engines.machine import agent_zipapp

if TYPE_CHECKING:
    from pathlib import Path

CONTENTS = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}\.py", fullmatch=True), st.binary(max_size=64), max_size=6
)


@given(CONTENTS)
def test_the_same_content_gives_the_same_bytes_and_name_in_any_order(content: dict[str, bytes]) -> None:
    other = dict(reversed(content.items()))
    assert agent_zipapp.pack(content) == agent_zipapp.pack(other)
    assert agent_zipapp.content_hash(content) == agent_zipapp.content_hash(other)


@given(CONTENTS, CONTENTS)
def test_different_contents_have_different_names(one: dict[str, bytes], two: dict[str, bytes]) -> None:
    assert (agent_zipapp.content_hash(one) == agent_zipapp.content_hash(two)) == (one == two)


@given(CONTENTS)
def test_what_goes_in_comes_out(content: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(agent_zipapp.pack(content))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == content


def test_only_the_agent_is_in_the_archive() -> None:
    names = set(agent_zipapp.members())
    ours = {"__main__.py", "jupyter_smx/__init__.py", "compiled-for"}
    assert {*ours, "jupyter_smx/agent/__main__.py", "jupyter_smx/agent/pynvml.py"} <= names
    assert all(name.startswith("jupyter_smx/agent/") and name.endswith(".py") for name in names - ours)
    assert b"archive_importer" in agent_zipapp.members()["jupyter_smx/__init__.py"]
    assert agent_zipapp.members()["compiled-for"].decode() == sys.implementation.cache_tag


LOOK = "import sys; sys.path.insert(0, sys.argv[1]); import one; print(one.WORD, one.__spec__.loader.is_package('one'))"


def import_it(archive: bytes, folder: Path) -> str:
    (folder / "one.zip").write_bytes(archive)
    command = [sys.executable, "-I", "-c", LOOK, str(folder / "one.zip")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def test_bytecode_is_used_when_it_fits_and_the_source_when_it_is_of_another_python(tmp_path: Path) -> None:
    whole = agent_zipapp.add_bytecode({"one.py": b"WORD = 'compiled'"})
    other = {**whole, "one.py": b"WORD = 'source'"}
    assert import_it(agent_zipapp.pack(other), tmp_path) == "compiled"
    foreign = {**other, "one.pyc": b"\0\0\0\0" + whole["one.pyc"][4:]}
    assert import_it(agent_zipapp.pack(foreign), tmp_path) == "source"


PICKLE = """
import sys
sys.path.insert(0, sys.argv[1])
from jupyter_smx.agent.code import execute
print(execute.versions(), len(execute._pickler().dumps(lambda: 1)) > 0, sys.path[-1].endswith("carried"))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent_zipapp.write_archive(tmp_path_factory.mktemp("archive"))


def test_an_interpreter_without_cloudpickle_has_the_one_of_the_agent(archive: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", PICKLE, archive]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert answer == f"{sys.version_info[0]}.{sys.version_info[1]}/{cloudpickle.__version__} True True\n"


def test_an_interpreter_with_cloudpickle_has_its_own(archive: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / "cloudpickle.py"
    own.parent.mkdir()
    own.write_text("__version__ = 'own'\ndumps = repr\n")
    script = f"import sys; sys.path.append({str(own.parent)!r})\n{PICKLE}"
    command = [sys.executable, "-I", "-S", "-c", script, archive]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert answer == f"{sys.version_info[0]}.{sys.version_info[1]}/own True False\n"


def test_placing_twice_writes_once_and_leaves_no_other_file(tmp_path: Path) -> None:
    first = agent_zipapp.write_archive(tmp_path)
    stamp = first.stat().st_mtime_ns
    assert agent_zipapp.write_archive(tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    assert list(tmp_path.iterdir()) == [first]


def test_many_that_place_at_once_agree(tmp_path: Path) -> None:
    threads = [threading.Thread(target=agent_zipapp.write_archive, args=(tmp_path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == [agent_zipapp.file_name()]
    assert zipfile.ZipFile(tmp_path / agent_zipapp.file_name()).testzip() is None


def test_the_archive_runs_with_nothing_else_on_the_path(archive: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-I", "-S", archive],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert answer.stderr.startswith("usage:")
