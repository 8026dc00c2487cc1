"""A daemon that goes away at any moment of a launch or a release, before or after it executed the request."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fake_engine import end_of, engine_at, up, wanted

from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.docker.daemon import resolver
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from fake_dockerd import FakeDockerd

pytestmark = pytest.mark.heavy("docker")

MOMENTS = 40
"""More requests than a launch and a release send."""
EMPTY = Handle(engine="docker", cluster="c1")


class Away:
    """From the ``moment``-th request on, the daemon closes the connection, after (``did``) or before executing it."""

    def __init__(self, daemon: FakeDockerd, monkeypatch: pytest.MonkeyPatch, *, did: bool) -> None:
        self._daemon = daemon
        self._patch = monkeypatch
        self._did = did
        self._answer = daemon.answer
        self._left = 0
        self._lock = threading.Lock()
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def at(self, moment: int, *, waits: bool = False) -> None:
        """Begin at that moment; with ``waits``, clients get no reply until it is over."""
        self._left = moment
        self.begun.clear()
        self.goes_on.clear()
        self._patch.setattr(self._daemon, "answer", partial(self._hang_up, waits=waits))

    def _hang_up(self, what: str, body: dict[str, Any], *, waits: bool) -> tuple[int, object]:
        with self._lock:
            self._left -= 1
            left = self._left
        if left > 0 or (left == 0 and self._did):
            said = self._answer(what, body)
            if left > 0:
                return said
        self.begun.set()
        if waits:
            self.goes_on.wait(30)
        raise ConnectionAbortedError

    def is_over(self) -> None:
        self._patch.setattr(self._daemon, "answer", self._answer)
        self.goes_on.set()


@pytest.fixture(params=[False, True], ids=["before", "after"])
def away(daemon: FakeDockerd, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Away:
    return Away(daemon, monkeypatch, did=request.param)


@pytest.fixture(autouse=True)
def _name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let containers reach the machine's name servers in any network."""
    monkeypatch.setattr(resolver, "are_name_servers_reachable", lambda: True)


@pytest.mark.usefixtures("inspected_image")
@pytest.mark.parametrize("separate", [False, True])
async def test_a_launch_that_breaks_off_leaves_nothing(
    daemon: FakeDockerd, tmp_path: Path, away: Away, *, separate: bool
) -> None:
    ends: list[BaseException | None] = []
    for moment in range(1, MOMENTS):
        folder = tmp_path / str(moment)
        folder.mkdir()
        away.at(moment)
        engine = engine_at(daemon, folder, launch_timeout=5.0, separate_network=separate)
        ends.append(await end_of(up(engine, wanted())))
        away.is_over()
        await engine_at(daemon, folder).release(EMPTY)
        assert (daemon.containers, daemon.networks) == ({}, {}), moment
        if ends[-1] is None:
            break
    assert ends[-1] is None, "there are more moments"
    assert {type(end) for end in ends[:-1]} == {UnavailableError}


@pytest.mark.usefixtures("inspected_image")
@pytest.mark.parametrize(("separate", "network"), [(False, "bridge"), (True, "jupyter-smx-c1")])
async def test_a_launch_whose_controller_dies_at_any_moment_is_ended_by_the_next_one(
    daemon: FakeDockerd, tmp_path: Path, away: Away, network: str, *, separate: bool
) -> None:
    for moment in range(1, MOMENTS):
        folder = tmp_path / str(moment)
        folder.mkdir()
        away.at(moment, waits=True)
        launch = asyncio.create_task(up(engine_at(daemon, folder, separate_network=separate), wanted()))
        await eventually(lambda launch=launch: launch.done() or away.begun.is_set(), "it got so far")
        is_whole = launch.done()
        launch.cancel()
        await asyncio.wait({launch})
        away.is_over()
        engine = engine_at(daemon, folder, separate_network=separate)
        handle = await up(engine, wanted())
        assert await engine.observe_all([handle]) == [Observation.RUNNING]
        assert len(handle.hosts) == len(daemon.containers) == 1
        assert [[*one["networks"]] for one in daemon.containers.values()] == [[network]]
        await engine.release(handle)
        assert (daemon.containers, daemon.networks) == ({}, {}), moment
        if is_whole:
            break
    assert is_whole, "there are more moments"


@pytest.mark.usefixtures("inspected_image")
async def test_a_release_that_breaks_off_is_ended_by_the_next_one(
    daemon: FakeDockerd, tmp_path: Path, away: Away
) -> None:
    ends: list[BaseException | None] = []
    for moment in range(1, MOMENTS):
        engine = engine_at(daemon, tmp_path / str(moment), release_timeout=5.0, separate_network=True)
        handle = await up(engine, wanted())
        away.at(moment)
        ends.append(await end_of(engine.release(handle)))
        away.is_over()
        await engine.release(handle)
        assert (daemon.containers, daemon.networks) == ({}, {}), moment
        if ends[-1] is None:
            break
    assert ends[-1] is None, "there are more moments"
    assert {type(end) for end in ends[:-1]} == {UnavailableError}
