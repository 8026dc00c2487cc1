"""Programs that mpirun starts on each host of a job: what they contain, where they are, and what trusts them."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.launchers import mpi_programs
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXTS = {"reach": "#!/bin/sh\n", "rank": "#!/bin/sh\n"}


def info(base: str) -> HostInfo:
    return HostInfo("algo-2", ["algo-1", "algo-2"], [], "g", "local", 1, 0, base=base)


@pytest.mark.parametrize(
    ("base", "own"),
    [
        ("/opt/ml", {"NCCL_SOCKET_IFNAME": "ens3"}),
        ("/home/u/host/ml", {"NCCL_SOCKET_IFNAME": "ens3", "SM_MODEL_DIR": "/home/u/host/ml/model"}),
    ],
)
def test_a_rank_has_the_paths_and_the_interface_of_its_own_host(base: str, own: Mapping[str, str]) -> None:
    environment = {
        "NCCL_SOCKET_IFNAME": "ens3",
        "SM_MODEL_DIR": "/home/u/host/ml/model",
        "SM_HOSTS": "[]",
        "HOME": "/h",
    }
    assert mpi_programs.own_variables(environment, info(base)) == own
    urls = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": "/shown/a.yaml"}
    front = {"JUPYTER_SMX_AWS": ",".join([*urls, "AWS_SECRET_ACCESS_KEY"]), **urls, "AWS_SECRET_ACCESS_KEY": "secret"}
    assert mpi_programs.own_variables({**environment, **front}, info(base)) == {**own, **urls}
    assert mpi_programs.own_variables({}, info("/opt/ml")) == {}


def test_the_program_of_a_rank_starts_in_the_hosts_folder_with_the_hosts_words(tmp_path: Path) -> None:
    folder = tmp_path / "it's"
    folder.mkdir()
    words = ["python3", "-c", "import os, sys; print(os.getcwd(), os.environ['A'], sys.argv[1:])", "two words", "$HOME"]
    program = tmp_path / "rank"
    program.write_text(mpi_programs.rank_text(str(folder), {"A": "x'y z"}, words))
    program.chmod(0o700)
    done = subprocess.run([program], env={**os.environ, "A": "leader"}, capture_output=True, text=True, check=True)
    assert done.stdout == f"{folder} x'y z ['two words', '$HOME']\n"


def test_only_the_user_can_read_the_key_and_nothing_is_left() -> None:
    with mpi_programs.leader_programs(TEXTS, apart=True) as programs:
        folder = Path(programs.rank).parent
        assert folder.parent == Path("/tmp")  # noqa: S108 - every machine has it
        assert programs.read_settings() == {}
        programs.write_settings({"key": "k", "ends": {"algo-2": ("10.0.0.6", 12_009)}, "version": "4.1.4"})
        assert stat.S_IMODE((folder / "hosts.json").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        again = mpi_programs.Programs(os.fspath(folder)).read_settings()
        assert again == {"key": "k", "ends": {"algo-2": ("10.0.0.6", 12_009)}, "version": "4.1.4"}
        assert programs.read_refusal() == ""
        programs.write_refusal("first")
        programs.write_refusal("second")
        assert programs.read_refusal() == "first"
    assert not folder.exists()


def test_on_another_machine_a_folder_of_someone_else_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "smx-mpi-x"
    remote_shell = os.fspath(folder / "reach")
    with mpi_programs.worker_programs(remote_shell, TEXTS, apart=True):
        assert sorted(path.name for path in folder.iterdir()) == ["rank", "reach"]
    assert not folder.exists()
    folder.mkdir()
    with pytest.raises(FileExistsError), mpi_programs.worker_programs(remote_shell, TEXTS, apart=True):
        pass
    with mpi_programs.worker_programs(remote_shell, TEXTS, apart=False):
        assert [*folder.iterdir()] == [], "hosts that share the folder have what the leader wrote"
