"""Rootless Docker and an ordinary user's Podman: root's tests start both for a user of their own, which uses them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

import nobody
import pytest
import rootless_life

from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.docker import ordinary_user
from jupyter_smx.testing.docker.fixtures import skip_or_fail
from jupyter_smx.testing.docker.images import PYTHON
from jupyter_smx.testing.docker.ordinary_user import OrdinaryUser
from jupyter_smx.testing.docker.rootless import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WHY_NOT = ordinary_user.unavailable_reason() or (
    "" if nobody.interpreter() else "No Python here that all users may start."
)
# The duration of all tests of the user counts as that of the first one.
pytestmark = [
    pytest.mark.heavy("rootless"),
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
    pytest.mark.timeout(400),
]

_PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "pytest_rerunfailures")
_PATIENCE = 300.0
_BAD = {"failure", "error", "skipped"}


NAMES = [name for name in vars(rootless_life) if name.startswith("test_")]


class Life(NamedTuple):
    """The results of a user's tests at that user's daemon: by name why one failed, "" if it did not."""

    host: str
    verdicts: Mapping[str, str]
    log: str


@pytest.fixture(scope="module")
def life(request: pytest.FixtureRequest) -> Iterator[Life]:
    kind = KINDS[request.param]
    if kind.missing_packages():
        skip_or_fail(f"apt-get install {kind.missing_packages()}")
    user = OrdinaryUser(nobody.PATHS)
    try:
        user.start()
        host = kind.start(user)
        yield live(user, host, request.config.getoption("reruns", None) or 0)
    finally:
        user.stop()


def live(user: OrdinaryUser, host: str, reruns: int) -> Life:
    """Run the user's tests as the user, and read their results."""
    checkout, report, log = user.readable_folders[0], user.home / "report.xml", user.folder / "pytest.log"
    words = [nobody.interpreter(), "-m", "pytest", *(f"-p{name}" for name in (*_PLUGINS, "no:cacheprovider"))]
    words += [f"--rootdir={checkout}", f"--config-file={checkout}/pyproject.toml", f"--reruns={reruns}"]
    words += [f"--junitxml={report}", f"{checkout}/tests/engines/docker_daemons/rootless_life.py"]
    environment = {
        "DOCKER_HOST": host,
        "PYTHONPATH": os.pathsep.join(map(os.fspath, user.readable_folders)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    with contextlib.suppress(subprocess.TimeoutExpired):
        user.popen(words, environment, log).wait(_PATIENCE)
    said = log.read_text(errors="replace")
    assert report.exists(), said
    verdicts = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - what our own pytest wrote
        bad = [part for part in case if part.tag in _BAD]
        verdicts[case.attrib["name"]] = "\n".join(f"{part.tag}: {part.get('message')}\n{part.text}" for part in bad)
    return Life(host, verdicts, said)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("life", KINDS, indirect=True)
def test_a_user_lives_at_a_daemon_of_their_own(life: Life, name: str) -> None:
    assert name in life.verdicts, life.log
    assert not life.verdicts[name], life.verdicts[name]


@pytest.mark.parametrize("life", KINDS, indirect=True)
async def test_a_controller_of_root_is_refused_with_the_cure(life: Life, tmp_path: Path) -> None:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    engine = DockerEngine(data_dir=os.fspath(tmp_path), docker_host=life.host)
    with pytest.raises(RefusedError, match="runs without root's rights, and the controller is root") as told:
        await engine.resolve_image(PYTHON.name, lambda _words: None)
    assert (told.value.field, told.value.value) == ("docker_host", life.host)
    assert "as the daemon's user" in told.value.cure
