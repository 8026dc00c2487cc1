"""Fixtures of a Docker daemon of ours; pytest looks for them in a file of this name."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from fake_dockerd import IMAGE, serving
from fake_engine import live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_dockerd import FakeDockerd

collect_ignore = ["outside_package"]
"""Its tests need the package to be installed: ``test_outside_package.py`` does that, and runs them."""


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDockerd]:
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - imports Docker's library

    monkeypatch.setattr(Images, "cache", {})
    with serving(tmp_path / "d.sock", live) as daemon:
        yield daemon


@pytest.fixture
def inspected_image(daemon: FakeDockerd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the image and the ground have been looked at: what they are is tried elsewhere."""
    from jupyter_smx.engines.docker.images.image import Images, InspectedImage  # noqa: PLC0415 - the same
    from jupyter_smx.engines.docker.preflight import Preflight  # noqa: PLC0415 - imports Docker's library

    del daemon

    async def firm(_ground: object, _image: object) -> None:
        return None

    monkeypatch.setattr(Images, "cache", {IMAGE: InspectedImage(IMAGE, "/opt/conda/bin/python")})
    monkeypatch.setattr(Preflight, "check", firm)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[socket.socket]:
    """Listen where the agent of the host of ``HANDLE`` does."""
    folder = tmp_path / "clusters" / "c1" / "algo-1"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as agent:
        here = os.open(folder, os.O_PATH)
        agent.bind(f"/proc/self/fd/{here}/agent.sock")
        os.close(here)
        agent.listen(8)
        agent.settimeout(10)
        yield agent
