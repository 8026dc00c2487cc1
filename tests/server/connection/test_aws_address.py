"""Pages get the address of the front for clients of AWS of this data folder while it runs, whatever started it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws_endpoint.process import lock_path
from jupyter_smx.data_folder.singleton_lock import SingletonLock

if TYPE_CHECKING:
    from fake_controller import FakeController

URL = "http://127.0.0.1:40123"


async def addresses(fetch: Any) -> tuple[str, str]:
    """Return what the state of the controller and the changes have."""
    state, changes = await fetch("jupyter-smx", "controller"), await fetch("jupyter-smx", "changes")
    return json.loads(state.body)["aws_url"], changes.headers["X-Smx-Aws"]


async def test_pages_get_the_address_of_a_front_while_it_runs(jp_fetch: Any) -> None:
    assert await addresses(jp_fetch) == ("", "")
    lock = SingletonLock(lock_path())
    assert lock.acquire()
    try:
        assert await addresses(jp_fetch) == ("", ""), "it does not listen yet"
        lock.write("local", "note", "40123")
        assert await addresses(jp_fetch) == (URL, URL)
    finally:
        lock.release()
    assert await addresses(jp_fetch) == ("", "")


async def test_a_controller_changes_nothing_of_it(jp_fetch: Any, controller: FakeController) -> None:
    controller.answer("GET", "/v1/changes", 200, {"events": [], "seq": 1, "reset": False})
    lock = SingletonLock(lock_path())
    assert lock.acquire()
    try:
        lock.write("local", "note", "40123")
        assert await addresses(jp_fetch) == (URL, URL)
    finally:
        lock.release()


async def test_a_front_of_an_earlier_version_has_no_address(jp_fetch: Any) -> None:
    lock = SingletonLock(lock_path())
    assert lock.acquire()
    try:
        lock.write("local", "note")
        assert await addresses(jp_fetch) == ("", "")
    finally:
        lock.release()
