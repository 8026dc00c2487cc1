"""Turn the output of the system's ``ssh`` into an error: what happened, why, and what a person does about it; pure.

Two kinds. RefusedError: permanent until a person changes something, as for a changed host key. UnavailableError: the
machine or the network is down, or a person has to type something first, so jobs wait. Its subclasses distinguish if
a command may have run there.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from jupyter_smx.engines.remote.machine import NoAnswerError, NoSessionError, NotStartedError
from jupyter_smx.engines.ssh import commands
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.engines.remote.machine import Completed
    from jupyter_smx.model.errors import SmxError


SSH_FAILED = 255
"""The exit code of ssh for its own failures, and for a command that ended by a signal."""


class Target(Struct, frozen=True):
    """Facts of a machine for messages.

    ``command`` opens its master connection in a terminal; ``config`` is the file that has the alias. ``jump`` are the
    machines over which ssh goes there, "" if there is none. ``locked_key`` is a key file with a passphrase.
    """

    alias: str
    command: str
    config: str = "~/.ssh/config"
    jump: str = ""
    is_configured: bool = True
    locked_key: str = ""


class Failure(NamedTuple):
    """One kind of failure; texts have placeholders: ``{machine}``, which may be a jump host, and parts of a target."""

    pattern: str
    """In one line of what ssh printed; its group ``what`` is a place, too."""
    message: str
    cure: str
    waits: bool
    """True: UnavailableError, asked again by itself."""


_OPEN = "Open the session in a terminal; jobs that wait for {alias} continue then: {command}"

_BEFORE_LOGIN = (
    Failure(
        r"^\S+:? line \d+: |terminating, \d+ bad configuration options|Can't open user config file|"
        r"Bad owner or permissions on",
        "The configuration of ssh has an error, so {alias} cannot be reached.",
        "Correct it; ssh -G {alias} shows whether ssh can read it.",
        waits=False,
    ),
    Failure(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "The host key of {machine} is not the one that is recorded on this machine.",
        "Another machine may answer in its place. If its owner confirms the new key, delete the old one "
        "({forget}) and run: {command}",
        waits=False,
    ),
    Failure(
        r"REVOKED HOST KEY|marked as revoked|revoked by file",
        "The host key of {machine} is revoked.",
        "Ask the owner of {machine} for its new key.",
        waits=False,
    ),
    Failure(
        r"Host key verification failed|host key is known for",
        "The host key of {machine} is not known on this machine, and a person must confirm it at the first contact.",
        "Open the session in a terminal and compare the fingerprint; jobs that wait for {alias} continue then: "
        "{command}",
        waits=True,
    ),
    Failure(
        r"no matching (?P<what>[a-z ]+) found",
        "ssh on this machine and {machine} have no {what} in common.",
        "Set one that both have in {config}, or update the older side.",
        waits=False,
    ),
    Failure(
        r"Too many authentication failures",
        "{machine} ended the login, because ssh offered more keys than it accepts.",
        "Name the right key in {config}: IdentityFile, with IdentitiesOnly yes.",
        waits=False,
    ),
)
_CONNECTION = (
    Failure(
        r"administratively prohibited",
        "{jump} does not let ssh go on to {alias}.",
        "Set AllowTcpForwarding yes in the sshd_config of {jump}, or correct ProxyJump in {config}.",
        waits=False,
    ),
    Failure(
        r"channel \d+: open failed: (connect failed: )?(?P<what>.*)",
        "{jump} cannot connect to {alias}: {what}.",
        "Check that {alias} runs, and HostName and Port in {config}.",
        waits=True,
    ),
    Failure(
        r"Temporary failure in name resolution",
        "The name of {machine} cannot be looked up now.",
        "Check the network of this machine.",
        waits=True,
    ),
    Failure(
        r"Could not resolve hostname (?P<what>\S+): ",
        "No address is known for {what}, the host name of {machine}.",
        "Check the network or VPN of this machine, and HostName in {config}.",
        waits=True,
    ),
    Failure(
        r"connect to .*Connection refused",
        "{machine} accepts no connection on the port of ssh.",
        "Start sshd there, or correct Port in {config}.",
        waits=True,
    ),
    Failure(
        r"timed out|Timeout, server",
        "{machine} does not answer.",
        "Check that {machine} runs, and that this machine is in its network or VPN.",
        waits=True,
    ),
    Failure(
        r"connect to .* port \d+: ",
        "This machine has no way to {machine} through its network now.",
        "Check the network or VPN of this machine, and that {machine} runs.",
        waits=True,
    ),
    Failure(
        r"No SSH version received|invalid format|Bad remote protocol version",
        "What answers in place of {machine} is not an SSH server.",
        "Check Port in {config}, and whether the network of this machine needs a login.",
        waits=True,
    ),
    Failure(
        r"cannot bind to path|too long for Unix domain socket|ControlPath too long",
        "ssh cannot make the control socket for {alias}.",
        "Check the folder of that path: this user must be able to write there.",
        waits=False,
    ),
    Failure(
        r"Connection (closed|reset)|Broken pipe|Connection to .* closed|[Dd]isconnect",
        "{machine} ended the connection before the login was complete.",
        "It may be starting, or too busy; if it stays so, look at the log of its sshd.",
        waits=True,
    ),
)
"""In this order: more specific lines of ssh come before those that follow from them."""

_DENIED = re.compile(r"Permission denied \((?P<methods>[a-z0-9@.,-]+)\)")
_TYPED = ("keyboard-interactive", "password")
_UNKNOWN_NAME = re.compile(r"Could not resolve hostname \S+: (?!Temporary failure)")
_BETWEEN = "UNKNOWN port 65535"
"""In the last line of ssh if it had no connection of its own: a jump host, or a program, failed."""
_FOLLOWS = re.compile(rf"{_BETWEEN}|^kex_exchange_identification: Connection closed|^stdio forwarding failed")
_FORGET = re.compile(r"ssh-keygen .*-R .*")
_KEY_NOTES = re.compile(r"^(no such identity|Load key|sign_and_send_pubkey)")
_SIGNING = re.compile(r"agent refused operation|device not found|signing failed")


def of_start(text: str, target: Target) -> SmxError:
    """Return the error for a master that did not start, from all that ssh printed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if _search(_UNKNOWN_NAME, lines) and not target.is_configured:
        return _unknown_alias(lines, target)
    if error := _find(_BEFORE_LOGIN, lines, target):
        return error
    if denied := _search(_DENIED, lines):
        return _denied(denied, lines, target)
    return _find(_CONNECTION, lines, target) or NotStartedError(
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


def no_answer(alias: str, seconds: float) -> NoAnswerError:
    """Return the error for a machine that is silent."""
    return NoAnswerError(f"{alias} did not answer within {seconds:g} s.", transient=True)


def no_login(alias: str, seconds: float) -> NotStartedError:
    """Return the error for a machine that did not complete the login."""
    return NotStartedError(f"{alias} did not answer within {seconds:g} s.", transient=True)


def connection_lost(alias: str) -> NoAnswerError:
    """Return the error for a master that ended while a command ran."""
    return NoAnswerError(f"The connection to {alias} ended while a command ran there.", transient=True)


def not_kept(alias: str) -> NotStartedError:
    """Return the error for masters that ended before a command was run."""
    return NotStartedError(f"The connection to {alias} ended at once.", transient=True)


def closed(alias: str) -> NotStartedError:
    """Return the error for a start of the connection that :meth:`Master.close` ended."""
    return NotStartedError(f"The connection to {alias} is closed.", transient=True)


def silent_connection(alias: str, command: str) -> NotStartedError:
    """Return the error for a person's own master that does not answer; ``command`` ends it."""
    return NotStartedError(
        f"{alias} does not answer over the connection that a person opened.",
        cure=f"If it stays so, close that connection ({command}) and open it again.",
        transient=True,
    )


def no_session(alias: str) -> NoSessionError:
    """Return the error for an sshd that lets no further session in."""
    return NoSessionError(
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
    """Return how a session ended, from its exit code and what ssh printed."""
    if done.code != SSH_FAILED:
        return SessionEnd.COMMAND
    if "session request failed" in done.errors:
        return SessionEnd.NO_SESSION
    return SessionEnd.NO_MASTER if commands.NO_MASTER in done.errors else SessionEnd.UNCERTAIN


def _search(pattern: re.Pattern[str], lines: Iterable[str]) -> re.Match[str] | None:
    return next((found for line in lines if (found := pattern.search(line))), None)


def _find(failures: Iterable[Failure], lines: list[str], target: Target) -> SmxError | None:
    for failure in failures:
        if found := _search(re.compile(failure.pattern), lines):
            return _error(failure, found, lines, target)
    return None


def _machine(lines: list[str], target: Target) -> str:
    """Name the machine that a line of ssh is about: the one on the way if there was no connection beyond it."""
    if not target.jump or not any(_BETWEEN in line for line in lines):
        return target.alias
    return f"one of {target.jump}" if "," in target.jump else target.jump


def _way(machine: str, target: Target) -> str:
    return "" if machine == target.alias else f" The way to {target.alias} leads over {target.jump}."


def _error(failure: Failure, found: re.Match[str], lines: list[str], target: Target) -> SmxError:
    machine = _machine(lines, target)
    forget = _search(_FORGET, lines)
    places = {
        "alias": target.alias,
        "machine": machine,
        "command": target.command,
        "config": target.config,
        "jump": target.jump or "The machine between",
        "what": str(found.groupdict().get("what") or "").strip(),
        "forget": forget[0] if forget else f"ssh-keygen -R {machine}",
    }
    message, cure = _sentence(failure.message.format(**places)), failure.cure.format(**places)
    said = found.string if not _FOLLOWS.search(found.string) else lines[0]
    rule = _quote([said]) + _way(machine, target)
    if failure.waits:
        return NotStartedError(message, rule=rule, cure=cure, transient=True)
    return RefusedError(message, field="machine", value=target.alias, rule=rule, cure=cure)


def _denied(found: re.Match[str], lines: list[str], target: Target) -> SmxError:
    methods, machine = found["methods"].split(","), _machine(lines, target)
    notes = [line for line in lines if _KEY_NOTES.search(line)]
    rule = f"{_quote([*notes, found[0]])}{_way(machine, target)}"
    opening = _OPEN.format(alias=target.alias, command=target.command)
    is_typed = any(method in _TYPED for method in methods)

    def waiting(message: str, cure: str) -> NotStartedError:
        return NotStartedError(_sentence(message), rule=rule, cure=cure, transient=True)

    if _search(_SIGNING, notes):
        return waiting(
            f"{machine} denied the login: the key of this user could not be used without a person.",
            f"Unlock the key agent, or touch the key. {opening}",
        )
    if any(method.startswith("gssapi") for method in methods):
        other = f" Or type a code or password: {target.command}" if is_typed else ""
        return waiting(
            f"{machine} denied the login: there is no valid Kerberos ticket, and no key of this user is accepted.",
            f"Get a ticket with kinit; jobs that wait for {target.alias} continue then.{other}",
        )
    if is_typed:
        return waiting(f"{machine} denied the login without a person, who must type a code or a password.", opening)
    if target.locked_key:
        return waiting(
            f"{machine} denied the login: the key {target.locked_key} has a passphrase, which a person must type.",
            opening,
        )
    return RefusedError(
        _sentence(f"{machine} denied the login: it accepts none of the keys of this user."),
        field="machine",
        value=target.alias,
        rule=rule,
        cure=f"Name the right key (IdentityFile in {target.config}), or have its owner accept the key. "
        f"Check with: ssh {target.alias}",
    )


def _unknown_alias(lines: list[str], target: Target) -> RefusedError:
    return RefusedError(
        f"There is no machine {target.alias}: it is not in {target.config}, and its name has no address.",
        field="machine",
        value=target.alias,
        rule=_quote([line for line in lines if _UNKNOWN_NAME.search(line)][:1]),
        cure=f"Correct the name, or add the machine to {target.config}.",
    )


def _sentence(text: str) -> str:
    """Begin a sentence with a capital letter, unless it begins with the name of a machine or program."""
    return f"O{text[1:]}" if text.startswith("one of ") else text


def _quote(lines: list[str]) -> str:
    words = " ".join(" ".join(line.strip("@. \t").split()) for line in lines if line.strip())
    return f"ssh said: {words}." if words else ""
