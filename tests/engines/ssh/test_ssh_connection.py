"""Commands and sessions over the system's ssh, on a machine with an sshd of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from ssh_helpers import logins
from worlds.ssh.client_files import BEHIND

from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from ssh_helpers import Sshs
    from worlds.ssh.machine import Machine
pytestmark = pytest.mark.processes
GATE = "mkfifo ~/gate 2>/dev/null; cat ~/gate; echo passed"


def at_gate(one: Machine) -> int:
    return sum(each.command.startswith("cat ") and "gate" in each.command for each in one.processes())


async def open_gate(one: Machine, tasks: list[asyncio.Task[object]]) -> None:
    async def all_passed() -> bool:
        await asyncio.to_thread(one.run, "timeout 1 sh -c ': > gate'", check=False)
        return all(task.done() for task in tasks)

    await eventually(all_passed, "all commands pass the gate", within=60)


def kill_master(sshs: Sshs, number: int) -> None:
    (pid,) = sshs.masters()
    os.kill(pid, number)


async def test_a_command_gets_its_input_and_gives_code_output_and_errors(sshs: Sshs, one: Machine) -> None:
    connection = sshs.connect()
    done = await connection.run("cat; echo to errors >&2; hostname; exit 3", b"given \0 bytes\n")
    assert done == (3, b"given \0 bytes\nbox-one\n", "to errors\n")
    assert connection.name == one.alias


@pytest.mark.parametrize("words", ["exit 255", "kill -9 $$"])
async def test_a_command_that_ends_as_a_failed_ssh_does_is_no_failure_of_ssh(
    sshs: Sshs, one: Machine, words: str
) -> None:
    before = logins(one)
    connection = sshs.connect()
    assert (await connection.run(f"echo ran; {words}"))[:2] == (255, b"ran\n")
    assert (await connection.run("true")).code == 0
    assert logins(one) == before + 1


async def test_commands_share_one_login_and_at_most_eight_run_at_once(sshs: Sshs, one: Machine) -> None:
    before = logins(one)
    connection = sshs.connect()
    tasks = [asyncio.create_task(connection.run(GATE, timeout=60)) for _ in range(11)]
    await eventually(lambda: at_gate(one) == 8, "eight commands run", within=30)
    assert len([each for each in sshs.processes().values() if "gate" in each]) == 8
    await open_gate(one, tasks)
    assert [task.result().output for task in tasks] == [b"passed\n"] * 11
    assert logins(one) == before + 1


async def test_where_sshd_lets_two_sessions_in_commands_take_turns(sshs: Sshs, one: Machine) -> None:
    one.set_sshd("MaxSessions 2")
    connection = sshs.connect()
    done = await asyncio.gather(*(connection.run(f"echo {number}", timeout=60) for number in range(7)))
    assert [each.output for each in done] == [b"%d\n" % number for number in range(7)]
    async with connection.open("cat") as first, connection.open("cat") as second:
        assert (first.pid, second.pid) != (0, 0)
        with pytest.raises(UnavailableError, match=r"smx-one opened no session.*MaxSessions") as refused:
            await connection.run("true", timeout=4)  # a second was too short on a busy machine
        assert refused.value.transient
    assert (await connection.run("echo again")).output == b"again\n"


async def test_a_master_that_was_killed_is_replaced_at_the_next_command(sshs: Sshs, one: Machine) -> None:
    before = logins(one)
    connection = sshs.connect()
    await connection.run("true")
    kill_master(sshs, signal.SIGKILL)
    assert (await connection.run("echo again")).output == b"again\n"
    assert await connection.check_master()
    assert logins(one) == before + 2
    assert len(sshs.masters()) == 1


async def test_a_stopped_master_is_ended_and_replaced(sshs: Sshs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_smx.engines.ssh.master._CONTROL_TIMEOUT", 1.0)
    connection = sshs.connect()
    await connection.run("true")
    kill_master(sshs, signal.SIGSTOP)
    with pytest.raises(UnavailableError, match="did not answer within 1 s"):
        await connection.run("true", timeout=1)
    assert (await connection.run("echo again")).output == b"again\n"
    assert len(sshs.masters()) == 1


async def test_a_connection_that_ends_below_a_command_is_told(sshs: Sshs, one: Machine) -> None:
    connection = sshs.connect()
    running = asyncio.create_task(connection.run(GATE, timeout=60))
    await eventually(lambda: at_gate(one) == 1, "the command runs")
    one.stop_sshd(sessions=True)
    with pytest.raises(UnavailableError, match="The connection to smx-one ended while a command ran there") as lost:
        await running
    assert lost.value.transient
    with pytest.raises(UnavailableError, match="smx-one accepts no connection on the port of ssh") as refused:
        await connection.run("true")
    assert refused.value.transient
    one.start_sshd()
    assert (await connection.run("echo again")).output == b"again\n"


async def test_a_command_that_takes_too_long_is_given_up_and_leaves_no_process_here(sshs: Sshs, one: Machine) -> None:
    before = logins(one)
    connection = sshs.connect()
    await connection.run("true")
    with pytest.raises(UnavailableError, match=r"^smx-one did not answer within 0.5 s\.$") as late:
        await connection.run(GATE, timeout=0.5)
    assert late.value.transient
    await sshs.only_masters_are_left()
    assert (await connection.run("echo again")).output == b"again\n"
    assert logins(one) == before + 1  # the machine answered, so the connection stayed


async def test_a_caller_that_is_cancelled_leaves_no_client(sshs: Sshs, one: Machine) -> None:
    connection = sshs.connect()
    tasks = [asyncio.create_task(connection.run(GATE, timeout=60)) for _ in range(10)]
    await eventually(lambda: at_gate(one) == 8, "eight commands run", within=30)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert sshs.processes() == sshs.masters()
    assert (await connection.run("echo again")).output == b"again\n"


async def test_a_start_goes_on_for_the_others_if_its_first_caller_is_cancelled(sshs: Sshs, one: Machine) -> None:
    one.delay(0.3)
    before = logins(one)
    connection = sshs.connect(connect_timeout=10.0)
    first, second = (asyncio.create_task(connection.run("echo ran")) for _ in range(2))
    await eventually(sshs.processes, "a start is under way")
    first.cancel()
    assert (await second).output == b"ran\n"
    assert first.cancelled()
    assert logins(one) == before + 1


async def test_a_close_ends_a_start_that_is_under_way(sshs: Sshs, one: Machine) -> None:
    one.cut()
    connection = sshs.connect(connect_timeout=60.0)
    starting = asyncio.create_task(connection.run("true"))
    await eventually(sshs.processes, "a start is under way")
    await connection.close()
    with pytest.raises(UnavailableError, match="The connection to smx-one is closed"):
        await starting
    assert sshs.processes() == {}


async def test_a_network_that_was_away_is_used_again(sshs: Sshs, one: Machine) -> None:
    connection = sshs.connect(connect_timeout=1.0)
    await connection.run("true")
    one.cut()
    with pytest.raises(UnavailableError, match="did not answer within 1 s"):
        await connection.run("true", timeout=1)
    with pytest.raises(UnavailableError, match=r"^smx-one does not answer\..*ssh said: ") as away:
        await connection.run("true", timeout=1)
    assert away.value.transient
    one.restore()
    assert (await connection.run("echo again")).output == b"again\n"
    assert len(sshs.masters()) == 1


async def test_a_laptop_that_got_another_address_connects_again(sshs: Sshs) -> None:
    connection = sshs.connect(connect_timeout=1.0)
    await connection.run("true")
    sshs.world.change_address()
    with pytest.raises(UnavailableError, match="did not answer within 1 s"):
        await connection.run("true", timeout=1)
    assert (await connection.run("echo again")).output == b"again\n"
    assert len(sshs.masters()) == 1


async def test_a_machine_that_is_off_is_unavailable_until_it_is_on_again(sshs: Sshs, one: Machine) -> None:
    connection = sshs.connect(connect_timeout=1.0)
    await connection.run("true")
    one.kill()
    with pytest.raises(UnavailableError) as off:
        await connection.run("true", timeout=1)
    assert off.value.transient
    one.start()
    assert (await connection.run("echo again")).output == b"again\n"


async def test_a_long_command_is_read_and_written_while_it_runs(sshs: Sshs, one: Machine) -> None:
    (one.home / ".bashrc").write_text("echo noise of a startup file\n", encoding="utf-8")
    connection = sshs.connect()
    async with connection.open("while read line; do echo got $line; done; exit 4") as process:
        for word in (b"one", b"two"):
            process.stdin.write(word + b"\n")
            assert await process.stdout.readline() == b"got " + word + b"\n"
        process.stdin.close()
        assert await process.stdout.read() == b""
    assert process.returncode == 4
    await sshs.only_masters_are_left()
    (one.home / ".bashrc").unlink()


async def test_a_long_command_prints_errors_without_end_and_is_ended_with_its_block(sshs: Sshs) -> None:
    connection = sshs.connect()
    async with connection.open("head -c 10000000 /dev/zero >&2; echo done; cat") as process:
        assert await process.stdout.readline() == b"done\n"
    assert process.returncode == -signal.SIGKILL
    assert sshs.processes() == sshs.masters()


async def test_a_long_command_whose_connection_ends_is_told(sshs: Sshs, one: Machine) -> None:
    connection = sshs.connect()

    async def read() -> None:
        async with connection.open("echo started; cat ~/gate") as process:
            assert await process.stdout.readline() == b"started\n"
            one.stop_sshd(sessions=True)
            if not await process.stdout.readline():
                raise ValueError("no answer")

    (one.home / "gate").unlink(missing_ok=True)
    await connection.run("mkfifo ~/gate")
    with pytest.raises(UnavailableError, match="ended while a command ran"):
        await read()


async def test_an_account_without_a_shell_is_told(sshs: Sshs, one: Machine) -> None:
    one.set_sshd("ForceCommand echo This account runs nothing.")
    connection = sshs.connect()
    with pytest.raises(UnavailableError, match="The account on smx-one runs no command"):
        async with connection.open("echo ran"):
            pytest.fail("it opened")


async def test_a_close_ends_the_master_and_its_files(sshs: Sshs) -> None:
    connection = sshs.connect()
    await connection.run("true")
    await connection.close()
    assert sshs.processes() == {}
    assert not [path for path in sshs.folder.iterdir() if path.suffix not in {".lock", ".log"}]
    assert (await connection.run("echo again")).output == b"again\n"


async def test_another_connection_uses_the_same_master_and_does_not_close_it(sshs: Sshs, one: Machine) -> None:
    before = logins(one)
    first, second = sshs.connect(), sshs.connect()
    await asyncio.gather(first.run("true"), second.run("true"))
    assert logins(one) == before + 1
    owner, other = (first, second) if first._master._is_ours else (second, first)
    await other.close()
    assert await owner.check_master()
    await owner.close()
    assert not await owner.check_master()


async def test_a_master_without_sessions_ends_by_itself(sshs: Sshs) -> None:
    connection = sshs.connect(extra=("ControlPersist=1",))
    await connection.run("true")
    await eventually(lambda: sshs.processes() == {}, "the master ends")
    assert (await connection.run("echo again")).output == b"again\n"


async def test_a_machine_behind_another_one_is_reached(sshs: Sshs) -> None:
    connection = sshs.connect(BEHIND)
    assert (await connection.run("hostname")).output == b"box-three\n"


async def test_a_terminal_gets_a_command_over_the_same_login(sshs: Sshs, one: Machine) -> None:
    connection = sshs.connect()
    await connection.run("true")
    before = logins(one)
    words = connection.shell_words("hostname; tty")
    inside = ["script", "-qec", " ".join(f"'{word}'" for word in words), "/dev/null"]
    done = await asyncio.to_thread(subprocess.run, inside, capture_output=True, text=True, check=True)
    assert "box-one\n/dev/pts/" in done.stdout.replace("\r", ""), done
    assert logins(one) == before


@pytest.mark.parametrize("alias", ["-oProxyCommand=touch /tmp/x", "", "two words", "a;b", "box`id`"])
async def test_what_is_no_name_of_a_machine_is_refused(sshs: Sshs, alias: str) -> None:
    with pytest.raises(RefusedError, match="is not the name of a machine"):
        sshs.connect(alias)


async def test_a_user_s_forwardings_and_remote_command_do_not_disturb(sshs: Sshs) -> None:
    lines = "  RemoteCommand tmux attach\n  RequestTTY force\n  LocalForward 1 localhost:1\n  LogLevel QUIET\n"
    own = sshs.folder / "config"
    own.write_text(f"Host smx-one\n{lines}Include {sshs.world.folder}/ssh_config\n", encoding="utf-8")
    connection = sshs.connect(program="ssh", config_file=os.fspath(own))
    assert await connection.run("hostname") == (0, b"box-one\n", "")
