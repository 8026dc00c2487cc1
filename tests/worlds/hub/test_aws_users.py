"""Two accounts of one machine, each with a front for clients of AWS: own port, key, buckets and jobs, and no others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shared_machine
from hub_packages import skip_or_fail

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

USERS = {"ada": 54_331, "bob": 54_332}
PROGRAM = Path(__file__).with_name("aws_users.py")
LIMIT = 240.0
READABLE = (Path(__file__).parents[3], Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
REFUSALS = {
    "sts": "InvalidClientTokenId",
    "sagemaker": "UnrecognizedClientException",
    "s3": "InvalidAccessKeyId",
    "no key": "403",
    "key file": "PermissionError",
    "bucket": "PermissionError",
    "object": "PermissionError",
    "log": "PermissionError",
    "records": "PermissionError",
    "variables of the front": "PermissionError",
}


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, Any]]:
    """Return what each user has and reaches, by name."""
    if reason := shared_machine.unavailable_reason():
        skip_or_fail(reason)
    machine = shared_machine.SharedMachine(USERS)
    file, log = machine.folder / "results.json", machine.folder / "log"
    accounts = [f"{each.name}:{each.uid}:{each.home}" for each in machine.accounts.values()]
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        machine.start([sys.executable, os.fspath(PROGRAM), os.fspath(file), *accounts], environment, READABLE, log)
        eventually_blocking(file.exists, "both users are done", within=LIMIT)
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        assert "error" not in found, found["error"]
        yield found
    finally:
        machine.stop()


def test_each_user_has_a_front_and_runs_own_jobs_as_the_own_account(results: dict[str, Any]) -> None:
    for name, uid in USERS.items():
        own = results[name]
        assert (own["key_mode"], own["key_owner"]) == ("0o600", uid)
        assert f"/home/{name}/" in own["folder"]
        assert (own["status"], own["failure"]) == ("Completed", "")
        assert (own["account"], own["jobs"]) == (str(uid), ["own"])
    assert results["ada"]["url"] != results["bob"]["url"]


@pytest.mark.parametrize("name", USERS)
def test_the_front_and_the_files_of_the_other_user_are_closed(results: dict[str, Any], name: str) -> None:
    assert results[name]["visits"] == REFUSALS
