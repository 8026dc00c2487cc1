"""Docker that is not installed or not configured is refused at the submission; a daemon that was stopped passes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines.docker import engine as docker_engine
from jupyter_smx.engines.docker.daemon import daemon_client
from jupyter_smx.engines.docker.daemon.installation import check_installed
from jupyter_smx.engines.docker.engine import DockerEngine
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give the environment of a machine without Docker."""
    monkeypatch.setattr(daemon_client, "_find_default_address", lambda _: f"unix://{tmp_path}/docker.sock")
    (tmp_path / "bin").mkdir()
    return {"DOCKER_CONFIG": str(tmp_path), "PATH": str(tmp_path / "bin")}


def test_without_a_program_and_a_socket_it_is_not_installed(bare: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match=r"^--engine: Docker is not installed on this machine\.") as refused:
        check_installed("", bare)
    assert (refused.value.field, refused.value.value, refused.value.transient) == ("engine", "docker", False)
    assert "or set DOCKER_HOST" in refused.value.cure


@pytest.mark.parametrize("program", ["docker", "podman", "dockerd"])
def test_a_daemon_that_was_stopped_passes(bare: dict[str, str], tmp_path: Path, program: str) -> None:
    path = tmp_path / "bin" / program
    path.touch()
    path.chmod(0o755)
    check_installed("", bare)


def test_a_daemon_that_is_configured_passes_whether_it_is_there_or_not(bare: dict[str, str]) -> None:
    check_installed("unix:///nowhere/docker.sock", bare)
    check_installed("", {**bare, "DOCKER_HOST": "unix:///nowhere/docker.sock"})


def test_a_wrong_address_is_refused(bare: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="is not the address of a unix socket"):
        check_installed("", {**bare, "DOCKER_HOST": "tcp://10.0.0.1:2375"})


def test_a_socket_that_is_closed_to_this_user_is_refused(
    bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "docker.sock"
    socket.touch()
    check_installed("", bare)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != str(socket))  # root may use each
    with pytest.raises(RefusedError, match=r"this user may not use the socket of Docker") as refused:
        check_installed("", bare)
    assert "usermod -aG docker" in refused.value.cure


def test_what_was_found_once_is_not_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(docker_engine, "check_installed", lambda configured, _: calls.append(configured))
    engine = DockerEngine(data_dir=str(tmp_path), docker_host="unix:///a.sock")
    engine.check_installed()
    engine.check_installed()
    assert calls == ["unix:///a.sock"]
