"""Ports at which the hosts of a job on several machines meet: open while a host waits, for hosts of the job only."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jupyter_smx.agent.contract import tfconfig
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.launchers import address_rendezvous, host_connection
from jupyter_smx.agent.launchers.address_rendezvous import AddressRendezvous
from jupyter_smx.agent.launchers.rendezvous import FolderRendezvous
from jupyter_smx.agent.paths import ML, HostInfo

HOSTS = ["algo-1", "algo-2"]
KEY = "ab" * 32


def host_info(host: str = "algo-1", *, base: str = ML, port: int = 12_000, **addresses: str) -> HostInfo:
    found = {name.replace("_", "-"): address for name, address in addresses.items()}
    return HostInfo(host, [*found], [], "g", "local", 1, 0, base=base, port=port, addresses=found)


@pytest.fixture
def port() -> int:
    """Give a port that is free at this moment."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def place(host: str, port: int, key: str = KEY, **fields: Any) -> AddressRendezvous:
    return AddressRendezvous(key, host, {"algo-2": ("127.0.0.1", port)}, **fields)


def test_a_host_is_found_while_it_listens_and_not_before_or_after(port: int) -> None:
    leader, worker = place("algo-1", port), place("algo-2", port)
    assert leader.connect("algo-2") is None
    with worker.listen() as listener, ThreadPoolExecutor() as pool:
        accepted = pool.submit(worker.accept, listener)
        ours, theirs = leader.connect("algo-2"), accepted.result()
        assert ours is not None
        assert theirs is not None
        with ours.socket, theirs.socket:
            ours.send({"command": "x"})
            assert theirs.receive() == {"command": "x"}
            assert theirs.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert leader.connect("algo-2") is None
    assert (
        leader.shared_secret("spark") == worker.shared_secret("spark") != place("algo-1", port, "x").shared_secret("")
    )


def test_a_stranger_is_turned_away_and_the_next_connection_counts(port: int) -> None:
    worker = place("algo-2", port)
    with worker.listen() as listener, ThreadPoolExecutor() as pool:
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.shutdown(socket.SHUT_WR)
            assert worker.accept(listener) is None
        refused = pool.submit(worker.accept, listener)
        assert place("algo-1", port, "another key").connect("algo-2") is None
        assert refused.result() is None
        accepted = pool.submit(worker.accept, listener)
        ours, theirs = place("algo-1", port).connect("algo-2"), accepted.result()
        assert ours is not None
        assert theirs is not None
        ours.socket.close()
        theirs.socket.close()


def test_a_machine_out_of_reach_is_refused_after_a_while_and_one_that_is_not_ready_is_not(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    now = [0.0]
    leader = place("algo-1", port, clock=lambda: now[0])

    def connect(error: OSError | None) -> None:
        def raising(_self: socket.socket, _address: object) -> None:
            raise error or ConnectionRefusedError

        with monkeypatch.context() as patch:
            patch.setattr(address_rendezvous.socket.socket, "connect", raising)
            assert leader.connect("algo-2") is None

    connect(TimeoutError())
    now[0] = 19.0
    connect(OSError(113, "No route to host"))
    connect(None)  # the machine answers: it is only not ready
    now[0] = 3_000.0
    connect(None)
    connect(TimeoutError())
    now[0] = 3_020.0
    with pytest.raises(RefusalError, match=rf"algo-1 cannot reach algo-2 at 127\.0\.0\.1, port {port} \(no answer\)"):
        connect(TimeoutError())


def test_a_machine_that_answered_in_between_is_not_out_of_reach(port: int) -> None:
    now = [0.0]
    leader = place("algo-1", port, clock=lambda: now[0])
    leader._note_unreachable("algo-2", TimeoutError())
    with place("algo-2", port).listen() as listener, ThreadPoolExecutor() as pool:
        connected = pool.submit(leader.connect, "algo-2")
        listener.accept()[0].close()
        assert connected.result() is None, "it did not prove that it is a host of the job"
    now[0] = 3_000.0
    leader._note_unreachable("algo-2", TimeoutError())


def test_silent_visitors_do_not_keep_a_host_from_connecting(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_connection, "VISITOR_TIMEOUT", 0.02)
    worker = place("algo-2", port)
    with worker.listen() as listener, contextlib.ExitStack() as silent, ThreadPoolExecutor() as pool:
        for _ in range(20):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), 1.0))
        connected = pool.submit(place("algo-1", port).connect, "algo-2")
        accepted = [worker.accept(listener) for _ in range(21)]
        ours, theirs = connected.result(), accepted.pop()
        assert accepted == [None] * 20
        assert ours is not None
        assert theirs is not None
        ours.socket.close()
        theirs.socket.close()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "198.51.100.1",
            r"algo-2 cannot listen at 198\.51\.100\.1 \(Cannot assign requested address\).*c\.SshEngine\.machines",
        ),
        ("127.0.0.1", r"port \d+: another program of this machine uses that port\. Start the job again"),
    ],
)
def test_an_address_or_a_port_that_cannot_be_used_is_refused_with_the_cure(address: str, said: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        worker = AddressRendezvous(KEY, "algo-2", {"algo-2": (address, other.getsockname()[1])})
        with pytest.raises(RefusalError, match=said), worker.listen():
            pass


def test_hosts_of_one_machine_meet_in_folders_and_of_several_at_addresses() -> None:
    shared = host_info(algo_1="127.3.4.1", algo_2="127.3.4.2")
    assert isinstance(address_rendezvous.make_rendezvous(shared, KEY, "/job", "a.sock"), FolderRendezvous)
    apart = host_info(algo_1="10.0.0.5", algo_2="10.0.0.6")
    found = address_rendezvous.make_rendezvous(apart, KEY, "/job", "a.sock")
    assert isinstance(found, AddressRendezvous)
    ends = found.settings()["ends"]
    assert [address for address, _port in ends.values()] == ["10.0.0.5", "10.0.0.6"]
    with pytest.raises(RefusalError, match="the controller sent them no key"):
        address_rendezvous.make_rendezvous(apart, "", "/job", "a.sock")


def test_ports_differ_from_each_other_from_the_scripts_and_from_those_of_tensorflow() -> None:
    names = [f"algo-{number}" for number in range(1, 12)]
    place = HostInfo("algo-1", names, [], "g", "local", 1, 0, port=12_000)
    ours = [address_rendezvous.host_port(name, place) for name in names]
    theirs = [tfconfig.port(wanted, name, place) for name in names for wanted in tfconfig.PORTS]
    assert len({12_000, *ours, *theirs}) == 1 + len(ours) + len(theirs)


def test_hosts_that_share_one_of_several_machines_are_named() -> None:
    hosts = ["algo-1", "algo-2", "algo-3"]
    mixed = host_info(algo_1="10.0.0.5", algo_2="10.0.0.6", algo_3="10.0.0.5")
    assert address_rendezvous.hosts_of_one_machine(mixed, hosts) == ["algo-1", "algo-3"]
    assert address_rendezvous.hosts_of_one_machine(mixed, ["algo-2", "algo-3"]) == []
    one = host_info(algo_1="127.3.4.1", algo_2="127.3.4.2")
    assert address_rendezvous.hosts_of_one_machine(one, ["algo-1", "algo-2"]) == []


def test_hosts_of_one_machine_share_its_memory_and_hosts_of_several_share_each_ones() -> None:
    one = host_info(algo_1="127.3.4.1", algo_2="127.3.4.2")
    mixed = host_info(algo_1="10.0.0.5", algo_2="10.0.0.6", algo_3="10.0.0.5")
    assert (one.hosts_per_machine(), mixed.hosts_per_machine(), mixed._replace(host="algo-2").hosts_per_machine()) == (
        2,
        2,
        1,
    )
