"""A simulation for tests of the core: real decisions and records, a fake world, a clock that takes no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation() as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)
