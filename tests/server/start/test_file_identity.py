"""A process notices that a path has another file than before, and no silence of the file system counts as that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.data_folder.file_identity import FileIdentity, read_file_identity, read_socket_identity

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_system_that_does_not_answer_has_the_known_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_file_identity(tmp_path, None)
    assert found is not None
    assert read_file_identity(tmp_path / "none", found) is None

    def stale(*_: Any, **__: Any) -> Any:
        raise OSError(116, "Stale file handle")

    known = FileIdentity(1, 2)
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.stat", stale)
        assert read_file_identity(tmp_path, known) == known


def test_a_folder_with_new_content_is_the_same_and_a_replaced_file_is_not(tmp_path: Path) -> None:
    folder = read_file_identity(tmp_path, None)
    path, other = tmp_path / "a", tmp_path / "b"
    path.touch()
    other.touch()
    assert read_file_identity(tmp_path, None) == folder
    first, first_socket = read_file_identity(path, None), read_socket_identity(path)
    other.replace(path)
    assert read_file_identity(path, None) != first
    assert read_socket_identity(path) != first_socket


def test_a_socket_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_socket_identity(tmp_path / "none")
