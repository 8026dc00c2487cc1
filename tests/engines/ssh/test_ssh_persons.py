"""Actions that the user must take: what the message says, and how the work continues afterwards."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from ssh_helpers import logins

from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from ssh_helpers import Sshs
    from worlds.ssh.machine import Machine

    from jupyter_smx.engines.ssh.connection import SshConnection
    from jupyter_smx.model.errors import SmxError

pytestmark = pytest.mark.processes


async def failure(connection: SshConnection) -> SmxError:
    with pytest.raises((RefusedError, UnavailableError)) as raised:
        await connection.run("true")
    return raised.value


async def open_as_person(sshs: Sshs, cure: str) -> None:
    """Run the command of a message as the user does, and type the code."""
    (command,) = re.findall(r"\S*ssh .*-M .*", cure)
    done = await asyncio.to_thread(
        subprocess.run,
        ["sh", "-c", command],
        env=sshs.world.answer_questions(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, command


async def answers(connection: SshConnection) -> bool:
    try:
        return (await connection.run("true", timeout=1)).code == 0
    except UnavailableError:
        return False


async def close_as_person(connection: SshConnection) -> None:
    await connection._master._exit()


async def test_a_one_time_code_waits_and_the_session_that_a_person_opens_is_used(sshs: Sshs, one: Machine) -> None:
    one.require_code()
    connection = sshs.connect()
    error = await failure(connection)
    assert isinstance(error, UnavailableError)
    assert error.transient
    assert "smx-one denied the login without a person, who must type a code or a password." in str(error)
    assert sshs.processes() == {}
    await open_as_person(sshs, error.cure)
    before = logins(one)
    assert (await connection.run("hostname")).output == b"box-one\n"
    await connection.close()
    assert await connection.check_master()  # otherwise the user would have to type the code again
    assert (await sshs.connect().run("hostname")).output == b"box-one\n"
    assert logins(one) == before
    await close_as_person(connection)


async def test_a_session_that_a_person_opened_is_given_time_where_the_machine_is_silent(
    sshs: Sshs, one: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.require_code()
    connection = sshs.connect(connect_timeout=1.0)
    await open_as_person(sshs, (await failure(connection)).cure)
    await connection.run("true")
    one.cut()
    for words in ("did not answer within 1 s", "does not answer over the connection that a person opened"):
        with pytest.raises(UnavailableError, match=words) as silent:
            await connection.run("true", timeout=1)
        assert silent.value.transient
    assert f"-O exit {one.alias}" in silent.value.cure
    one.restore()
    await eventually(lambda: answers(connection), "packets that were lost are sent again", within=30)
    one.cut()
    monkeypatch.setattr("jupyter_smx.engines.ssh.master._PATIENCE", 0.0)
    for words in ("did not answer within 1 s", r"smx-one does not answer\."):
        with pytest.raises(UnavailableError, match=words):
            await connection.run("true", timeout=1)
    one.restore()
    assert "must type a code" in str(await failure(connection))
    assert sshs.processes() == {}


async def test_a_first_contact_waits_for_a_person_who_confirms_the_key(sshs: Sshs, one: Machine) -> None:
    one.forget_host_key()
    connection = sshs.connect()
    error = await failure(connection)
    assert isinstance(error, UnavailableError)
    assert "The host key of smx-one is not known on this machine" in error.message
    (command,) = re.findall(r"\S*ssh .*-M .*", error.cure)
    confirmed = command.replace(" -M ", " -o StrictHostKeyChecking=accept-new -M ")  # the world's askpass says no "yes"
    await open_as_person(sshs, confirmed)
    assert (await connection.run("hostname")).output == b"box-one\n"
    await close_as_person(connection)


async def test_another_host_key_is_refused(sshs: Sshs, one: Machine) -> None:
    one.change_host_key()
    error = await failure(sshs.connect())
    assert isinstance(error, RefusedError)
    assert "The host key of smx-one is not the one that is recorded on this machine." in error.message
    assert f'-R "{one.alias}"' in error.cure


async def test_a_key_that_is_not_accepted_is_refused_and_used_once_it_is(sshs: Sshs, one: Machine) -> None:
    one.refuse_key()
    connection = sshs.connect()
    error = await failure(connection)
    assert isinstance(error, RefusedError)
    assert "it accepts none of the keys of this user" in error.message
    assert "Permission denied (publickey)." in error.rule
    one.reset()
    assert (await connection.run("hostname")).output == b"box-one\n"


async def test_a_key_with_a_passphrase_waits_for_a_person(sshs: Sshs, one: Machine, tmp_path: Path) -> None:
    del one
    key = tmp_path / "locked"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", os.fspath(key)]
    await asyncio.to_thread(subprocess.run, words, check=True)
    config = tmp_path / "config"
    direct = sshs.world.folder / "ssh_config"
    text = direct.read_text(encoding="utf-8").replace(f'"{sshs.world.identity_file}"', f'"{key}"')
    config.write_text(text, encoding="utf-8")
    error = await failure(sshs.connect(program="ssh", config_file=os.fspath(config)))
    assert isinstance(error, UnavailableError)
    assert f"the key {key} has a passphrase, which a person must type" in error.message
    assert f"ssh -F {config} -M -N -f" in error.cure


async def test_the_control_path_of_a_user_s_own_configuration_is_used_if_a_master_runs_there(
    sshs: Sshs, one: Machine, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(f"ControlPath {sshs.folder}/%C\nInclude {sshs.world.folder}/ssh_config\n", encoding="utf-8")
    words = ["ssh", "-F", os.fspath(config), "-M", "-N", "-f", one.alias]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    await asyncio.to_thread(subprocess.run, words, check=True, **quiet)
    before = logins(one)
    connection = sshs.connect(program="ssh", config_file=os.fspath(config))
    assert (await connection.run("hostname")).output == b"box-one\n"
    assert logins(one) == before
    await connection.close()
    assert await connection.check_master()
    await asyncio.to_thread(subprocess.run, [*words[:3], "-O", "exit", one.alias], check=True, **quiet)
    assert (await connection.run("hostname")).output == b"box-one\n"  # without the user's master, over our own
    assert logins(one) == before + 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"program": "/nonexistent/ssh"}, "The program /nonexistent/ssh cannot be started"),
        ({"extra": ("NoSuchOption=yes",)}, "The configuration of ssh has an error"),
        ({"config_file": "/nonexistent/config", "program": "ssh"}, "The configuration of ssh has an error"),
    ],
)
async def test_an_ssh_that_is_missing_or_wrongly_configured_is_refused(
    sshs: Sshs, words: dict[str, object], text: str
) -> None:
    error = await failure(sshs.connect(**words))
    assert isinstance(error, RefusedError)
    assert text in error.message


async def test_a_name_that_is_configured_nowhere_is_refused_and_a_configured_one_waits(
    sshs: Sshs, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("Host known\n  HostName gpu.invalid\nHost *\n  Port 2222\n", encoding="utf-8")
    options = {"program": "ssh", "config_file": os.fspath(config)}
    unknown = await failure(sshs.connect("unknown.invalid", **options))
    known = await failure(sshs.connect("known", **options))
    if "Temporary failure" in str(known):
        pytest.skip("this machine has no name server, so no name is known to be wrong")
    assert isinstance(unknown, RefusedError)
    assert f"There is no machine unknown.invalid: it is not in {config}" in unknown.message
    assert isinstance(known, UnavailableError)
    assert "No address is known for gpu.invalid, the host name of known." in known.message
