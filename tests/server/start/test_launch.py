"""Where the controller is looked for, what it inherits, and the error when it does not start."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller.singleton import DataFolderSocket
from jupyter_smx.data_folder import short_folder
from jupyter_smx.kernel.client.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRETS = [
    "JPY_API_TOKEN", "JPY_PARENT_PID", "JPY_SESSION_NAME", "JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN",
    "JUPYTER_GATEWAY_AUTH_TOKEN", "JUPYTER_GATEWAY_HTTP_PWD", "JUPYTER_GATEWAY_HTTP_USER", "JUPYTER_GATEWAY_HEADERS",
    "JUPYTER_GATEWAY_CLIENT_KEY", "JUPYTER_GATEWAY_URL",
]  # fmt: skip


def test_the_folder_is_the_one_of_the_variable_or_jupyters_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "here"))
    assert controller_launch.data_dir() == tmp_path / "here"
    monkeypatch.delenv(controller_launch.DATA_DIR_VARIABLE)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    assert controller_launch.data_dir() == tmp_path / "jupyter" / "smx"


def test_a_server_its_hub_and_its_token_are_not_inherited() -> None:
    environ = dict.fromkeys(SECRETS, "x") | {"PATH": "/bin", "MPLBACKEND": "module://matplotlib_inline.backend"}
    assert controller_launch.controller_environment(environ) == {"PATH": "/bin"}


def test_a_backend_that_the_user_chose_is_inherited() -> None:
    assert controller_launch.controller_environment({"MPLBACKEND": "agg"}) == {"MPLBACKEND": "agg"}


def test_the_folders_are_private_even_when_they_were_not(data_dir: Path) -> None:
    data_dir.chmod(0o755)
    controller_launch.ensure_folders()
    assert data_dir.stat().st_mode & 0o777 == 0o700


def test_a_data_folder_may_be_a_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "link"))
    controller_launch.ensure_folders()
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o700


@pytest.fixture
def runtime() -> Iterator[Path]:
    """Give a private runtime folder with a short path, however long that of temporary files is."""
    with tempfile.TemporaryDirectory(prefix="smx-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def long_data_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: Path) -> Path:
    """A data folder whose path is too long for a socket; short folders are made in a private runtime folder."""
    monkeypatch.setenv(short_folder.RUNTIME_VARIABLE, str(runtime))
    folder = tmp_path / ("long" * 40)
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
    return folder


def test_a_socket_fits_however_long_the_path_of_the_data_folder_is(
    monkeypatch: pytest.MonkeyPatch, long_data_dir: Path, runtime: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        controller_launch.socket_address()
    assert not controller_launch.is_listening()
    controller_launch.ensure_folders()
    address = controller_launch.socket_address()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        assert controller_launch.is_listening()
        assert controller_launch.has_socket()
        # A terminal without the variable, or with another one, finds the same.
        monkeypatch.delenv(short_folder.RUNTIME_VARIABLE)
        controller_launch.ensure_folders()
        assert controller_launch.socket_address() == address
        connection = Connection(controller_launch.socket_path())
        client = socket.socket(socket.AF_UNIX)
        client.connect(controller_launch.socket_address(connection._path))
        client.close()
    assert Path(address).parent.stat().st_mode & 0o777 == 0o700
    assert Path(address).parent.parent == runtime
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(long_data_dir / "other"))
    with pytest.raises(FileNotFoundError):
        controller_launch.socket_address()


def test_a_socket_of_a_long_data_folder_comes_back_when_its_folder_or_the_record_is_deleted(
    long_data_dir: Path,
) -> None:
    bound = DataFolderSocket()
    bound.publish()
    assert bound.is_published()
    assert controller_launch.is_listening()
    folder = bound.path.parent
    shutil.rmtree(folder)
    assert not bound.is_published()
    bound.rebind().close()
    bound.publish()
    assert bound.is_published()
    assert bound.path.parent == folder
    (long_data_dir / "controller.folder").unlink()
    assert not bound.is_published()
    bound.rebind().close()
    bound.publish()
    assert controller_launch.is_listening()
    assert bound.path.parent != folder
    bound.close()
    assert not bound.path.parent.exists()


@pytest.mark.usefixtures("long_data_dir")
def test_a_name_that_another_user_took_is_not_used(tmp_path: Path, runtime: Path) -> None:
    record, tokens = tmp_path / "record", iter(["00000001", "00000002", "00000003"])
    (runtime / "smx-00000001").symlink_to(tmp_path)
    made = short_folder.make_short_folder(record, str(runtime), lambda: next(tokens))
    assert made == runtime / "smx-00000002"
    made.rmdir()
    made.symlink_to(runtime)
    assert short_folder.find_short_folder(record) is None
    assert short_folder.make_short_folder(record, str(runtime), lambda: next(tokens)) == runtime / "smx-00000003"
    assert short_folder.find_short_folder(record) == runtime / "smx-00000003"


def test_a_runtime_folder_that_others_can_enter_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    open_folder, other = tmp_path / "run", tmp_path / "tmp"
    open_folder.mkdir(mode=0o755)
    other.mkdir(mode=0o700)
    monkeypatch.setattr(short_folder, "PARENT_FOLDERS", (str(other),))
    assert short_folder.make_short_folder(tmp_path / "record", str(open_folder)).parent == other
    assert short_folder.make_short_folder(tmp_path / "record", "").parent == other


def test_the_error_says_which_folder_cannot_have_the_socket(
    monkeypatch: pytest.MonkeyPatch, long_data_dir: Path, tmp_path: Path
) -> None:
    unsafe = tmp_path / "unsafe"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    monkeypatch.delenv(short_folder.RUNTIME_VARIABLE)
    monkeypatch.setattr(short_folder, "PARENT_FOLDERS", (str(unsafe),))
    with pytest.raises(OSError) as raised:  # noqa: PT011 - its sentence is looked at
        controller_launch.ensure_folders()
    error = controller_launch_errors.start_error(raised.value)
    assert error.message == (
        f"The controller could not be started, because {unsafe} cannot be used: other users can replace files in it."
    )
    assert error.rule.startswith(f"The path of {long_data_dir} is too long for a unix socket")
    assert "shorter path" in error.cure


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_parents_of_the_data_folder_are_private_under_any_umask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, umask: int
) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "a" / "b" / "smx"))
    before = os.umask(umask)
    try:
        controller_launch.ensure_folders()
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/smx"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700


def test_the_error_says_which_parent_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "a" / "b" / "smx"))
    with pytest.raises(OSError) as raised:  # noqa: PT011 - its sentence is looked at
        controller_launch.ensure_folders()
    error = controller_launch_errors.start_error(raised.value)
    assert f"because {tmp_path / 'a'} cannot be used: it is a file." in error.message


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder that belongs to somebody else")
def test_a_folder_of_somebody_else_is_refused_with_the_cure(data_dir: Path) -> None:
    os.chown(data_dir, 12345, 12345)
    with pytest.raises(PermissionError) as raised:
        controller_launch.ensure_folders()
    error = controller_launch_errors.start_error(raised.value)
    assert f"because {data_dir} cannot be used: it belongs to another user." in error.message
    assert controller_launch.DATA_DIR_VARIABLE in error.cure


def test_a_socket_that_a_dead_controller_left_is_not_a_controller(data_dir: Path) -> None:
    del data_dir
    controller_launch.ensure_folders()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(controller_launch.socket_address())
    assert controller_launch.has_socket()
    assert not controller_launch.is_listening()


def test_a_controller_that_dies_at_once_is_not_waited_for(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no module named jupyter_smx' >&2\nexit 3\n")
    python.chmod(0o755)
    process = controller_launch.start_controller(str(python))
    assert controller_launch.wait_ready(60.0, process) is False
    assert process.returncode == 3
    assert controller_launch.last_log_line() == "no module named jupyter_smx"
    assert controller_launch.log_path().stat().st_mode & 0o777 == 0o600


def test_without_a_log_there_are_no_last_words() -> None:
    assert controller_launch.last_log_line() == ""


@pytest.mark.parametrize(
    "banned", ["tornado", "sqlalchemy", "jupyter_server", "msgspec", "IPython", "traitlets.config"]
)
def test_looking_for_a_controller_costs_no_heavy_import(banned: str) -> None:
    code = f"import sys, jupyter_smx, jupyter_smx.controller_launch; sys.exit({banned!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_controller_that_had_no_room_for_its_last_words_is_no_riddle(monkeypatch: pytest.MonkeyPatch) -> None:
    controller_launch.ensure_folders()
    controller_launch.log_path().write_text("What an earlier one said, which is not why.\n")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(1 << 20, 1 << 20, 0))
    error = controller_launch_errors.no_answer_error()
    assert "No space left on device" in error.message
    assert "free some space" in error.cure
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(1 << 30, 0, 1 << 30))
    assert "What an earlier one said" in controller_launch_errors.no_answer_error().message


def test_a_python_that_is_gone_is_no_fault_of_the_data_folder() -> None:
    error = controller_launch_errors.start_error(
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), sys.executable)
    )
    assert error.field == "python"
    assert str(controller_launch.data_dir()) not in str(error)
    assert "moved or deleted" in error.cure
