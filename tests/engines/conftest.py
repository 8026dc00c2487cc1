"""Fixtures of a Docker daemon of ours; pytest looks for them in a file of this name."""

from __future__ import annotations

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
