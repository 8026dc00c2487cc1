"""Whether containers in the default network of a daemon get all name servers of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.engines.docker.daemon.resolver import are_name_servers_reachable

if TYPE_CHECKING:
    from pathlib import Path

COPIED = ["10.0.0.2", "192.168.1.1", "8.8.8.8"]
OMITTED = ["127.0.0.1", "127.0.1.1", "::1", "fe80::1%eth0", "fd00::53", "::ffff:10.0.0.2", "0.0.0.0", "name", "10.0.0"]  # noqa: S104 - an entry of resolv.conf
SYSTEMD = "127.0.0.53"


def write_servers(path: Path, servers: list[str]) -> str:
    path.write_text("".join(f"nameserver {server}\n" for server in servers))
    return str(path)


@pytest.mark.parametrize(
    ("own", "systemds", "expected"),
    [
        ("nameserver 10.0.0.2\nsearch lab\n", None, True),
        ("# dnsmasq\nnameserver 127.0.0.1\n", None, False),
        ("#nameserver 127.0.0.1\n;nameserver ::1\nnameserver 10.0.0.2\noptions ndots:2\n", None, True),
        ("nameserver ::1\nnameserver 127.0.1.1\n", None, False),
        ("nameserver 127.0.0.1\nnameserver 10.0.0.2\n", None, False),
        ("nameserver 10.0.0.2\nnameserver fd00::53\n", None, False),
        ("nameserver fd00::53\n", None, False),
        ("nameserver fe80::1%eth0\n", None, False),
        ("nameserver\nnameserver name\n", None, False),
        ("", None, False),
        (None, None, False),
        ("nameserver 127.0.0.53\n", "nameserver 10.0.0.2\n", True),
        ("nameserver 127.0.0.53\n", "nameserver 10.0.0.2\nnameserver fe80::1%eth0\n", False),
        ("nameserver 127.0.0.53\n", "nameserver 127.0.0.1\n", False),
        ("nameserver 127.0.0.53\n", "nameserver 127.0.0.53\n", False),
        ("nameserver 127.0.0.53\n", "", False),
        ("nameserver 127.0.0.53\n", None, False),
        ("nameserver 127.0.0.53\nnameserver 127.0.0.1\n", "nameserver 10.0.0.2\n", False),
        ("nameserver 127.0.0.53\nnameserver 10.0.0.2\n", "nameserver 10.0.0.2\n", False),
    ],
)
def test_name_servers_are_reachable_if_docker_copies_all(
    tmp_path: Path, own: str | None, systemds: str | None, *, expected: bool
) -> None:
    paths = [tmp_path / name for name in ("own", "systemd")]
    for path, text in zip(paths, (own, systemds), strict=True):
        if text is not None:
            path.write_text(text)
    assert are_name_servers_reachable([str(path) for path in paths]) is expected


@given(servers=st.lists(st.sampled_from(COPIED + OMITTED), max_size=4), by_systemd=st.booleans())
def test_one_server_that_docker_omits_is_enough(
    tmp_path_factory: pytest.TempPathFactory, servers: list[str], *, by_systemd: bool
) -> None:
    folder = tmp_path_factory.mktemp("etc")
    paths = [write_servers(folder / "systemd", servers)]
    if by_systemd:
        paths.insert(0, write_servers(folder / "own", [SYSTEMD]))
    assert are_name_servers_reachable(paths) is (servers != [] and {*servers} <= {*COPIED})


def test_a_file_that_is_not_text_has_no_servers(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.write_bytes(b"\xff\x00nameserver\n\xfe")
    assert not are_name_servers_reachable([str(path), str(tmp_path / "none")])
