from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.controller.singleton import ListenSocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from serving import World


STRANGER = """
import http.client, os, socket, sys
os.setgid(65534); os.setuid(65534)
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request(sys.argv[2], sys.argv[3])
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("DELETE", "/v1/jobs/train"), ("GET", "/x")]
)
async def test_another_user_is_refused_even_where_the_folder_is_open(world: World, method: str, target: str) -> None:
    # The modes would already keep a stranger out; here the user opened every door by mistake.
    with tempfile.TemporaryDirectory(dir="/tmp") as everybodys:
        os.chmod(everybodys, 0o755)  # noqa: PTH101, S103
        door = Path(everybodys) / "s"
        door.hardlink_to(world.socket)
        door.chmod(0o666)
        run = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", STRANGER, door, method, target],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
    assert run.stdout.startswith("403"), run.stderr
    assert "user 65534" in run.stdout


def test_a_door_that_another_controller_replaced_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    old, new = ListenSocket(path), ListenSocket(path)
    old.publish()
    new.publish()
    old.unpublish()
    old.close()
    assert path.exists()
    new.close()
    assert list(tmp_path.iterdir()) == []


def test_a_door_can_be_hidden_and_shown(tmp_path: Path) -> None:
    door = ListenSocket(tmp_path / "s")
    assert not door.path.exists()
    assert [oct(entry.stat().st_mode & 0o777) for entry in tmp_path.iterdir()] == ["0o600"]
    connects: Callable[[], int] = lambda: socket.socket(socket.AF_UNIX).connect_ex(str(door.path))  # noqa: E731
    assert connects() != 0
    door.publish()
    assert connects() == 0
    door.unpublish()
    assert connects() != 0
    door.publish()
    assert connects() == 0
    door.close()
    door.close()
    assert list(tmp_path.iterdir()) == []
