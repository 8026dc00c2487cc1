"""File mode on a host with a world of its own: fresh and writable for each job, and copied once."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from far_side import NOBODY

from jupyter_smx.engines.machine import agent_zipapp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent


SEE = """
import json, os
top = os.environ["SM_CHANNEL_TRAIN"]
found = [os.path.join(t, n) for t, _, names in os.walk(top) for n in names]
print(json.dumps({os.path.relpath(path, top): open(path).read() for path in found}))
"""
SPOIL = """
import os, shutil
top = os.environ["SM_CHANNEL_TRAIN"]
open(top + "/a.csv", "a").write("!")
os.unlink(top + "/deep/b.csv")
os.chmod(top + "/deep", 0o700)
shutil.rmtree(top + "/deep")
os.mkdir(top + "/deep")
open(top + "/deep/new", "w").write("new")
os.symlink("/etc/passwd", top + "/link")
"""
ALL = {"a.csv": "alpha", "deep/b.csv": "beta"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in ALL.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1e9, 1e9))
    return tmp_path / "data"


def channel(source: Path, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "train", "source": str(source), **fields}]


def kept(agent: Agent) -> dict[str, int]:
    """Give the inodes of what the host keeps; a file that is copied anew has another one."""
    return {path.name: path.stat().st_ino for path in (agent.folder / "inputs" / "contents").iterdir()}


def test_what_one_job_does_to_its_inputs_no_other_job_sees(isolated: Agent, source: Path) -> None:
    assert isolated.json(SEE, channels=channel(source)) == ALL
    spoilt = isolated.run(SPOIL + SEE, channels=channel(source))
    assert json.loads(spoilt["text"].splitlines()[-1]).keys() == {"a.csv", "deep/new", "link"}
    assert isolated.json(SEE, channels=channel(source)) == ALL
    assert {name: (source / name).read_text() for name in ALL} == ALL, "the user's own files"
    isolated.serves()


def test_a_second_job_copies_nothing(isolated: Agent, source: Path) -> None:
    isolated.run(SEE, channels=channel(source))
    before = kept(isolated)
    assert len(before) == 2
    isolated.run(SPOIL, channels=channel(source))
    assert kept(isolated) == before


def test_a_job_cannot_reach_what_later_jobs_get(isolated: Agent, source: Path) -> None:
    isolated.run(SEE, channels=channel(source))
    content = next(iter((isolated.folder / "inputs" / "contents").iterdir()))
    record = isolated.run(f"open({str(content)!r}, 'a')", channels=channel(source))
    assert "Read-only file system" in record["exception"]["message"]


def test_what_changed_at_its_source_arrives(isolated: Agent, source: Path) -> None:
    isolated.run(SEE, channels=channel(source))
    (source / "a.csv").write_text("gamma")
    (source / "c.csv").write_text("new")
    assert isolated.json(SEE, channels=channel(source)) == {**ALL, "a.csv": "gamma", "c.csv": "new"}


def test_what_jobs_wrote_over_their_inputs_is_gone_after_them(isolated: Agent, source: Path, wait_until: Any) -> None:
    isolated.run(SPOIL, channels=channel(source))
    store = isolated.folder / "inputs"
    wait_until(lambda: not names(store / "layers") and not names(store / "trash"), "layers are deleted")
    assert names(isolated.folder / "ml" / "input" / "data") == []


def test_the_record_names_the_content(isolated: Agent, agent: Agent, source: Path) -> None:
    wish = channel(source)
    seen = [host.run("pass", channels=wish)["inputs"] for host in (isolated, isolated, agent)]
    assert seen[0] == seen[1] == seen[2], "kept or copied, it is the same input"
    assert seen[0][0]["method"] == "content"


def test_a_job_that_is_stopped_while_its_inputs_come_leaves_a_host_that_serves(isolated: Agent, source: Path) -> None:
    for number in range(300):
        (source / f"{number}.bin").write_bytes(os.urandom(1 << 16))
    job, lease = isolated.start(SEE, channels=channel(source))
    isolated.stop(job, lease)
    assert isolated.end_of(job)["cause"] == "stopped"
    isolated.serves()
    assert isolated.json("import os; print(len(os.listdir(os.environ['SM_CHANNEL_TRAIN'])))", channels=channel(source))


def test_two_channels_of_one_job_share_what_is_equal(isolated: Agent, source: Path) -> None:
    wish = [*channel(source), {"name": "test", "source": str(source)}]
    look = "import os; print(open(os.environ['SM_CHANNEL_TEST'] + '/a.csv').read())"
    assert isolated.run(look, channels=wish)["text"] == "alpha\n"
    assert len(kept(isolated)) == 2


def test_a_channel_is_served_long_after_its_source_is_gone_only_to_whom_it_was_given(
    isolated: Agent, source: Path
) -> None:
    isolated.run(SEE, channels=channel(source))
    for name in ALL:
        (source / name).unlink()
    assert isolated.json(SEE, channels=channel(source)) == {}


def test_the_end_of_the_host_takes_what_it_kept_with_it(isolated: Agent, source: Path) -> None:
    isolated.run(SEE, channels=channel(source))
    isolated.client.send("end")
    assert isolated.wait() == 0
    assert not list((isolated.folder / "inputs").rglob("*.csv"))
    assert {name: (source / name).read_text() for name in ALL} == ALL


def test_links_of_a_source_are_followed(isolated: Agent, agent: Agent, source: Path) -> None:
    (source / "again").symlink_to("deep")
    (source.parent / "other").mkdir()
    (source.parent / "other" / "c.csv").write_text("gamma")
    (source / "deep" / "linked").symlink_to("../../other")
    linked = {"again/b.csv": "beta", "again/linked/c.csv": "gamma", "deep/linked/c.csv": "gamma"}
    for host in (isolated, agent):
        assert host.json(SEE, channels=channel(source)) == {**ALL, **linked}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start an agent of another user")
def test_a_host_of_a_user_without_rights_keeps_and_shows_inputs_as_well(
    start_agent: Callable[..., Agent], far_folder: Path
) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("this machine has no Python that every user may run")
    far_folder.chmod(0o777)
    (far_folder / "data").mkdir()
    (far_folder / "data" / "a.csv").write_text("alpha")
    os.utime(far_folder / "data" / "a.csv", (1e9, 1e9))
    options = {"user": NOBODY, "program": (python, "-I", str(agent_zipapp.write_archive(far_folder)))}
    home = {"HOME": str(far_folder)}
    user = start_agent(options=options, isolate=True, parent=far_folder, environment=home)
    assert user.greeting["isolation"]["mode"] == "namespace"
    spoil = "import os; open(os.environ['SM_CHANNEL_TRAIN'] + '/a.csv', 'a').write('!')\n"
    for _time in range(2):
        assert user.json(spoil + SEE, channels=channel(far_folder / "data")) == {"a.csv": "alpha!"}
    assert len(kept(user)) == 1
    record = user.run(spoil, channels=channel(far_folder / "data", mode="FastFile"))
    assert record["exception"]["type"] in ("OSError", "PermissionError")
    reach = f"open({str(user.folder / 'inputs' / 'x')!r}, 'w')"
    assert "Read-only file system" in user.run(reach)["exception"]["message"]
