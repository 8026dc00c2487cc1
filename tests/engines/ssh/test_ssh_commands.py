from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from jupyter_smx.engines.ssh import commands, key_files
from jupyter_smx.engines.ssh.commands import SshOptions
from jupyter_smx.model.errors import RefusedError

FOLDER = Path("/run/user/1000/jupyter-smx-ssh/0123abcd")
OPTIONS = SshOptions(control_folder=FOLDER)
OTHER = SshOptions(
    control_folder=FOLDER, program="/opt/ssh", config_file="/etc/my config", extra=("Port=22", "ConnectTimeout=99")
)
PATH = commands.control_path("gpu-box", OPTIONS)


def settings(words: list[str]) -> dict[str, str]:
    """Give the values that ssh takes: the first of each name."""
    found: dict[str, str] = {}
    for option, value in itertools.pairwise(words):
        if option == "-o":
            name, _, text = value.partition("=")
            found.setdefault(name, text)
    return found


def test_a_master_asks_nothing_forwards_nothing_and_notices_a_silent_machine() -> None:
    words = commands.master_words("gpu-box", PATH, Path("/x.log"), OPTIONS)
    assert words[-2:] == ["--", "gpu-box"]
    assert {"-N", "-f", "-x", "-a", "-T"} < set(words)
    assert "-A" not in words
    assert words[words.index("-E") + 1] == "/x.log"
    wanted = {
        "ControlMaster": "yes", "ControlPath": os.fspath(PATH), "BatchMode": "yes", "ConnectTimeout": "10",
        "ServerAliveInterval": "15", "ServerAliveCountMax": "3", "StreamLocalBindUnlink": "yes",
        "ExitOnForwardFailure": "yes", "ClearAllForwardings": "yes", "RemoteCommand": "none",
    }  # fmt: skip
    assert settings(words).items() >= wanted.items()


def test_settings_of_the_configuration_win_except_over_what_makes_a_master() -> None:
    extra = ("ControlPath=none", "BatchMode=no", "ServerAliveInterval=60")
    options = SshOptions(control_folder=FOLDER, extra=extra)
    found = settings(commands.master_words("gpu-box", PATH, Path("/x.log"), options))
    assert (found["ControlPath"], found["BatchMode"], found["ServerAliveInterval"]) == (os.fspath(PATH), "yes", "60")


def test_a_person_s_command_can_be_pasted_into_a_shell() -> None:
    assert commands.master_command("gpu-box", PATH, OPTIONS) == f"ssh -M -N -f -o ControlPath={PATH} gpu-box"
    expected = f"/opt/ssh -F '/etc/my config' -M -N -f -o ControlPath={PATH} -o Port=22 -o ConnectTimeout=99 gpu-box"
    assert commands.master_command("gpu-box", PATH, OTHER) == expected


def test_clients_of_a_master_read_no_configuration_and_connect_to_nothing() -> None:
    session = commands.session_words("gpu-box", PATH, "-v; echo", OTHER)
    assert session[-3:] == ["--", "gpu-box", "-v; echo"]
    assert commands.NO_MASTER in settings(session)["ProxyCommand"]
    control = commands.control_words("gpu-box", PATH, "check", OTHER)
    forward = commands.forward_words("gpu-box", PATH, "forward", (Path("/l:1"), "/r\\:2"), OTHER)
    assert forward[forward.index("-L") + 1] == "/l\\:1:/r\\\\\\:2"
    for words in (session, control, forward):
        assert words[:3] == ["/opt/ssh", "-F", "/dev/null"]
        assert settings(words)["ControlPath"] == os.fspath(PATH)


def test_a_control_path_is_one_of_a_machine_and_of_how_ssh_is_called() -> None:
    assert commands.control_path("gpu-box", OPTIONS) == PATH
    paths = {commands.control_path(alias, options) for alias in ("gpu-box", "two") for options in (OPTIONS, OTHER)}
    assert len(paths) == 4
    assert commands.forward_path(PATH, "/a.sock") != commands.forward_path(PATH, "/b.sock")


def test_a_control_path_leaves_room_for_the_name_that_ssh_makes_first() -> None:
    room = 107 - 17 - len("/x/") - 12
    fits = SshOptions(control_folder=Path(f"/x/{'a' * (room - 1)}"))
    assert len(os.fspath(commands.control_path("gpu-box", fits))) == 107 - 17
    with pytest.raises(RefusedError, match="its path is too long"):
        commands.control_path("gpu-box", SshOptions(control_folder=Path(f"/x/{'a' * room}")))


@pytest.mark.parametrize("alias", ["gpu-box", "ann@gpu.example.org", "10.0.0.1", "::1", "[::1]", "a_b%eth0", "UP"])
def test_names_of_machines(alias: str) -> None:
    commands.check_alias(alias)


def dump(host: str, *lines: str, name: str = "") -> str:
    return "\n".join([f"host {host}", "user ann", f"hostname {name or host}", "port 22", *lines]) + "\n"


def test_the_configuration_of_an_alias_is_read() -> None:
    text = dump("gpu-box", "controlpath /run/cm a", "proxyjump first,second", "identityfile ~/.ssh/a", name="10.0.0.9")
    found = commands.parse_config(text + "identityfile ~/.ssh/b\n")
    assert found == commands.AliasConfig("10.0.0.9", "/run/cm a", "first,second", ("~/.ssh/a", "~/.ssh/b"))
    assert commands.parse_config(dump("x", "controlpath none")) == commands.AliasConfig("x")


@pytest.mark.parametrize(
    ("ours", "is_configured"),
    [
        (dump("gpu-box"), False),
        (dump("gpu-box", "controlpath /run/cm-gpu-box"), False),
        (dump("gpu-box", name="10.0.0.9"), True),
        (dump("gpu-box", "proxyjump bastion"), True),
        (dump("gpu-box").replace("port 22", "port 2222"), True),
    ],
)
def test_an_alias_is_configured_if_the_configuration_says_something_of_it(ours: str, is_configured: bool) -> None:
    assert commands.is_configured(ours, dump("unknown.invalid", "controlpath /x")) is is_configured


def test_an_ssh_of_the_controller_opens_no_window_and_gets_what_is_configured() -> None:
    options = SshOptions(control_folder=FOLDER, environment={"SSH_AUTH_SOCK": "/run/agent"})
    found = commands.environment(options, {"HOME": "/home/ann", "SSH_AUTH_SOCK": "/old", "SHELL": "/bin/csh"})
    assert found["SSH_AUTH_SOCK"] == "/run/agent"
    assert (found["HOME"], found["SHELL"], found["SSH_ASKPASS_REQUIRE"]) == ("/home/ann", "/bin/sh", "never")


PLAIN = b"""-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
-----END OPENSSH PRIVATE KEY-----
"""
LOCKED = b"""-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABBkYW5nZXIx
-----END OPENSSH PRIVATE KEY-----
"""


def test_a_key_with_a_passphrase_is_found_among_the_identity_files(tmp_path: Path) -> None:
    for name, text in (("plain", PLAIN), ("locked", LOCKED), ("public", b"ssh-ed25519 AAAA"), ("broken", LOCKED[:38])):
        (tmp_path / name).write_bytes(text)
    paths = [os.fspath(tmp_path / name) for name in ("missing", "plain", "public", "broken", "locked")]
    assert key_files.find_locked_key(paths) == paths[-1]
    assert key_files.find_locked_key(paths[:-1]) == ""


def test_keys_of_the_older_form_are_known() -> None:
    assert key_files.has_passphrase(b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n")
    assert key_files.has_passphrase(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert not key_files.has_passphrase(b"-----BEGIN RSA PRIVATE KEY-----\nMII\n")
