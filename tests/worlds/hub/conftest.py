"""A hub with two users for all tests of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import shared_machine
from hub_packages import hub_packages, skip_or_fail
from hub_process import HubProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = {"ada": 54_331, "bob": 54_332}
"""Numbers that no account of a usual machine has."""


@pytest.fixture(scope="session")
def hub() -> Iterator[HubProcess]:
    """Give a hub without any server; servers that a test starts stay for the next one."""
    if reason := shared_machine.unavailable_reason():
        skip_or_fail(reason)
    hub = HubProcess(hub_packages(), USERS)
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()
