"""Where the hosts of a job on several machines connect to each other: ports at their addresses, while they wait."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from jupyter_smx.agent.contract import tfconfig
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.launchers import host_connection
from jupyter_smx.agent.launchers.host_connection import AuthenticationError, HostConnection
from jupyter_smx.agent.launchers.rendezvous import FolderRendezvous

if TYPE_CHECKING:
    from jupyter_smx.agent.paths import HostInfo

_CONNECT_TIMEOUT = 5.0
_BACKLOG = 64
"""Connections that wait at least: other programs of a network connect, too, and would keep the hosts out."""
UNREACHABLE_LIMIT = 20.0
"""Seconds for which a machine may be out of reach. A host that is not ready yet refuses connections at once."""


class AddressRendezvous:
    """A port at the address of each host, ``ends``; ``host`` is this one, and ``key`` is that of the job."""

    def __init__(
        self, key: str, host: str, ends: Dict[str, Tuple[str, int]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._key = key
        self._host = host
        self._ends = ends
        self._clock = clock
        self._unreachable_since: Optional[float] = None

    def settings(self) -> Dict[str, Any]:
        """Return what another process of this host needs for the same; it contains the key."""
        return {"key": self._key, "host": self._host, "ends": self._ends}

    @contextlib.contextmanager
    def listen(self, most: int = 1) -> Iterator[socket.socket]:
        """Listen for ``most`` waiting connections or more until the end of the ``with``.

        :raises RefusalError: the address or the port cannot be used here; the text says why.
        """
        address, port = self._ends[self._host]
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((address, port))
            except OSError as error:
                raise RefusalError(_listen_failure(self._host, address, port, error)) from error
            listener.listen(max(most, _BACKLOG))
            yield listener

    def accept(self, listener: socket.socket) -> Optional[HostConnection]:
        """Accept the connection of another host; None if another program connected, which gets no answer."""
        visitor = listener.accept()[0]
        try:
            return host_connection.prove_as_listener(visitor, self._key, self._host)
        except OSError:
            visitor.close()
            return None

    def connect(self, host: str) -> Optional[HostConnection]:
        """Connect to a host; None if it does not listen yet.

        :raises RefusalError: its machine has been out of reach for too long.
        """
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.settimeout(_CONNECT_TIMEOUT)
        try:
            connection.connect(self._ends[host])
        except ConnectionRefusedError:
            self._unreachable_since = None
        except OSError as error:
            self._note_unreachable(host, error)
        else:
            self._unreachable_since = None
            with contextlib.suppress(AuthenticationError, OSError):
                return host_connection.prove_as_connector(connection, self._key, host)
        connection.close()
        return None

    def _note_unreachable(self, host: str, error: OSError) -> None:
        now = self._clock()
        self._unreachable_since = now if self._unreachable_since is None else self._unreachable_since
        if now - self._unreachable_since >= UNREACHABLE_LIMIT:
            address, port = self._ends[host]
            raise RefusalError(
                f"distribution: {self._host} cannot reach {host} at {address}, port {port} ({_reason(error)}), so the "
                "machines cannot run one job together. Open the firewall between them for all ports from 1024 on, or "
                "set the address at which they reach each other, or use --instance-count 1."
            )

    def shared_secret(self, purpose: str) -> str:
        """Return a secret for one purpose that each host of the job can compute, so that none has to send it."""
        return host_connection.derive(self._key, purpose)


Rendezvous = Union[FolderRendezvous, AddressRendezvous]


def _reason(error: OSError) -> str:
    return "no answer" if isinstance(error, socket.timeout) else error.strerror or str(error)


def _listen_failure(host: str, address: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"distribution: {host} cannot listen at {address}, port {port}: another program of this machine uses that "
            "port. Start the job again with new hosts (--keep-alive 0), which use another port."
        )
    return (
        f"distribution: {host} cannot listen at {address} ({_reason(error)}): this is its address for the other hosts, "
        "and none of this machine. Set the address of a network interface of this machine, as in "
        'c.SshEngine.machines = {"NAME": {"address": "10.0.0.5"}}.'
    )


def host_port(host: str, host_info: HostInfo) -> int:
    """Return the port of a host; those before it are for the script's process group and for TensorFlow's servers."""
    hosts = sorted(host_info.hosts)
    return host_info.port + 1 + len(tfconfig.PORTS) * len(hosts) + hosts.index(host)


def make_rendezvous(host_info: HostInfo, key: str, job: str, name: str) -> Rendezvous:
    """Return where the hosts of a job meet; ``job`` is its folder here, in which a socket gets that ``name``.

    :raises RefusalError: the hosts are on several machines, and the job has no key.
    """
    if host_info.shares_machine():
        return FolderRendezvous(job, name)
    if not key:
        raise RefusalError(
            "distribution: the hosts are on several machines, and the controller sent them no key for each other. Its "
            "log says why."
        )
    addresses = host_info.addresses or {}
    ends = {host: (addresses[host], host_port(host, host_info)) for host in host_info.hosts}
    return AddressRendezvous(key, host_info.host, ends)


def hosts_of_one_machine(host_info: HostInfo, hosts: List[str]) -> List[str]:
    """Return hosts that share a machine while others are on another one; [] if each has one, or all share one."""
    if host_info.shares_machine():
        return []
    by_address: Dict[str, List[str]] = {}
    for host in hosts:
        by_address.setdefault((host_info.addresses or {})[host], []).append(host)
    return next((found for found in by_address.values() if len(found) > 1), [])
