"""Verbs of the archive that clusters with a scheduler need: results that are kept, and a socket for one command."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.remote import results
from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName
from jupyter_smx.agent.remote.relay import RecentReads

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = HostName("f00d", "algo-1")


def store_with(folder: Path, *jobs: str) -> ClusterStore:
    store = ClusterStore(os.fspath(folder / "node"))
    store.describe(NAME, {"owner": "me"})
    for job in jobs:
        place = Path(store.folder(NAME).spool, job)
        (place / "artifacts").mkdir(parents=True)
        (place / "end.json").write_text(json.dumps({"job": job}))
        (place / "artifacts" / "model.tar.gz").write_bytes(b"x" * 1000)
        (place / "artifacts" / "link").symlink_to("/etc/passwd")
    return store


def keep(store: ClusterStore, home: Path) -> list[str]:
    question = {"cluster": NAME.cluster, "host": NAME.host, "home": os.fspath(home)}
    found: list[str] = results.keep_results(store, question)["jobs"]
    return found


def test_uncollected_results_are_copied_to_the_home_with_links_as_links(tmp_path: Path) -> None:
    store = store_with(tmp_path, "a", "b")
    assert keep(store, tmp_path / "home") == ["a", "b"]
    kept = Path(ClusterStore(os.fspath(tmp_path / "home")).folder(NAME).spool)
    assert json.loads((kept / "b" / "end.json").read_text()) == {"job": "b"}
    assert (kept / "a" / "artifacts" / "model.tar.gz").stat().st_size == 1000
    assert (kept / "a" / "artifacts" / "link").is_symlink()
    assert ClusterStore(os.fspath(tmp_path / "home")).description(NAME) == {"owner": "me"}


def test_a_copy_that_was_cut_off_is_made_again_and_a_whole_one_stays(tmp_path: Path) -> None:
    store = store_with(tmp_path, "a")
    kept = Path(ClusterStore(os.fspath(tmp_path / "home")).folder(NAME).spool)
    (kept / "a.part").mkdir(parents=True)
    (kept / "a.part" / "half").touch()
    keep(store, tmp_path / "home")
    assert sorted(path.name for path in (kept / "a").iterdir()) == ["artifacts", "end.json"]
    (kept / "a" / "end.json").write_text("whole")
    keep(store, tmp_path / "home")
    assert (kept / "a" / "end.json").read_text() == "whole"


def test_nothing_is_copied_where_hosts_have_their_folders_in_the_home_or_left_nothing(tmp_path: Path) -> None:
    store = store_with(tmp_path, "a")
    assert keep(store, Path(store.root)) == ["a"]
    assert keep(ClusterStore(os.fspath(tmp_path / "empty")), tmp_path / "home") == []
    assert not (tmp_path / "home").exists()


@pytest.mark.processes
def test_a_socket_becomes_a_command_for_one_connection(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_smx.agent", "remote", "bridge", os.fspath(tmp_path)],
        input=json.dumps({"words": ["/bin/sh", "-c", "echo $PPID; exec cat"]}) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    path = Path(json.loads(done.stdout)["answer"]["socket"])
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.fspath(path))
        with connection.makefile("rwb", buffering=0) as stream:
            assert stream.readline().strip().isdigit()
            stream.write(b"\x00\xff\n")
            assert stream.readline() == b"\x00\xff\n"
    assert not path.parent.exists()


@pytest.mark.processes
def test_a_relay_carries_what_an_agent_says_after_a_signal_to_all_processes_of_a_job(tmp_path: Path) -> None:
    with relayed(tmp_path) as (process, agent):
        assert process.stdout is not None
        process.terminate()
        agent.sendall(b"saved")
        agent.shutdown(socket.SHUT_RDWR)
        assert process.stdout.read() == b"saved"
    assert process.returncode == 0


@pytest.mark.processes
def test_a_relay_carries_bulk_in_small_pieces_and_a_short_request_after_it(tmp_path: Path) -> None:
    bulk, back = os.urandom(2_000_000), os.urandom(2_000_000)
    with relayed(tmp_path) as (process, agent):
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018 - both are pipes

        def write(stdin: int) -> None:
            for start in range(0, len(bulk), 1_000):
                os.write(stdin, bulk[start : start + 1_000])
            os.write(stdin, b"run")

        writer = threading.Thread(target=write, args=(process.stdin.fileno(),))
        writer.start()
        with agent.makefile("rb") as stream:
            assert stream.read(len(bulk) + 3) == bulk + b"run"
        writer.join()
        sender = threading.Thread(target=agent.sendall, args=(back,))
        sender.start()
        assert process.stdout.read(len(back)) == back
        sender.join()
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.processes
def test_a_relay_acknowledges_a_piece_whose_rest_does_not_come(tmp_path: Path) -> None:
    with relayed(tmp_path) as (process, agent):
        assert process.stdin is not None and process.stderr is not None  # noqa: PT018 - both are pipes
        os.write(process.stdin.fileno(), b"x" * 1_000)
        assert agent.recv(4_096) == b"x" * 1_000
        os.write(process.stdin.fileno(), b"y" * 1_024)
        assert select.select([process.stderr], [], [], 10)[0], "nothing acknowledges the piece"
        assert process.stderr.read(1) == b"\n", "TCP sends the rest of a request with this"
        os.write(process.stdin.fileno(), b"rest")
        process.stdin.close()
        with agent.makefile("rb") as stream:
            assert stream.read() == b"y" * 1_024 + b"rest"
        assert process.stderr.read() == b""


@pytest.mark.processes
@pytest.mark.parametrize(("errors", "variable"), [(STDOUT, "SLURM_STEP_ID"), (PIPE, "SLURM_JOB_ID")])
def test_a_relay_acknowledges_nothing_without_a_step_or_an_error_output_of_its_own(
    tmp_path: Path, errors: int, variable: str
) -> None:
    answer = os.urandom(100_000)
    with relayed(tmp_path, errors=errors, variable=variable) as (process, agent):
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018 - both are pipes
        os.write(process.stdin.fileno(), b"y" * 1_024)
        assert agent.recv(4_096) == b"y" * 1_024
        assert not select.select([process.stderr or process.stdout], [], [], 0.1)[0]
        agent.sendall(answer)  # more than a pipe takes at once
        agent.shutdown(socket.SHUT_RDWR)
        assert process.stdout.read() == answer
        assert process.stderr is None or process.stderr.read() == b""


def test_an_input_is_read_at_once_but_in_the_middle_of_bulk_in_small_pieces() -> None:
    reads = RecentReads()
    for _ in range(64):
        reads.add(1024, 0.0)
        assert not reads.are_bulk_in_pieces(), "a request for a job"
    reads.add(1024, 0.0)
    assert reads.are_bulk_in_pieces(), "bulk: wait until there is more"
    reads.add(40_000, 0.0)
    assert not reads.are_bulk_in_pieces(), "bulk in large pieces"
    reads.add(1024, 0.5)
    assert not reads.are_bulk_in_pieces(), "a request after a pause"


@contextmanager
def relayed(
    folder: Path, *, errors: int = PIPE, variable: str = "SLURM_STEP_ID"
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """Give a relay, connected to the socket of an agent."""
    path = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        words = [sys.executable, "-m", "jupyter_smx.agent", "remote", "relay", os.fspath(folder), os.fspath(path)]
        step = {**os.environ, variable: "0"}
        with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=errors, env=step) as process:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"+"
            agent, _ = listener.accept()
            with agent:
                yield process, agent
