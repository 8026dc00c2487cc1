from __future__ import annotations

import hashlib
import io
import pickle
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.code import execute, variable_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LARGE = variable_file.LARGE


def pack(path: Path, values: Mapping[str, Any]) -> bytes:
    packed = {name: variable_file.Packed(value, pickle.dumps) for name, value in values.items()}
    with path.open("wb") as file:
        variable_file.write(file, packed)
    return path.read_bytes()


def unpack(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {name: pickle.loads(head, buffers=more) for name, head, more in variable_file.read(file)}  # noqa: S301


@given(sizes=st.lists(st.integers(0, 3 * LARGE), max_size=4))
def test_arrays_of_any_size_come_back(sizes: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("packed") / "v"
    values = {f"a{n}": np.arange(size, dtype=np.uint8) for n, size in enumerate(sizes)} | {"word": "é"}
    pack(path, values)
    found = unpack(path)
    assert list(found) == list(values)
    assert found["word"] == "é"
    assert all(np.array_equal(found[name], values[name]) for name in values if name != "word")


def test_a_large_array_lies_in_the_file_as_in_memory_and_is_mapped_from_there(tmp_path: Path) -> None:
    table = np.arange(LARGE, dtype=np.float64)
    raw = pack(tmp_path / "v", {"first": [table, table * 2], "second": table * 3})
    assert raw.index(table.tobytes()) % 64 == 0
    assert len(raw) < 3 * table.nbytes + 2_000, "nothing is there twice"
    found = unpack(tmp_path / "v")
    assert np.array_equal(found["first"][1], table * 2)
    assert np.array_equal(found["second"], table * 3)
    assert not found["first"][0].flags.owndata


def test_what_came_can_be_changed_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    before = pack(tmp_path / "v", {"a": np.zeros(LARGE)})
    found = unpack(tmp_path / "v")["a"]
    found += 1
    assert found.sum() == LARGE
    assert (tmp_path / "v").read_bytes() == before


def test_an_array_that_lies_in_pieces_comes_back_whole(tmp_path: Path) -> None:
    pieces = np.arange(4 * LARGE).reshape(-1, 4)[:, 1]
    pack(tmp_path / "v", {"a": pieces})
    assert np.array_equal(unpack(tmp_path / "v")["a"], pieces)


def test_the_size_of_a_variable_counts_its_buffers() -> None:
    assert variable_file.Packed(np.zeros(LARGE), pickle.dumps).size > 8 * LARGE


@pytest.mark.parametrize("left", [0.0, 0.001, 0.5, 0.999])
def test_a_file_that_was_cut_is_an_error_and_never_a_wrong_value(tmp_path: Path, left: float) -> None:
    raw = pack(tmp_path / "v", {"small": 1, "a": np.ones(LARGE), "b": np.ones(LARGE)})
    (tmp_path / "v").write_bytes(raw[: int(len(raw) * left)])
    with pytest.raises((EOFError, pickle.UnpicklingError)):
        unpack(tmp_path / "v")


def test_nothing_is_mapped_where_nothing_is_large() -> None:
    whole = io.BytesIO()
    variable_file.write(whole, {"a": variable_file.Packed([1, 2], pickle.dumps)})
    whole.seek(0)
    (row,) = variable_file.read(whole)
    assert row == ("a", pickle.dumps([1, 2], protocol=5), [])


def test_a_file_is_looked_at_in_pieces_and_read_from_its_beginning_after_it(tmp_path: Path) -> None:
    content = bytes(range(256)) * (1 << 16)
    (tmp_path / "v").write_bytes(content)
    send = {"path": str(tmp_path / "v"), "sha256": hashlib.sha256(content).hexdigest()}
    with (tmp_path / "v").open("rb") as file:
        tracemalloc.start()
        execute._check(file, send)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert file.tell() == 0
    assert peak < len(content) / 4
