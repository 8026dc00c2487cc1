from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from worlds.ssh.client_files import BEHIND
from worlds.ssh.ssh_world import SshWorld, remove

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from worlds.ssh.machine import Machine

pytestmark = [pytest.mark.processes, pytest.mark.heavy("ssh")]
ROOT = Path(__file__).parents[3]
CLOCK = "python3 -Ic 'import time; print(time.time() - time.clock_gettime(time.CLOCK_REALTIME))'"


@pytest.fixture
def one(ssh_world: SshWorld) -> Machine:
    return ssh_world["one"]


def seen(world: SshWorld, machine: Machine, words: str, *options: str) -> str:
    done = world.ssh(machine, words, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_login_shows_another_user_host_name_network_and_process_numbers(ssh_world: SshWorld) -> None:
    for machine in ssh_world.machines:
        lines = seen(ssh_world, machine, "id -un; id -u; hostname; cat /proc/1/comm; hostname -I").splitlines()
        assert lines == ["far-user", "4211", f"box-{machine.name}", "sh", f"{machine.address} "[:-1]], machine.name
    assert len({(machine.root.parent / "ns/net").readlink() for machine in ssh_world.machines}) == 3
    assert machine.address not in Path("/proc/net/fib_trie").read_text()


def test_the_repository_home_and_temporary_files_of_this_machine_are_not_there(
    ssh_world: SshWorld, tmp_path: Path
) -> None:
    (tmp_path / "here").touch()
    for machine in ssh_world.machines:
        for path in (ROOT, Path.home() / ".ssh", tmp_path / "here", ssh_world.folder):
            assert machine.run(f"test -e '{path}'", root=True, check=False).returncode == 1, path
        assert machine.run("ls -A /mnt /media /srv | grep -v :", root=True, check=False).stdout.strip() == ""
        seen(ssh_world, machine, "test ! -w /usr && test ! -w /etc && touch ~/file /tmp/file")
        assert (machine.home / "file").stat().st_uid == machine.uid
        machine.wipe()
        assert not (machine.home / "file").exists()


def test_a_machine_reaches_the_others(ssh_world: SshWorld) -> None:
    for other in ssh_world.machines:
        words = f"exec 3<>/dev/tcp/{other.name}/22; head -c 3 <&3"
        assert seen(ssh_world, ssh_world["one"], f"timeout 10 bash -c '{words}'") == "SSH"


def test_python_is_at_another_path_and_machine_three_has_another_version_if_there_is_one(ssh_world: SshWorld) -> None:
    for machine in ssh_world.machines:
        words = "command -v python3; python3 -Ic 'import sys; print(sys.prefix, *sys.version_info[:2])'"
        path, prefix = seen(ssh_world, machine, words).splitlines()
        assert path == machine.python != sys.executable
        assert prefix.split() == ["/opt/python", *machine.plan.version.split(".")]
    if ssh_world["three"].plan.base:
        assert ssh_world["three"].plan.version != ssh_world["one"].plan.version


def test_the_clock_of_python_on_machine_two_is_an_hour_ahead(ssh_world: SshWorld) -> None:
    one, two, _ = ssh_world.machines
    assert float(seen(ssh_world, two, CLOCK)) == pytest.approx(3600, abs=1)
    assert float(seen(ssh_world, one, CLOCK)) == pytest.approx(0, abs=1)
    one.set_clock(-20)
    assert float(one.run(CLOCK).stdout) == pytest.approx(-20, abs=1)
    ssh_world.reset()
    assert float(one.run(CLOCK).stdout) == pytest.approx(0, abs=1)


def test_packets_to_a_machine_vanish_until_its_network_is_restored(ssh_world: SshWorld, one: Machine) -> None:
    with open_session(ssh_world) as session:
        assert answer(session, "first") == "first"
        one.cut()
        session.stdin.write("second\n")
        session.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            ssh_world.ssh(one, "true", timeout=1)
        assert session.poll() is None
        one.restore()
        assert session.stdout.readline() == "second\n"
        session.stdin.close()
    assert seen(ssh_world, one, "echo again") == "again"


def test_a_machine_that_is_killed_has_its_files_and_no_process_when_it_is_on_again(
    ssh_world: SshWorld, one: Machine
) -> None:
    seen(ssh_world, one, "echo kept >~/file; echo lost >/tmp/file; setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
    (sleeper,) = [each for each in one.processes() if "1000" in each.command]
    one.kill()
    one.cut()
    one.restore()
    assert not Path(f"/proc/{sleeper.pid}").exists()
    assert (one.home / "file").read_text() == "kept\n"
    with pytest.raises(RuntimeError, match="Machine one is off"):
        one.run("true")
    one.start()
    assert seen(ssh_world, one, "cat ~/file; ls /tmp") == "kept"
    assert one.processes() == []
    one.wipe()


def test_a_stopped_sshd_refuses_new_connections_and_keeps_open_ones(ssh_world: SshWorld, one: Machine) -> None:
    with open_session(ssh_world) as session:
        answer(session, "first")
        one.stop_sshd()
        assert "Connection refused" in ssh_world.ssh(one, "true").stderr
        assert answer(session, "second") == "second"
        one.stop_sshd(sessions=True)
        assert session.wait(10) == 255
    ssh_world.reset()
    seen(ssh_world, one, "true")


def test_sshd_takes_options_and_gives_them_up(ssh_world: SshWorld, one: Machine) -> None:
    one.set_sshd("ForceCommand echo forced", "MaxSessions 2")
    assert seen(ssh_world, one, "true") == "forced"
    ssh_world.reset()
    assert seen(ssh_world, one, "true") == ""


def test_a_delay_is_added_to_each_round_trip(ssh_world: SshWorld, one: Machine) -> None:
    one.delay(0.1)
    assert 0.1 <= round_trip(ssh_world, "-F", os.fspath(ssh_world.config_file)) < 0.2
    assert 0.1 <= round_trip(ssh_world) < 0.2
    ssh_world.reset()
    assert round_trip(ssh_world) < 0.1


def test_a_full_disk_takes_no_more_bytes(ssh_world: SshWorld, one: Machine) -> None:
    one.fill_disk()
    assert "No space left on device" in ssh_world.ssh(one, "head -c 100000 /dev/zero >~/file").stderr
    one.free_disk()
    seen(ssh_world, one, "head -c 100000 /dev/zero >~/file && rm ~/file")


def test_another_host_key_is_refused(ssh_world: SshWorld, one: Machine) -> None:
    one.change_host_key()
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in ssh_world.ssh(one, "true").stderr
    ssh_world.reset()
    seen(ssh_world, one, "true")


def test_a_host_key_can_be_new_and_a_login_key_refused(ssh_world: SshWorld, one: Machine) -> None:
    one.forget_host_key()
    assert "Host key verification failed" in ssh_world.ssh(one, "true").stderr
    assert ssh_world.ssh(one, "true", "-o", "StrictHostKeyChecking=accept-new").returncode == 0
    seen(ssh_world, one, "true")
    one.refuse_key()
    assert "Permission denied (publickey)" in ssh_world.ssh(one, "true").stderr
    ssh_world.reset()
    seen(ssh_world, one, "true")


def test_a_code_is_asked_for_after_the_key(ssh_world: SshWorld, one: Machine) -> None:
    one.require_code()
    assert "Permission denied (keyboard-interactive)" in ssh_world.ssh(one, "true").stderr
    command = ["ssh", one.alias, "hostname"]
    given = subprocess.run(command, env=ssh_world.answer_questions(), capture_output=True, text=True, check=False)
    assert (given.returncode, given.stdout) == (0, "box-one\n"), given.stderr


def test_a_home_can_be_locked(ssh_world: SshWorld, one: Machine) -> None:
    one.lock_home()
    assert "Permission denied" in ssh_world.ssh(one, "touch ~/file").stderr
    ssh_world.reset()
    seen(ssh_world, one, "touch ~/file && rm ~/file")


def test_open_connections_end_in_silence_when_this_side_gets_another_address(ssh_world: SshWorld, one: Machine) -> None:
    with open_session(ssh_world, "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=1") as session:
        assert answer(session, "first") == "first"
        ssh_world.change_address()
        assert seen(ssh_world, one, "echo $SSH_CLIENT").startswith("10.77.0.25")
        assert session.wait(10) == 255


def test_a_machine_is_reached_through_another_one(ssh_world: SshWorld, one: Machine) -> None:
    words = ["ssh", "-F", ssh_world.config_file, BEHIND, "hostname; echo $SSH_CLIENT"]
    for command, environment in ((words, os.environ), (["ssh", *words[3:]], ssh_world.environment)):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout.split()[:2] == ["box-three", one.address], done.stderr


def test_python_can_be_hidden(ssh_world: SshWorld, one: Machine) -> None:
    one.hide_python()
    words = f"command -v python3 python; ls /usr/bin/python3* {one.python}; uname -s | sed s/L/l/"
    assert seen(ssh_world, one, f"{words} 2>/dev/null") == "linux"
    ssh_world.reset()
    assert seen(ssh_world, one, "command -v python3; /usr/bin/env python3 -c 'print(1)'") == f"{one.python}\n1"


def test_messages_by_the_worlds_own_network_are_those_of_a_real_one(ssh_world: SshWorld, one: Machine) -> None:
    ssh = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1", one.alias, "hostname"]
    done = subprocess.run(ssh, env=ssh_world.environment, capture_output=True, text=True, check=True)
    assert done.stdout == "box-one\n"
    one.cut()
    done = subprocess.run(ssh, env=ssh_world.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (255, "ssh: connect to host 10.77.0.1 port 22: Connection timed out\n")


def test_a_world_ends_with_the_process_that_made_it_and_leaves_no_mount(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from worlds.ssh.ssh_world import SshWorld\n"
        "world = SshWorld.create(Path(sys.argv[1]))\n"
        "print(world.supervisor_pid, *(machine.pid for machine in world.machines), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.fspath(ROOT / "tests")}
    command = [sys.executable, "-c", script, tmp_path / "w"]
    pids = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.split()
    assert len(pids) == 4
    eventually_blocking(lambda: not any(Path("/proc", pid).exists() for pid in pids), "the world has ended")
    assert os.fspath(tmp_path) not in Path("/proc/mounts").read_text()
    remove(tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_one_command_makes_a_world_and_another_one_takes_it_away(short_folder: Path) -> None:
    command = [sys.executable, ROOT / "tests/worlds/ssh"]
    folder = short_folder / "a world, 100%d"
    begun = time.monotonic()
    subprocess.run([*command, "up", folder], check=True, capture_output=True)
    assert time.monotonic() - begun < 10
    try:
        world = SshWorld.attach(folder)
        subprocess.run([*command, "kill", folder, "two"], check=True)
        assert [machine.is_on for machine in world.machines] == [True, False, True]
        assert seen(world, world["three"], "hostname") == "box-three"
        command_of_world = ["ssh", world["three"].alias, "hostname"]
        assert subprocess.run(command_of_world, env=world.environment, check=True, capture_output=True).stdout
    finally:
        subprocess.run([*command, "down", folder], check=True)
    assert not folder.exists()
    assert not Path(f"/proc/{world.supervisor_pid}").exists()


def test_a_folder_that_is_no_world_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(RuntimeError, match="it is no test world"):
        remove(tmp_path)
    assert (tmp_path / "precious").exists()


def open_session(world: SshWorld, *options: str) -> subprocess.Popen[str]:
    command = ["ssh", "-o", "BatchMode=yes", *options, "smx-one", "cat"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=world.environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )


def round_trip(world: SshWorld, *options: str) -> float:
    """Give the shortest of three: what delays one of them now and then is this machine."""
    with open_session(world, *options) as session:
        moments = [time.monotonic() for _ in range(4) if answer(session, "word")]
        session.stdin.close()
    return min(after - before for before, after in pairwise(moments))


def answer(session: subprocess.Popen[str], word: str) -> str:
    session.stdin.write(f"{word}\n")
    session.stdin.flush()
    return session.stdout.readline().strip()
