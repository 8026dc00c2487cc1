"""``TF_CONFIG`` beside the one that the real ``sagemaker-tensorflow-training`` of SageMaker's images makes."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.contract import scriptmode, toolkit
from jupyter_smx.agent.place import Place

if TYPE_CHECKING:
    from pathlib import Path

    from real_toolkit import RealPackages

# Does what the image does up to the moment in which it would start the script, and tells what that would see.
TRAIN = """
import json, os, sys, types
for name in ("tensorflow", "sagemaker_tensorflow_container.s3_utils"):
    sys.modules[name] = types.ModuleType(name)
from sagemaker_training import environment
from sagemaker_tensorflow_container import training
def tell(**words):
    print("CONFIG" + json.dumps(words["env_vars"].get("TF_CONFIG")))
training.entry_point.run = tell
training._run_ps = lambda env, cluster: print("SERVER" + json.dumps([cluster, env.current_host]))
training._wait_until_master_is_down = lambda master: print("WAITS" + master)
env = environment.Environment()
training.train(env, env.to_cmd_args())
"""
SERVERS = {"sagemaker_parameter_server_enabled": "true"}
MIRRORED = {"sagemaker_multi_worker_mirrored_strategy_enabled": "true"}
HOSTS = ["algo-1", "algo-10", "algo-2"]


def there(packages: RealPackages, folder: Path, files: dict[str, str]) -> str | None:
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
    found: str | None = json.loads(done.stdout.partition("CONFIG")[2].splitlines()[0])
    return found


@pytest.mark.parametrize(
    ("flags", "hosts", "groups", "host"),
    [
        (SERVERS, HOSTS, [], "algo-1"),
        (SERVERS, HOSTS, [], "algo-2"),
        (SERVERS, HOSTS[:1], [], "algo-1"),
        (MIRRORED, HOSTS, [], "algo-10"),
        (MIRRORED, HOSTS[:1], [], "algo-1"),
        (SERVERS | MIRRORED, HOSTS, [], "algo-10"),
        (MIRRORED, HOSTS, ["algo-2", "algo-10"], "algo-10"),
        (MIRRORED, HOSTS, ["algo-2", "algo-10"], "algo-1"),
        (SERVERS, HOSTS, ["algo-2", "algo-10"], "algo-2"),
        (SERVERS, HOSTS, ["algo-2", "algo-10"], "algo-10"),
    ],
)
def test_a_script_is_told_the_very_text_that_it_is_told_there(
    real_packages: RealPackages, tmp_path: Path, flags: dict[str, str], hosts: list[str], groups: list[str], host: str
) -> None:
    whole = {"instance_group_name": "homogeneousCluster", "instance_type": "ml.c5.xlarge", "hosts": hosts}
    parts, given, group = [whole], flags, "homogeneousCluster"
    if groups:
        rest = [one for one in hosts if one not in groups]
        parts = [{**whole, "instance_group_name": "data", "hosts": rest}]
        parts.append({**whole, "instance_group_name": "dnn", "hosts": groups})
        given = flags | {"sagemaker_distribution_instance_groups": '["dnn"]'}
        group = "dnn" if host in groups else "data"
    place = Place(host, hosts, parts, group, "ml.c5.xlarge", 2, 0)
    spec = scriptmode.complete({"source": "pass", "hyperparameters": given})
    ours = scriptmode.variables(spec, place)
    assert toolkit.variables(spec, place)["SM_CURRENT_HOST"] == host
    assert ours.get("TF_CONFIG") == there(real_packages, tmp_path, scriptmode.config_files(spec, place))
