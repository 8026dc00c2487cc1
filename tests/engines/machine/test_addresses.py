"""How the hosts of a cluster reach each other: on one machine by the loopback, on several by their addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.contract import tfconfig
from jupyter_smx.agent.paths import PORT, HostInfo
from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.machine.addresses import MachineNetwork, addresses, cluster_port, host_networks
from jupyter_smx.engines.machine.host_folder import description
from jupyter_smx.model.spec.instance import InstanceGroup

CLUSTER = "c" * 12
ADDRESS = st.sampled_from(["10.0.0.1", "10.0.0.2", "192.0.2.2"])
MACHINES = st.lists(st.builds(MachineNetwork, ADDRESS, st.sampled_from(["", "eth1", "ib0"])), min_size=1, max_size=6)


def named(machines: list[MachineNetwork]) -> dict[str, MachineNetwork]:
    return {f"algo-{number}": machine for number, machine in enumerate(machines, 1)}


@given(MACHINES)
def test_hosts_of_one_address_have_the_loopback_and_hosts_of_several_their_own(machines: list[MachineNetwork]) -> None:
    hosts = named(machines)
    found = host_networks(CLUSTER, hosts)
    assert [*found] == [*hosts]
    if len({machine.address for machine in machines}) == 1:
        assert all(network.addresses == addresses(CLUSTER, [*hosts], "linux") for network in found.values())
        assert {network.interface for network in found.values()} == {""}
    else:
        assert all(
            network.addresses == {name: machine.address for name, machine in hosts.items()}
            for network in found.values()
        )
        assert [network.interface for network in found.values()] == [machine.interface for machine in machines]


@given(MACHINES)
def test_all_hosts_agree_on_addresses_and_port(machines: list[MachineNetwork]) -> None:
    first, *others = host_networks(CLUSTER, named(machines)).values()
    assert all((other.addresses, other.port) == (first.addresses, first.port) for other in others)
    assert first.port == cluster_port(CLUSTER) != PORT


@given(MACHINES.filter(lambda machines: len({machine.address for machine in machines}) > 1))
def test_servers_of_two_hosts_with_one_address_have_different_ports(machines: list[MachineNetwork]) -> None:
    found = host_networks(CLUSTER, named(machines))
    hosts = [*found]
    listeners = {(network.addresses[hosts[0]], network.port) for network in found.values()}
    for host, network in found.items():
        info = HostInfo(host, hosts, [], "g", "local", 1, 0, "/data/ml", "", "", network.port, network.addresses)
        listeners.add((info.address_of(host), tfconfig.server_port(info)))
    assert len(listeners) == len(hosts) + 1, "the leader's and a server of each, no two of them at one place"


def test_three_nodes_that_are_one_machine_are_one_machine() -> None:
    nodes = named([MachineNetwork("192.0.2.2", "eth0")] * 3)
    found = host_networks(CLUSTER, nodes)["algo-1"]
    assert len(set(found.addresses.values())) == 3, "their addresses decide, and not the ids of the nodes"
    assert all(address.startswith("127.") for address in found.addresses.values())


def test_an_address_that_is_missing_among_others_is_said() -> None:
    with pytest.raises(ValueError, match="algo-2 are not known"):
        host_networks(CLUSTER, named([MachineNetwork("10.0.0.1"), MachineNetwork("")]))


def test_outside_linux_hosts_of_one_machine_share_its_loopback() -> None:
    found = host_networks(CLUSTER, named([MachineNetwork("10.0.0.1")] * 2), platform="darwin")
    assert set(found["algo-1"].addresses.values()) == {"127.0.0.1"}


def test_an_engine_says_where_its_hosts_are_and_what_fetches_objects_for_them() -> None:
    hosts = tuple(HostSpec(host=name, group="g", instance_type="local", vcpus=1) for name in ("algo-1", "algo-2"))
    request = ClusterRequest(cluster=CLUSTER, hosts=hosts, instance_groups=(InstanceGroup(name="g"),), python="")
    networks = host_networks(CLUSTER, named([MachineNetwork("10.0.0.1", "ib0"), MachineNetwork("10.0.0.2", "ib1")]))
    written = description(
        request,
        hosts[1],
        start_method="fork",
        isolate=True,
        grace=1.0,
        limits={},
        network=networks["algo-2"],
        transfer_python="",
    )
    assert written["addresses"] == {"algo-1": "10.0.0.1", "algo-2": "10.0.0.2"}
    assert (written["interface"], written["courier"]) == ("ib1", "")
