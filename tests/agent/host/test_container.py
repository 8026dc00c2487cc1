"""An agent in a container: nothing is mounted by it, all of the container is its own, and memory is emptied by hand."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_smx.agent import startup
from jupyter_smx.agent.channels import fastfile
from jupyter_smx.agent.channels.channel_types import ChannelCapabilities, StageResult
from jupyter_smx.agent.host import config as hostconfig
from jupyter_smx.agent.host.host import host_info
from jupyter_smx.agent.host.host_isolation import Isolation
from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.files.host_folder import CONFIGS, SKELETON, HostFolder
from jupyter_smx.agent.system.isolation import host_cleanup, mounts, namespace
from jupyter_smx.agent.wire import PROTOCOL

NAMES = {"algo-1": "algo-1", "algo-2": "algo-2"}
WHOLE = {"protocol": PROTOCOL, "cluster": "c", "host": "algo-1", "hosts": [*NAMES], "addresses": NAMES}


def config(**said: Any) -> hostconfig.HostConfig:
    return hostconfig.parse({**WHOLE, "contained": True, "isolate": False, **said})


@pytest.fixture
def folder(tmp_path: Path) -> HostFolder:
    """Give a host's folder, whose configurations are elsewhere."""
    found = HostFolder(str(tmp_path / "host"))
    (tmp_path / "host").mkdir()
    found.make()
    for name in CONFIGS:
        (tmp_path / "memory" / name).mkdir(parents=True)
    found.unmovable = tuple(str(tmp_path / "memory" / name) for name in CONFIGS)
    return found


def test_a_host_is_contained_only_where_its_engine_says_so() -> None:
    assert config().contained
    assert not hostconfig.parse({"protocol": PROTOCOL, "cluster": "c", "host": "algo-1"}).contained


SHOWN = "/tmp"  # noqa: S108 - the container's own
MOUNTS = r"""
36 35 0:31 / /tmp rw,relatime - ext4 /dev/a rw
37 36 0:32 /v /tmp/a\040b/c rw - ext4 /dev/a rw
38 36 0:33 /v /tmp/a\040b/d rw shared:1 - ext4 /dev/a rw
39 36 0:34 / /tmp/nvidia-mps ro - tmpfs none rw
40 36 0:34 / /tmpx/e ro - tmpfs none rw
torn
"""


def test_what_others_have_mounted_among_temporary_files_stays_and_is_no_leftover(folder: HostFolder) -> None:
    folder.mounted_names = mounts.mounts_in(SHOWN, MOUNTS)
    assert folder.mounted_names == ("a b", "nvidia-mps")
    for name in ("a b", "left"):
        Path(folder.tmp, name).mkdir()
    assert host_cleanup._describe_temporary_files(folder) == ["1 temporary file(s) or folder(s) were removed: left"]
    host_cleanup.reset_folders(folder, "job")
    assert [path.name for path in Path(folder.tmp).iterdir()] == ["a b"]
    assert host_cleanup._describe_temporary_files(folder) == []


def test_it_enters_no_namespace_whatever_else_it_is_told(folder: HostFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "probe", lambda *_: pytest.fail("it tried to have a world of its own"))
    found = startup._isolate(config(isolate=True), folder)
    assert found.mode == "container"
    assert found.has_own_namespaces()
    assert found.has_own_tmp()
    assert found.is_intact()
    assert not found.hidden
    assert folder.queues == "/dev/mqueue"
    assert folder.unmovable == ("/opt/ml/input/config", "/opt/ml/config")


def test_jobs_are_told_of_the_containers_own_folders_and_names() -> None:
    isolation = Isolation("container", "")
    place = host_info(config(), HostFolder("/run/smx"), isolation)
    assert place.base == ML
    assert [place.address_of(host) for host in place.hosts] == ["algo-1", "algo-2"]


@pytest.mark.parametrize("address", ["127.0.0.1", "algo-1"])
def test_servers_bind_to_what_the_other_hosts_look_for(address: str) -> None:
    place = host_info(config(addresses={**NAMES, "algo-1": address}), HostFolder("/x"), Isolation("container", ""))
    has_network = Path("/sys/class/net/eth0").exists()
    assert place.interface == ("lo" if address == "127.0.0.1" or not has_network else "eth0")


def test_a_network_that_comes_after_the_agent_is_known_to_it() -> None:
    place = host_info(config(addresses=NAMES, interface="net7"), HostFolder("/x"), Isolation("container", ""))
    assert place.interface == "net7"
    alone = {"algo-1": "127.0.0.1"}
    place = host_info(config(addresses=alone, interface="net7"), HostFolder("/x"), Isolation("container", ""))
    assert place.interface == "lo"


def test_what_a_job_left_in_memory_is_gone_and_the_folders_stay(folder: HostFolder) -> None:
    places = [Path(path) for path in folder.unmovable]
    for place in places:
        (place / "a" / "b").mkdir(parents=True)
        (place / "a" / "b" / "c").write_text("secret")
        (place / "link").symlink_to("/nowhere")
        (place / "a").chmod(0)
    host_cleanup.reset_folders(folder, "job")
    assert [[*place.iterdir()] for place in places] == [[], []]
    assert [name for name in SKELETON if not Path(folder.ml, name).is_dir()] == []


def test_a_folder_in_memory_that_a_job_moved_away_spoils_no_host(folder: HostFolder, tmp_path: Path) -> None:
    (tmp_path / "memory" / "input").rename(tmp_path / "elsewhere")
    kept = tmp_path / "memory" / "config" / "x"
    kept.write_text("secret")
    host_cleanup.reset_folders(folder, "job")
    assert not kept.exists()


def test_a_link_in_the_place_of_one_leads_to_nobody_elses_files(folder: HostFolder, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("1")
    place = tmp_path / "memory" / "config"
    place.rmdir()
    place.symlink_to(mine)
    host_cleanup.reset_folders(folder, "job")
    assert (mine / "thesis").exists()


@pytest.mark.parametrize(("where", "sealed"), [("given", "given"), ("elsewhere", "given"), ("given", "")])
def test_links_that_lead_where_nobody_can_write_need_no_warning(tmp_path: Path, where: str, sealed: str) -> None:
    source, target = tmp_path / where, tmp_path / "data"
    source.mkdir()
    (source / "a.csv").write_text("1")
    staged = StageResult(1, {})
    closed = str(tmp_path / sealed) if sealed else ""
    world = ChannelCapabilities(str(tmp_path / "inputs"), reason="a container mounts nothing", sealed=closed)
    fastfile.present_links(staged, {"name": "data", "source": str(source)}, str(target), world)
    assert (target / "a.csv").read_text() == "1"
    warned = [note for note in staged.notes if "the job can write to" in note]
    assert bool(warned) == (where != sealed)


def test_what_it_says_goes_into_the_hosts_folder_for_nobody_else_to_read(tmp_path: Path) -> None:
    """The container's own log would be read by other means than those of each other engine."""
    log = tmp_path / "agent.log"
    program = f"""
import os, sys
from jupyter_smx.agent import serve
serve._redirect_output({str(log)!r})
print("out", flush=True)
print("err", file=sys.stderr)
os.system("echo child")
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert log.read_text() == "out\nerr\nchild\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


_FIRST = """
import sys
from jupyter_smx.agent import serve

def spawn(_entry, environment):
    sys.exit(f'{environment["TMPDIR"]} {environment["JUPYTER_SMX_HOST"]} {"socket" in sys.modules}')

serve.spawn = spawn
serve.main(sys.argv[1:])
"""


def test_its_first_zygote_comes_up_while_the_rest_of_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps({**WHOLE, "contained": True}))
    words = [sys.executable, "-c", _FIRST, os.fspath(tmp_path), "--contained"]
    subprocess.run(words, check=False, env={**os.environ, "JUPYTER_SMX_HOST": "c/algo-1"})
    assert (tmp_path / "agent.log").read_text() == "/tmp c/algo-1 False\n"  # noqa: S108 - the container's own
