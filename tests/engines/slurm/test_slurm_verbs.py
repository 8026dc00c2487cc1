"""Verbs of the archive that clusters with a scheduler need: results that are kept, and a socket for one command."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_smx.agent.remote import results
from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName

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
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        words = [sys.executable, "-m", "jupyter_smx.agent", "remote", "relay", os.fspath(tmp_path), os.fspath(path)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as relay:
            assert relay.stdout is not None
            assert relay.stdout.read(1) == b"+"
            agent, _ = listener.accept()
            with agent:
                relay.terminate()
                agent.sendall(b"saved")
            assert relay.stdout.read() == b"saved"
        assert relay.returncode == 0
