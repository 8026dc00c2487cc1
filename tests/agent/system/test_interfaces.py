"""The interface that a host's servers bind to is the one that has its address."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jupyter_smx.agent.system.resources import network


def own_addresses() -> list[tuple[str, str]]:
    import psutil  # noqa: PLC0415 - the agent has none, so this looks another way

    return [
        (name, found.address)
        for name, addresses in psutil.net_if_addrs().items()
        for found in addresses
        if found.family is socket.AF_INET
    ]


@pytest.mark.parametrize(("interface", "address"), own_addresses())
def test_an_interface_is_found_by_its_address(interface: str, address: str) -> None:
    assert network.find_interface(address) == interface


@pytest.mark.parametrize("address", ["algo-1", "192.0.2.77", "", "::1"])
def test_what_no_interface_has_gets_the_one_of_sagemaker_or_the_loopback(address: str) -> None:
    assert network.find_interface(address) == ("eth0" if Path("/sys/class/net/eth0").exists() else "lo")
