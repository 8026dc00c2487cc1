"""What ssh prints, and the errors made of it. The texts are those of OpenSSH 9.2 against a real sshd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines.remote.machine import Completed
from jupyter_smx.engines.ssh import failures
from jupyter_smx.engines.ssh.engine import SshEngine
from jupyter_smx.engines.ssh.failures import SessionEnd, Target
from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = "ssh -M -N -f -o ControlPath=/run/x gpu-box"
BOX = Target(alias="gpu-box", command=COMMAND)
BEHIND = Target(alias="gpu-box", command=COMMAND, jump="bastion")
VIA_TWO = Target(alias="gpu-box", command=COMMAND, jump="first,second")
LOCKED = Target(alias="gpu-box", command=COMMAND, locked_key="~/.ssh/id_ed25519")
STRANGER = Target(alias="gpu-bxo", command=COMMAND, is_configured=False)
BANNER = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@"
CHANGED = f"""{BANNER}
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
{BANNER}
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:V8aulP9Um2oZ5NxSxXm+e2KYy6m4GaxrQt36Is46ZXU.
Please contact your system administrator.
Add correct host key in /home/ann/.ssh/known_hosts to get rid of this message.
Offending ED25519 key in /home/ann/.ssh/known_hosts:1
  remove with:
  ssh-keygen -f "/home/ann/.ssh/known_hosts" -R "[10.0.0.9]:2299"
Host key for [10.0.0.9]:2299 has changed and you have requested strict checking.
Host key verification failed.
"""
UNPROTECTED = f"""{BANNER}
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @
{BANNER}
Permissions 0644 for '/home/ann/.ssh/id' are too open.
It is required that your private key files are NOT accessible by others.
This private key will be ignored.
Load key "/home/ann/.ssh/id": bad permissions
ann@10.0.0.9: Permission denied (publickey).
"""
FROM_JUMP = """kex_exchange_identification: Connection closed by remote host
Connection closed by UNKNOWN port 65535
"""
FORWARD_FAILED = f"stdio forwarding failed\n{FROM_JUMP}"
DENIED = "Permission denied, please try again.\nann@10.0.0.1: Permission denied (publickey,password).\n"
NO_MATCH = "Unable to negotiate with 10.0.0.9 port 22: no matching key exchange method found. Their offer: x\n"
UNTOUCHED = """sign_and_send_pubkey: signing failed for ED25519-SK "/home/ann/.ssh/id": agent refused operation
ann@10.0.0.9: Permission denied (publickey).
"""
OTHER_SERVICE = """kex_exchange_identification: No SSH version received in first 1024 lines from server
banner exchange: Connection to 127.0.0.1 port 2296: invalid format
"""
MANY_KEYS = """Received disconnect from 127.0.0.1 port 2297:2: Too many authentication failures
Disconnected from 127.0.0.1 port 2297
"""

WAITS = {
    "host key, asked for": (
        "Host key verification failed.\r\n",
        BOX,
        "The host key of gpu-box is not known on this machine, and a person must confirm it",
        f"compare the fingerprint; jobs that wait for gpu-box continue then: {COMMAND}",
    ),
    "host key, strict": (
        "No ED25519 host key is known for gpu and you have requested strict checking.\nHost key verification failed.\n",
        BOX,
        "The host key of gpu-box is not known",
        COMMAND,
    ),
    "code": (
        "root@127.0.0.1: Permission denied (keyboard-interactive).\r\n",
        BOX,
        "gpu-box denied the login without a person, who must type a code or a password.",
        f"Open the session in a terminal; jobs that wait for gpu-box continue then: {COMMAND}",
    ),
    "password": (
        "root@127.0.0.1: Permission denied (publickey,password,keyboard-interactive).",
        BOX,
        "gpu-box denied the login without a person",
        COMMAND,
    ),
    "Kerberos": (
        "root@127.0.0.1: Permission denied (publickey,gssapi-keyex,gssapi-with-mic).",
        BOX,
        "gpu-box denied the login: there is no valid Kerberos ticket",
        "Get a ticket with kinit; jobs that wait for gpu-box continue then.",
    ),
    "Kerberos or password": (
        "root@127.0.0.1: Permission denied (gssapi-with-mic,password).",
        BOX,
        "there is no valid Kerberos ticket",
        f"Get a ticket with kinit; jobs that wait for gpu-box continue then. Or type a code or password: {COMMAND}",
    ),
    "key with a passphrase": (
        "root@127.0.0.1: Permission denied (publickey).",
        LOCKED,
        "gpu-box denied the login: the key ~/.ssh/id_ed25519 has a passphrase, which a person must type.",
        COMMAND,
    ),
    "hardware key not touched": (
        UNTOUCHED,
        BOX,
        "the key of this user could not be used without a person",
        COMMAND,
    ),
    "name server away": (
        "ssh: Could not resolve hostname gpu.example.org: Temporary failure in name resolution",
        STRANGER,
        "The name of gpu-bxo cannot be looked up now.",
        "Check the network of this machine.",
    ),
    "name unknown, alias known": (
        "ssh: Could not resolve hostname gpu.cluster.invalid: Name or service not known",
        BOX,
        "No address is known for gpu.cluster.invalid, the host name of gpu-box.",
        "Check the network or VPN",
    ),
    "refused": (
        "ssh: connect to host 127.0.0.1 port 2290: Connection refused",
        BOX,
        "gpu-box accepts no connection on the port of ssh.",
        "Start sshd there",
    ),
    "timed out": (
        "ssh: connect to host 10.1.2.7 port 22: Connection timed out",
        BOX,
        "gpu-box does not answer.",
        "Check that gpu-box runs",
    ),
    "silent": (
        "Connection timed out during banner exchange\nConnection to 127.0.0.1 port 2296 timed out\n",
        BOX,
        "gpu-box does not answer.",
        "Check that gpu-box runs",
    ),
    "network unreachable": (
        "ssh: connect to host 10.1.2.3 port 2299: Network is unreachable",
        BOX,
        "This machine has no way to gpu-box through its network now.",
        "VPN",
    ),
    "no route": ("ssh: connect to host 10.9.9.9 port 22: No route to host", BOX, "This machine has no way to", "VPN"),
    "black hole": ("ssh: connect to host 10.9.9.8 port 22: Invalid argument", BOX, "This machine has no way to", "VPN"),
    "closed": (
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by 127.0.0.1 port 2296\n",
        BOX,
        "gpu-box ended the connection before the login was complete.",
        "log of its sshd",
    ),
    "reset": (
        "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 127.0.0.1 port 2296\n",
        BOX,
        "gpu-box ended the connection",
        "log of its sshd",
    ),
    "another service": (
        OTHER_SERVICE,
        BOX,
        "What answers in place of gpu-box is not an SSH server.",
        "Check Port in ~/.ssh/config",
    ),
    "jump refused": (
        f"ssh: connect to host 127.0.0.1 port 2290: Connection refused\n{FROM_JUMP}",
        BEHIND,
        "bastion accepts no connection on the port of ssh.",
        "Start sshd there",
    ),
    "jump's host key": (
        f"Host key verification failed.\n{FROM_JUMP}",
        BEHIND,
        "The host key of bastion is not known",
        COMMAND,
    ),
    "jump's code": (f"{DENIED}{FROM_JUMP}", BEHIND, "bastion denied the login without a person", COMMAND),
    "one of two jumps": (f"{DENIED}{FROM_JUMP}", VIA_TWO, "One of first,second denied the login", COMMAND),
    "jump's name": (
        f"ssh: Could not resolve hostname bast.invalid: Name or service not known\n{FROM_JUMP}",
        BEHIND,
        "No address is known for bast.invalid, the host name of bastion.",
        "VPN",
    ),
    "refused behind the jump": (
        f"channel 0: open failed: connect failed: Connection refused\n{FORWARD_FAILED}",
        BEHIND,
        "bastion cannot connect to gpu-box: Connection refused.",
        "Check that gpu-box runs",
    ),
    "name behind the jump": (
        f"channel 0: open failed: connect failed: Name or service not known\n{FORWARD_FAILED}",
        BEHIND,
        "bastion cannot connect to gpu-box: Name or service not known.",
        "HostName",
    ),
    "program between": (
        f"nc: getaddrinfo: bad address\n{FROM_JUMP}",
        BOX,
        "gpu-box ended the connection before the login was complete. ssh said: nc: getaddrinfo: bad address.",
        "log of its sshd",
    ),
    "unknown text": ("something new\n", BOX, "ssh could not connect to gpu-box. ssh said: something new.", COMMAND),
    "no text": ("", BOX, "ssh could not connect to gpu-box.", COMMAND),
}
REFUSED = {
    "changed key": (
        CHANGED,
        BOX,
        "The host key of gpu-box is not the one that is recorded on this machine.",
        'delete the old one (ssh-keygen -f "/home/ann/.ssh/known_hosts" -R "[10.0.0.9]:2299") and run: ssh -M',
    ),
    "changed key of the jump": (
        f"{CHANGED}{FROM_JUMP}",
        BEHIND,
        "The host key of bastion is not the one",
        "ssh-keygen",
    ),
    "revoked key": (
        "Host key ED25519 SHA256:V8aulP revoked by file /etc/ssh/revoked\nHost key verification failed.\n",
        BOX,
        "The host key of gpu-box is revoked.",
        "Ask the owner",
    ),
    "key": (
        "root@127.0.0.1: Permission denied (publickey).",
        BOX,
        "gpu-box denied the login: it accepts none of the keys of this user.",
        "Check with: ssh gpu-box",
    ),
    "unprotected key": (
        UNPROTECTED,
        BOX,
        'ssh said: Load key "/home/ann/.ssh/id": bad permissions',
        "Name the right key",
    ),
    "no key": (
        "no such identity: /home/ann/.ssh/none: No such file or directory\na@x: Permission denied (publickey).",
        BOX,
        "ssh said: no such identity: /home/ann/.ssh/none",
        "IdentityFile",
    ),
    "many keys": (
        MANY_KEYS,
        BOX,
        "gpu-box ended the login, because ssh offered more keys than it accepts.",
        "IdentitiesOnly yes",
    ),
    "no common method": (
        NO_MATCH,
        BOX,
        "ssh on this machine and gpu-box have no key exchange method in common.",
        "Set",
    ),
    "unknown alias": (
        "ssh: Could not resolve hostname gpu-bxo: Name or service not known",
        STRANGER,
        "There is no machine gpu-bxo: it is not in ~/.ssh/config, and its name has no address.",
        "Correct the name",
    ),
    "option": (
        "command-line: line 0: Bad configuration option: foobar",
        BOX,
        "so gpu-box cannot be reached. ssh said: command-line: line 0: Bad configuration option: foobar.",
        "ssh -G gpu-box",
    ),
    "option in a file": (
        "cfg: line 2: Bad configuration option: hostnam\r\ncfg: terminating, 1 bad configuration options\n",
        BOX,
        "ssh said: cfg: line 2: Bad configuration option: hostnam.",
        "ssh -G gpu-box",
    ),
    "value in a file": (
        "cfg line 2: Bad port 'abc'.\ncfg: terminating, 1 bad configuration options\n",
        BOX,
        "ssh said: cfg line 2: Bad port 'abc'.",
        "ssh -G",
    ),
    "no config file": (
        "Can't open user config file nofile: No such file or directory",
        BOX,
        "The configuration of ssh has an error",
        "ssh -G",
    ),
    "open config file": ("Bad owner or permissions on /home/ann/.ssh/config", BOX, "configuration of ssh", "ssh -G"),
    "control socket": (
        "unix_listener: cannot bind to path /run/user/1000/x.tghYVw2vk2fLo9A2: No such file or directory",
        BOX,
        "ssh cannot make the control socket for gpu-box.",
        "able to write there",
    ),
    "jump forbids": (
        f"channel 0: open failed: administratively prohibited: open failed\n{FORWARD_FAILED}",
        BEHIND,
        "bastion does not let ssh go on to gpu-box.",
        "AllowTcpForwarding yes in the sshd_config of bastion",
    ),
}


def check(error: SmxError, message: str, cure: str) -> None:
    text = str(error)
    assert message in text
    assert cure in error.cure
    assert ".." not in text
    assert "  " not in text
    assert "{" not in text
    assert "gpu-b" in text  # the name by which the user calls it


@pytest.mark.parametrize("case", WAITS)
def test_jobs_wait_for_what_ends_by_itself_or_by_a_person_s_typing(case: str) -> None:
    text, target, message, cure = WAITS[case]
    error = failures.of_start(text, target)
    check(error, message, cure)
    assert isinstance(error, UnavailableError)
    assert error.transient


@pytest.mark.parametrize("case", REFUSED)
def test_what_stays_until_something_is_changed_is_refused(case: str) -> None:
    text, target, message, cure = REFUSED[case]
    error = failures.of_start(text, target)
    check(error, message, cure)
    assert isinstance(error, RefusedError)
    assert not error.transient
    assert error.value == target.alias


def test_a_failure_on_the_way_names_the_way() -> None:
    direct = failures.of_start("ssh: connect to host 1.2.3.4 port 22: Connection refused\n", BEHIND)
    on_the_way = failures.of_start(f"ssh: connect to host 1.2.3.4 port 22: Connection refused\n{FROM_JUMP}", BEHIND)
    assert "The way to gpu-box leads over bastion." in on_the_way.rule
    assert "The way" not in direct.rule


def test_a_denial_says_what_the_machine_offers_and_what_ssh_said_of_keys() -> None:
    error = failures.of_start(WAITS["hardware key not touched"][0], BOX)
    assert "agent refused operation Permission denied (publickey)." in error.rule


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(2, "No such file or directory"), RefusedError),
        (PermissionError(13, "Permission denied"), RefusedError),
        (BlockingIOError(11, "Resource temporarily unavailable"), UnavailableError),
        (OSError(12, "Cannot allocate memory"), UnavailableError),
    ],
)
def test_a_missing_program_is_refused_and_a_full_machine_waits(error: OSError, kind: type[SmxError]) -> None:
    made = failures.not_started("ssh", error)
    assert type(made) is kind
    assert made.transient is (kind is UnavailableError)
    assert error.strerror in made.message


def test_a_missing_client_is_refused_at_the_submission(tmp_path: Path) -> None:
    for traits in ({"program": str(tmp_path / "ssh")}, {"variables": {"PATH": str(tmp_path)}}):
        with pytest.raises(RefusedError, match=r"cannot be started \(No such file or directory\)\. .* Install it"):
            SshEngine(**traits).check_installed()
    (tmp_path / "ssh").touch(mode=0o755)
    (tmp_path / "ssh").chmod(0o755)
    for traits in ({"program": str(tmp_path / "ssh")}, {"variables": {"PATH": str(tmp_path)}}):
        SshEngine(**traits).check_installed()


REFUSED_SESSION = """mux_client_request_session: session request failed: Session open refused by peer
jupyter_smx: no master connection
kex_exchange_identification: Connection closed by remote host
Connection closed by UNKNOWN port 65535
"""


@pytest.mark.parametrize(
    ("done", "end"),
    [
        (Completed(0, b"", ""), SessionEnd.COMMAND),
        (Completed(1, b"", REFUSED_SESSION), SessionEnd.COMMAND),
        (Completed(255, b"", ""), SessionEnd.UNCERTAIN),
        (Completed(255, b"out", "words of a command\n"), SessionEnd.UNCERTAIN),
        (Completed(255, b"", REFUSED_SESSION), SessionEnd.NO_SESSION),
        (Completed(255, b"", REFUSED_SESSION.partition("\n")[2]), SessionEnd.NO_MASTER),
    ],
)
def test_a_session_that_never_opened_is_told_from_a_command_that_failed(done: Completed, end: SessionEnd) -> None:
    assert failures.session_end(done) is end
