"""Turn what the system's ``ssh`` prints into an error: what happened, why, and what a person does about it; pure.

Two kinds. RefusedError: it stays so until a person changes something, as for a host key that is another one.
UnavailableError: the machine or the network is away, or a person has to type something first, so jobs wait.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from jupyter_smx.engines.ssh import commands
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.engines.remote.machine import Completed
    from jupyter_smx.model.errors import SmxError


SSH_FAILED = 255
"""The exit code of ssh for its own failures, and for a command that ended by a signal."""


class Target(Struct, frozen=True):
    """What sentences say of a machine.

    ``command`` opens its master connection in a terminal; ``config`` is the file that has the alias. ``jump`` is the
    machine over which ssh goes there, "" if there is none.
    """

    alias: str
    command: str
    config: str = "~/.ssh/config"
    jump: str = ""
    is_configured: bool = True


class Failure(NamedTuple):
    """One kind of failure; texts have places for ``{alias}``, ``{command}``, ``{config}``, ``{jump}``, groups."""

    pattern: str
    """In one line of what ssh printed."""
    message: str
    cure: str
    waits: bool
    """True: UnavailableError, asked again by itself."""


_OPEN = "Open the session in a terminal: {command}"
_CONTINUES = " Jobs that wait for {alias} continue then."
_ASK_OWNER = "If its owner confirms the new key, delete the old one (ssh-keygen -R {alias}) and run: {command}"

_TABLE = (
    Failure(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "The host key of {alias} is another one than the one recorded on this machine.",
        f"Another machine may answer in its place. {_ASK_OWNER}",
        waits=False,
    ),
    Failure(
        r"REVOKED HOST KEY|marked as revoked|is revoked by file",
        "The host key of {alias} is revoked.",
        "Ask the owner of the machine for its new key.",
        waits=False,
    ),
    Failure(
        r"Bad configuration option|[Uu]nsupported option|keyword \S+ extra arguments|line \d+: .*(argument|[Bb]ad)|"
        r"terminating, \d+ bad configuration options|Can't open user config file|Bad owner or permissions on",
        "The configuration of ssh has an error, so {alias} cannot be reached.",
        "Correct it; ssh -G {alias} shows whether it can be read.",
        waits=False,
    ),
    Failure(
        r"UNPROTECTED PRIVATE KEY FILE|bad permissions",
        "ssh does not use the private key for {alias}, because others can read its file.",
        "Let this user alone read it: chmod 600 FILE.",
        waits=False,
    ),
    Failure(
        r"Too many authentication failures",
        "{alias} ended the login, because ssh offered more keys than it accepts.",
        "Name the right key in {config}: IdentityFile, with IdentitiesOnly yes.",
        waits=False,
    ),
    Failure(
        r"no matching (?P<what>[a-z ]+) found",
        "ssh on this machine and {alias} have no {what} in common.",
        "Set one that both have in {config}, or update the older side.",
        waits=False,
    ),
    Failure(
        r"Host key verification failed|host key is known for",
        "The host key of {alias} is not known on this machine, and a person must confirm it at the first contact.",
        f"{_OPEN} and compare the fingerprint.{_CONTINUES}",
        waits=True,
    ),
    Failure(
        r"administratively prohibited",
        "{jump} does not let ssh go on to {alias}.",
        "Its sshd must allow it: AllowTcpForwarding yes, and PermitOpen.",
        waits=False,
    ),
    Failure(
        r"channel \d+: open failed: (?P<what>.*)",
        "{jump} cannot connect to {alias}: {what}.",
        "Check that {alias} runs, and its name and port in {config}.",
        waits=True,
    ),
    Failure(
        r"Temporary failure in name resolution",
        "The name of {alias} cannot be looked up now.",
        "Check the network of this machine.",
        waits=True,
    ),
    Failure(
        r"Could not resolve hostname (?P<what>\S+): ",
        "No address is known for {what}, the host name of {alias}.",
        "Check the network or VPN of this machine, and HostName in {config}.",
        waits=True,
    ),
    Failure(
        r"connect to .* Connection refused",
        "{alias} accepts no connection on the port of ssh.",
        "Start sshd there, or correct Port in {config}.",
        waits=True,
    ),
    Failure(
        r"timed out|Timeout, server",
        "{alias} does not answer.",
        "Check that it runs and that this machine is in its network or VPN.",
        waits=True,
    ),
    Failure(
        r"Network is unreachable|No route to host|Host is down|Network is down",
        "This machine has no way to {alias} through its network now.",
        "Check the network or VPN of this machine, and that {alias} runs.",
        waits=True,
    ),
    Failure(
        r"cannot bind to path|too long for Unix domain socket|ControlSocket .* already exists",
        "ssh cannot make the control socket for {alias}.",
        "Check the folder of that path: this user must be able to write there.",
        waits=False,
    ),
    Failure(
        r"Connection (closed|reset)|Broken pipe|Connection to .* closed|disconnect",
        "{alias} ended the connection before the login was complete.",
        "It may be starting, or too busy; if it stays so, look at the log of its sshd.",
        waits=True,
    ),
)
"""In this order: the sentence of ssh that says most comes before those that only follow from it."""

_DENIED = re.compile(r"(?:(?P<account>\S+): )?Permission denied \((?P<methods>[a-z0-9@.,-]+)\)")
_TYPED = ("keyboard-interactive", "password")
_UNKNOWN_NAME = re.compile(r"Could not resolve hostname \S+: (?!Temporary failure)")
_JUMP_LINES = re.compile(r"UNKNOWN port 65535|stdio forwarding failed|kex_exchange_identification")


def of_start(text: str, target: Target) -> SmxError:
    """Return the error for a master that did not start, from all that ssh printed."""
    if _UNKNOWN_NAME.search(text) and not target.is_configured:
        return _unknown_alias(text, target)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for failure in _TABLE[:6]:
        if found := _search(failure.pattern, lines):
            return _error(failure, found, target, lines)
    if denied := _search(_DENIED.pattern, lines):
        return _denied(denied, target)
    for failure in _TABLE[6:]:
        if found := _search(failure.pattern, lines):
            return _error(failure, found, target, lines)
    return UnavailableError(
        f"ssh could not connect to {target.alias}.",
        rule=_quote(lines[-1:]),
        cure=f"Try it in a terminal: {target.command}",
        transient=True,
    )


def not_started(program: str, error: OSError) -> SmxError:
    """Return the error for a program that could not be started."""
    if isinstance(error, (FileNotFoundError, PermissionError, NotADirectoryError)):
        return RefusedError(
            f"The program {program} cannot be started ({error.strerror}).",
            field="ssh",
            value=program,
            rule="Machines are reached by the ssh of this machine.",
            cure="Install it (on Debian: apt-get install openssh-client), or configure its path.",
        )
    return UnavailableError(
        f"The program {program} cannot be started now ({error.strerror}).",
        cure="Free memory or process slots on this machine.",
        transient=True,
    )


def no_answer(alias: str, seconds: float) -> UnavailableError:
    """Return the error for a machine that is silent."""
    return UnavailableError(f"{alias} did not answer within {seconds:g} s.", transient=True)


def connection_lost(alias: str) -> UnavailableError:
    """Return the error for a master that ended while a command ran."""
    return UnavailableError(f"The connection to {alias} ended while a command ran there.", transient=True)


def silent_connection(alias: str, command: str) -> UnavailableError:
    """Return the error for a person's own master that does not answer; ``command`` ends it."""
    return UnavailableError(
        f"{alias} does not answer over the connection that a person opened.",
        cure=f"If it stays so, close that connection ({command}) and open it again.",
        transient=True,
    )


def no_session(alias: str) -> UnavailableError:
    """Return the error for an sshd that lets no further session in."""
    return UnavailableError(
        f"{alias} opened no session: sshd there allows no further one over one connection.",
        cure=f"Raise MaxSessions in the sshd_config of {alias}, or close other sessions.",
        transient=True,
    )


def no_shell(alias: str, words: str) -> UnavailableError:
    """Return the error for an account whose shell runs no commands."""
    return UnavailableError(
        f"The account on {alias} runs no command: its shell ended first.",
        rule=_quote(words.splitlines()[-1:]),
        cure=f"Check with: ssh {alias} true",
        transient=True,
    )


def no_streams(alias: str, limit: int) -> UnavailableError:
    """Return the error for a machine that forwards no sockets, where sessions are too few for one more stream."""
    return UnavailableError(
        f"{alias} has sessions for {limit} hosts, which are in use.",
        rule="Its sshd forwards no sockets, so each host needs a session of its own.",
        cure=f"Set AllowStreamLocalForwarding yes in the sshd_config of {alias}.",
        transient=True,
    )


def no_listener(alias: str, words: str = "") -> UnavailableError:
    """Return the error for a socket of the machine at which no agent answers."""
    return UnavailableError(f"No agent answers at its socket on {alias}.", rule=_quote([words]), transient=True)


def not_forwarded(alias: str, errors: str) -> UnavailableError:
    """Return the error for a master that forwards a socket to nowhere."""
    return UnavailableError(
        f"ssh cannot forward a socket to {alias}.", rule=_quote(errors.splitlines()[-1:]), transient=True
    )


class SessionEnd(enum.Enum):
    """Why a client of the master ended."""

    COMMAND = "the command ended"
    NO_MASTER = "there is no master, and nothing was run"
    NO_SESSION = "sshd opened no session, and nothing was run"
    UNCERTAIN = "the command ended with 255 or by a signal, or the connection did"


def session_end(done: Completed) -> SessionEnd:
    """Tell how a session ended from its exit code and what ssh printed."""
    if done.code != SSH_FAILED:
        return SessionEnd.COMMAND
    if "session request failed" in done.errors:
        return SessionEnd.NO_SESSION
    return SessionEnd.NO_MASTER if commands.NO_MASTER in done.errors else SessionEnd.UNCERTAIN


def _search(pattern: str, lines: Iterable[str]) -> re.Match[str] | None:
    return next((found for line in lines if (found := re.search(pattern, line))), None)


def _error(failure: Failure, found: re.Match[str], target: Target, lines: list[str]) -> SmxError:
    places = {
        "alias": target.alias,
        "command": target.command,
        "config": target.config,
        "jump": target.jump or "The machine between",
        "what": str(found.groupdict().get("what") or "").strip(),
    }
    message, cure = failure.message.format(**places), failure.cure.format(**places)
    rule = _quote([found.string])
    if target.jump and any(_JUMP_LINES.search(line) for line in lines) and "{jump}" not in failure.message:
        rule += f" The way there leads over {target.jump}, which may be the reason."
    if failure.waits:
        return UnavailableError(message, rule=rule, cure=cure, transient=True)
    return RefusedError(message, field="machine", value=target.alias, rule=rule, cure=cure)


def _denied(found: re.Match[str], target: Target) -> SmxError:
    methods = found["methods"].split(",")
    rule = f"It offers {', '.join(methods)}; ssh said: {found[0]}"
    opening = _OPEN.format(command=target.command)
    continues = _CONTINUES.format(alias=target.alias)
    if any(method.startswith("gssapi") for method in methods):
        return UnavailableError(
            f"{target.alias} denied the login: the Kerberos ticket of this user has ended, or no key is accepted.",
            rule=rule,
            cure=f"Get a ticket with kinit.{continues} Or type what it asks for. {opening}",
            transient=True,
        )
    if any(method in _TYPED for method in methods):
        return UnavailableError(
            f"{target.alias} denied the login without a person, who must type a code or a password.",
            rule=rule,
            cure=f"{opening}{continues}",
            transient=True,
        )
    return RefusedError(
        f"{target.alias} denied the login: none of the keys of this user is accepted.",
        field="machine",
        value=target.alias,
        rule=rule,
        cure=f"Name the right key (IdentityFile in {target.config}), or load it with ssh-add. "
        f"Check with: ssh {target.alias}",
    )


def _unknown_alias(text: str, target: Target) -> RefusedError:
    return RefusedError(
        f"There is no machine {target.alias}: it is not in {target.config}, and its name has no address.",
        field="machine",
        value=target.alias,
        rule=_quote([line for line in text.splitlines() if _UNKNOWN_NAME.search(line)][:1]),
        cure=f"Correct the name, or add the machine to {target.config}.",
    )


def _quote(lines: list[str]) -> str:
    words = " ".join(line.strip().rstrip(".") for line in lines if line.strip())
    return f"ssh said: {words}." if words else ""
