"""Whether the machine's name servers are out of reach in the default network of a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines.docker.daemon.resolver import is_on_loopback

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("own", "systemds", "expected"),
    [
        ("nameserver 10.0.0.2\nsearch lab\n", None, False),
        ("# dnsmasq\nnameserver 127.0.0.1\n", None, True),
        ("nameserver ::1\nnameserver 127.0.1.1\n", None, True),
        ("nameserver 127.0.0.1\nnameserver 10.0.0.2\n", None, False),
        ("nameserver fe80::1%eth0\n", None, False),
        ("nameserver\nnameserver name\n", None, False),
        ("", None, False),
        (None, None, False),
        ("nameserver 127.0.0.53\n", "nameserver 10.0.0.2\n", False),
        ("nameserver 127.0.0.53\n", "nameserver 127.0.0.1\n", True),
        ("nameserver 127.0.0.53\n", "nameserver 127.0.0.53\n", True),
        ("nameserver 127.0.0.53\nnameserver 127.0.0.1\n", "nameserver 10.0.0.2\n", True),
    ],
)
def test_name_servers_on_the_loopback_are_out_of_reach(
    tmp_path: Path, own: str | None, systemds: str | None, *, expected: bool
) -> None:
    paths = [tmp_path / name for name in ("own", "systemd")]
    for path, text in zip(paths, (own, systemds), strict=True):
        if text is not None:
            path.write_text(text)
    assert is_on_loopback([str(path) for path in paths]) is expected
