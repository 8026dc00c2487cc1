"""``TF_CONFIG`` beside the one that the real ``sagemaker-tensorflow-training`` of SageMaker's images makes."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from jupyter_smx.agent.contract import distribution, scriptmode, tfconfig, training_toolkit
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from pathlib import Path

    from real_toolkit import RealPackages

pytestmark = pytest.mark.heavy("toolkits")

# Does what the image does up to the moment in which it would start the script, and tells what that would see.
TRAIN = """
import json, os, sys, types
for name in ("tensorflow", "sagemaker_tensorflow_container.s3_utils"):
    sys.modules[name] = types.ModuleType(name)
from sagemaker_training import environment
from sagemaker_tensorflow_container import training
def tell(**words):
    runner = words.get("runner_type")
    print("CONFIG" + json.dumps([words["env_vars"].get("TF_CONFIG"), runner.name if runner else ""]))
training.entry_point.run = tell
training._run_ps = lambda env, cluster: print("SERVER" + json.dumps([cluster, env.current_host]))
training._wait_until_master_is_down = lambda master: print("WAITS" + json.dumps(master))
env = environment.Environment()
training.train(env, env.to_cmd_args())
"""
SERVERS = {"sagemaker_parameter_server_enabled": "true"}
MIRRORED = {"sagemaker_multi_worker_mirrored_strategy_enabled": "true"}
MPI = {"sagemaker_mpi_enabled": "true"}
HOSTS = ["algo-1", "algo-10", "algo-2"]
GROUP = ["algo-2", "algo-10"]
MASTER = 2222
"""Where their ``_wait_until_master_is_down`` looks."""


class There(NamedTuple):
    """What the image does on one host: what its script is told, by what it is started, and what is done beside it."""

    config: str | None
    runner: str
    server: list[Any] | None
    awaited: str | None


def there(packages: RealPackages, folder: Path, files: dict[str, str]) -> There:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [str(packages.python), "-c", TRAIN],
        env={**packages.environment(), "SAGEMAKER_BASE_DIR": str(folder), "TRAINING_JOB_NAME": "job-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    def said(word: str) -> Any:
        lines = [line for line in done.stdout.splitlines() if line.startswith(word)]
        return json.loads(lines[0][len(word) :]) if lines else None

    return There(*said("CONFIG"), said("SERVER"), said("WAITS"))


def a_place(host: str, hosts: list[str], groups: list[str]) -> HostInfo:
    whole = {"instance_group_name": "homogeneousCluster", "instance_type": "ml.c5.xlarge", "hosts": hosts}
    parts, group = [whole], "homogeneousCluster"
    if groups:
        rest = [one for one in hosts if one not in groups]
        parts = [{**whole, "instance_group_name": "data", "hosts": rest}]
        parts.append({**whole, "instance_group_name": "dnn", "hosts": groups})
        group = "dnn" if host in groups else "data"
    return HostInfo(host, hosts, parts, group, "ml.c5.xlarge", 2, 0)


@pytest.mark.parametrize(
    ("flags", "hosts", "groups", "host"),
    [
        (SERVERS, HOSTS, [], "algo-1"),
        (SERVERS, HOSTS, [], "algo-2"),
        (SERVERS, HOSTS[:1], [], "algo-1"),
        (MIRRORED, HOSTS, [], "algo-10"),
        (MIRRORED, HOSTS[:1], [], "algo-1"),
        (SERVERS | MIRRORED, HOSTS, [], "algo-10"),
        (MIRRORED | MPI, HOSTS, [], "algo-2"),
        (SERVERS | MIRRORED | MPI, HOSTS, [], "algo-2"),
        (SERVERS | MPI, HOSTS[:1], [], "algo-1"),
        (MIRRORED, HOSTS, GROUP, "algo-10"),
        (MIRRORED, HOSTS, GROUP, "algo-1"),
        (MIRRORED | MPI, HOSTS, GROUP, "algo-1"),
        (SERVERS, HOSTS, GROUP, "algo-2"),
        (SERVERS, HOSTS, GROUP, "algo-10"),
    ],
)
def test_a_script_is_told_the_very_text_that_it_is_told_there(
    real_packages: RealPackages, tmp_path: Path, flags: dict[str, str], hosts: list[str], groups: list[str], host: str
) -> None:
    place = a_place(host, hosts, groups)
    given = flags | ({"sagemaker_distribution_instance_groups": '["dnn"]'} if groups else {})
    spec = scriptmode.complete({"source": "pass", "hyperparameters": given})
    ours = scriptmode.variables(spec, place)
    theirs = there(real_packages, tmp_path, scriptmode.config_files(spec, place))
    assert training_toolkit.variables(spec, place)["SM_CURRENT_HOST"] == host
    assert ours.get("TF_CONFIG") == theirs.config
    launched = distribution.launcher_distribution(spec, place)
    assert (launched is not None and launched.runner == "mpi") == (theirs.runner == "MPI")
    found = distribution.host_distribution(spec, place)
    serves = found is not None and found.runner == tfconfig.PARAMETER_SERVER
    assert serves == (theirs.server is not None)
    if serves:
        assert found is not None
        assert theirs.server == [tfconfig.cluster(found.hosts, place), host]
        # Theirs asks for the first of all hosts, also where that is in another group and never listens.
        assert theirs.awaited == (None if host == hosts[0] else hosts[0])
        assert groups or theirs.awaited in {None, found.hosts[0]}
        assert tfconfig.leader_port(found.hosts, place) == MASTER
