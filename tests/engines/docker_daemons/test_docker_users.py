"""Users in containers: as the administrator configures them, as far as the user of the controller has the rights."""

from __future__ import annotations

import grp
import json
import os
import pwd
from typing import TYPE_CHECKING

import nobody
import pytest
from traitlets import TraitError

from jupyter_smx.engines.docker.daemon import users

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("user", ["1000", "nobody", "1000:", ":5", "1:2:3", "-1:5", "1000:staff", " 1:1", "१:१"])
def test_a_user_that_is_no_pair_of_numbers_is_refused_at_once(tmp_path: Path, user: str) -> None:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    with pytest.raises(TraitError, match=r"DockerEngine\.user: .* is not uid:gid") as told:
        DockerEngine(data_dir=os.fspath(tmp_path), user=user)
    assert "1000:1000" in str(told.value)


def test_a_user_that_is_one_is_taken(tmp_path: Path) -> None:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    for user in ("", "0:0", "4321:1234"):
        assert DockerEngine(data_dir=os.fspath(tmp_path), user=user).user == user


def test_where_root_runs_the_controller_jobs_have_a_number_of_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accounts, groups = {60_600, 60_601}, {60_602}

    def of(known: set[int]) -> Callable[[int], int]:
        return lambda number: {one: one for one in known}[number]

    monkeypatch.setattr(pwd, "getpwuid", of(accounts))
    monkeypatch.setattr(grp, "getgrgid", of(groups))
    assert users.unused_id.__wrapped__() == 60_603
    accounts.clear()
    assert users.unused_id.__wrapped__() == 60_600


LEARN = """
import asyncio, json, sys
from jupyter_smx.engines.docker.daemon import daemon_info
from jupyter_smx.engines.docker.daemon.users import ContainerUser
from jupyter_smx.model.errors import RefusedError

class Daemon:
    def __init__(self, options):
        self.options = options
    async def detect_kind(self):
        return daemon_info.parse_info({"SecurityOptions": self.options})

said = {}
for user in ("", "4321:1234", "65534:65534", "0:0"):
    for kind, options in (("usual", ["name=seccomp"]), ("rootless", ["name=seccomp", "name=rootless"])):
        users = ContainerUser(user)
        try:
            asyncio.run(users.detect(Daemon(options)))
            said[f"{user} {kind}"] = [users.name(), users.reader().uid]
        except RefusedError as error:
            said[f"{user} {kind}"] = error.field
print(json.dumps(said))
"""


@pytest.mark.skipif(not nobody.interpreter(), reason="only root can try what others may")
def test_who_is_not_root_runs_jobs_as_nobody_else() -> None:
    found = json.loads(nobody.run(LEARN))
    own = nobody.NOBODY
    assert found == {
        " usual": [f"{own}:{own}", own],
        " rootless": ["0:0", own],
        "4321:1234 usual": "user",
        "4321:1234 rootless": "user",
        f"{own}:{own} usual": [f"{own}:{own}", own],
        f"{own}:{own} rootless": "user",
        "0:0 usual": "user",
        "0:0 rootless": ["0:0", own],
    }
