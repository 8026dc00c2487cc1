"""Jobs on several real hosts: names, ports, groups, ends, blame, artefacts, logs and warm pools."""

from __future__ import annotations

import json
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.logs.reader import follow, read_all
from jupyter_smx.model.errors import ResourceLimitError, ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from world import Ran, World

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="hosts have names of their own on Linux")

TWO = (InstanceGroup(instance_count=2),)
GROUPS = (InstanceGroup(name="data", instance_count=2), InstanceGroup(name="dnn"))

MEET = """
import json, os, socket, threading
me, hosts = os.environ["SM_CURRENT_HOST"], json.loads(os.environ["SM_HOSTS"])
if socket.gethostname() != me:
    print("no names here")
    raise SystemExit(0)
server = socket.create_server((me, 7777))
def answer():
    for _ in hosts:
        with server.accept()[0] as visitor:
            visitor.sendall(me.encode())
answering = threading.Thread(target=answer)
answering.start()
def ask(host):
    while True:
        try:
            with socket.create_connection((host, 7777), timeout=20) as found:
                return found.recv(99).decode()
        except ConnectionRefusedError:
            pass
print("met", json.dumps({host: ask(host) for host in hosts}), len({socket.gethostbyname(host) for host in hosts}))
answering.join()
"""

DESCRIBE = """
import json, os
config = json.load(open(os.environ["SM_INPUT_CONFIG_DIR"] + "/resourceconfig.json"))
names = ("SM_HOSTS", "SM_CURRENT_INSTANCE_GROUP_HOSTS", "SM_INSTANCE_GROUPS", "SM_IS_HETERO")
print("config", json.dumps([config, {name: json.loads(os.environ[name]) for name in names}]))
"""


@pytest.fixture
def world(shared_world: World) -> World:
    """Provide the world of the module."""
    return shared_world


def host_log(ran: Ran, host: str) -> str:
    return ran.world.client.log(ran.id, host, 0).data.decode()


def said(ran: Ran, host: str, word: str) -> Any:
    (line,) = [line for line in host_log(ran, host).splitlines() if line.startswith(word + " ")]
    return json.loads(line.partition(" ")[2])


def ends(ran: Ran) -> dict[str, tuple[str, int | None]]:
    return {end.host: (end.cause, end.exit_code) for end in ran.job().hosts}


def only_on(host: str, body: str) -> str:
    return f"if os.environ['SM_CURRENT_HOST'] == {host!r}:\n" + "".join(f"    {line}\n" for line in body.splitlines())


def test_all_hosts_have_servers_on_one_port_and_are_reached_by_their_names(pools: World) -> None:
    ran = pools.run(MEET, instance_groups=GROUPS)
    if "no names here" in host_log(ran, "algo-1"):
        pytest.skip("this machine allows no namespaces, so hosts have no names")
    for host in ("algo-1", "algo-2", "algo-3"):
        (line,) = [line for line in host_log(ran, host).splitlines() if line.startswith("met")]
        assert line == 'met {"algo-1": "algo-1", "algo-2": "algo-2", "algo-3": "algo-3"} 3', host


def test_every_host_is_told_of_all_groups_and_their_hosts(pools: World) -> None:
    ran = pools.run(DESCRIBE, instance_groups=GROUPS)
    mine = {"algo-1": "data", "algo-2": "data", "algo-3": "dnn"}
    members = {"data": ["algo-1", "algo-2"], "dnn": ["algo-3"]}
    for host, group in mine.items():
        config, variables = said(ran, host, "config")
        assert (config["current_host"], config["current_group_name"]) == (host, group)
        assert config["hosts"] == ["algo-1", "algo-2", "algo-3"]
        rows = [
            {"instance_group_name": name, "instance_type": "local", "hosts": hosts} for name, hosts in members.items()
        ]
        assert config["instance_groups"] == rows
        assert variables == {
            "SM_HOSTS": ["algo-1", "algo-2", "algo-3"],
            "SM_CURRENT_INSTANCE_GROUP_HOSTS": members[group],
            "SM_INSTANCE_GROUPS": ["data", "dnn"],
            "SM_IS_HETERO": True,
        }


def test_a_job_ends_when_its_last_host_does(pools: World) -> None:
    gate = pools.gate()
    wait = f"import time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.002)"
    ran = pools.submit(only_on("algo-2", wait), instance_groups=TWO)
    ran.until_it_says("done")
    assert ran.job().ended_at is None
    gate.touch()
    assert ran.wait().state.value == "Completed"
    assert ends(ran) == {"algo-1": ("exit", 0), "algo-2": ("exit", 0)}


def test_the_host_that_fails_is_blamed_and_the_others_are_told_first_and_ended_then(pools: World) -> None:
    gate = pools.gate()
    told = (
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('told'))\n"
        f"open({str(gate)!r}, 'w').close()\n"
        "while True: signal.pause()"
    )
    fail = f"import time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.002)\nraise SystemExit(3)"
    ran = pools.submit(only_on("algo-1", told) + only_on("algo-2", fail), instance_groups=TWO)
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "ExitCode 3" in job.failure_reason.splitlines()
    assert ends(ran) == {"algo-1": ("stopped", None), "algo-2": ("exit", 3)}
    assert "told" in host_log(ran, "algo-1").split()
    assert {end.host: end.signal for end in job.hosts} == {"algo-1": 9, "algo-2": None}


def test_what_all_hosts_made_is_merged(pools: World) -> None:
    ran = pools.run(
        "host = os.environ['SM_CURRENT_HOST']\n"
        "for name in (host, 'same'): open(os.path.join(os.environ['SM_MODEL_DIR'], name), 'w').write(host)",
        instance_groups=TWO,
    )
    (artifact,) = [one for one in ran.job().artifacts if one.name == "model.tar.gz"]
    with tarfile.open(artifact.path) as archive:
        found = {member.name: archive.extractfile(member).read().decode() for member in archive if member.isfile()}  # type: ignore[union-attr]
    assert {name: found[name] for name in ("algo-1", "algo-2")} == {"algo-1": "algo-1", "algo-2": "algo-2"}
    assert found["same"] in ("algo-1", "algo-2")


def test_each_host_has_a_log_which_is_shown_with_its_group(pools: World) -> None:
    ran = pools.run("print('I am', os.environ['SM_CURRENT_HOST'])", instance_groups=GROUPS)
    shown = "".join(read_all(pools.client, ran.job()))
    for number, group in ((1, "data"), (2, "data"), (3, "dnn")):
        assert f"==> algo-{number} ({group}) <==\nbegun\nI am algo-{number}\n" in shown
    followed: list[str] = []
    follow(pools.client, ran.job(), followed.append)
    assert "algo-3 (dnn) | I am algo-3\n" in "".join(followed)
    plain = pools.run("pass", instance_groups=TWO)
    assert "==> algo-2 <==\n" in "".join(read_all(pools.client, plain.job()))


def test_a_pool_of_groups_is_taken_again_by_its_key(world: World) -> None:
    first = world.run(instance_groups=GROUPS)
    again = world.run(instance_groups=GROUPS)
    assert again.job().cluster == first.job().cluster
    helpers = (InstanceGroup(name="data", instance_count=2, until="dnn"), GROUPS[1])
    helped = world.run(instance_groups=helpers)
    assert helped.job().cluster == first.job().cluster, "who helps whom is the job's own matter"
    other = world.run(instance_groups=(InstanceGroup(name="data"), InstanceGroup(name="dnn", instance_count=2)))
    assert other.job().cluster != first.job().cluster
    assert other.why().startswith("Cold: ")


def test_more_hosts_or_groups_than_there_can_be_are_refused_at_once(pools: World) -> None:
    with pytest.raises(ResourceLimitError, match=r"This machine runs at most 6 hosts \(ControllerApp\.max_hosts\)"):
        pools.submit(
            instance_groups=(InstanceGroup(name="a", instance_count=2), InstanceGroup(name="b", instance_count=5))
        )
    with pytest.raises(ValidationError, match="A job has 1 to 5 groups"):
        pools.submit(instance_groups=tuple(InstanceGroup(name=f"g{number}") for number in range(6)))
