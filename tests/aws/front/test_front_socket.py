"""Requests by the unix socket began at a port of a job's host: they are refused like others, but for that port."""

from __future__ import annotations

import pytest

from jupyter_smx.aws.guard import find_refusal

PORT = 4711


@pytest.mark.parametrize("host", ["127.0.0.1:4711", "localhost:4711", "[::1]:4711"])
def test_the_port_of_the_front_is_right_on_both_ways(host: str) -> None:
    assert find_refusal("GET", {"Host": host}, PORT) is None
    assert find_refusal("GET", {"Host": host}, 0) is None


def test_another_port_of_loopback_is_right_by_the_socket_alone() -> None:
    assert find_refusal("GET", {"Host": "127.0.0.1:9"}, PORT) is not None
    assert find_refusal("GET", {"Host": "127.0.0.1:9"}, 0) is None


@pytest.mark.parametrize("host", ["evil.example:4711", "127.0.0.1", "127.0.0.1:", "127.0.0.1:9.evil.example", ""])
@pytest.mark.parametrize("port", [PORT, 0])
def test_other_names_are_refused_on_both_ways(host: str, port: int) -> None:
    assert find_refusal("GET", {"Host": host}, port) is not None


@pytest.mark.parametrize("port", [PORT, 0])
def test_a_web_page_is_refused_on_both_ways(port: int) -> None:
    assert find_refusal("GET", {"Host": "127.0.0.1:4711", "Origin": "http://evil.example"}, port) is not None
    assert find_refusal("OPTIONS", {"Host": "127.0.0.1:4711"}, port) is not None
