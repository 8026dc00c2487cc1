"""Jobs that write to the literal /opt/ml where hosts have none of their own and may use that of the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("shared_opt_ml.py")
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
EMPTY_OPT = "mount -t tmpfs -o mode=755 tmpfs /opt"
IN_NAMESPACES = (*NAMESPACES, "sh", "-ec", f'{EMPTY_OPT}; exec "$@"', "sh")
"""A machine whose hosts could have namespaces of their own."""
WITHOUT_RIGHTS = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
IN_A_POD = (
    *(NAMESPACES[0], "--user", "--map-root-user", *NAMESPACES[1:]),
    *("sh", "-ec", f'{EMPTY_OPT}; echo 0 >/proc/sys/user/max_user_namespaces; exec {WITHOUT_RIGHTS} -- "$@"', "sh"),
)
"""Root of a container without capabilities, which can make no namespaces, as in most pods."""
PATIENCE = 240.0
PROGRAMS = ("unshare", "setpriv", "mount")


def run(surroundings: tuple[str, ...], *words: object) -> subprocess.CompletedProcess[str]:
    command = ["timeout", "-s", "KILL", f"{PATIENCE}", *surroundings, sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def check_possible(surroundings: tuple[str, ...]) -> None:
    """Skip a test where a Python is in /opt, or the machine gives no such surroundings."""
    if not all(map(shutil.which, PROGRAMS)) or sys.base_prefix.startswith("/opt/"):
        pytest.skip("needs util-linux, and a Python that is not in /opt")
    if run(surroundings, "-c", "").returncode:
        pytest.skip("this machine gives no such namespaces")


def check_jobs(told: dict[str, Any]) -> None:
    """Check what each job found and left, and that no other host had the folder at the same time."""
    assert all("found [] False" in run and "Completed" in run for run in told["runs"]), told
    assert told["outputs"] == ["model.tar.gz"] * 2
    assert "links in the /opt/ml of the machine" in told["why"]
    assert "machine opt ml: leads to one host at a time" in told["doctor"]
    assert "extra" not in told["inside"]
    assert "model" in told["inside"]
    assert "the /opt/ml of this machine leads to another host" in told["other_controller"]
    assert "turn the option off" in told["other_controller"]
    assert "found" not in told["other_controller"]
    assert "found [] False" in told["other_pool"], "the idle pool made room"
    assert "Completed" in told["other_pool"]


def test_files_in_the_literal_folder_are_collected_and_the_next_job_finds_none(tmp_path: Path) -> None:
    check_possible(IN_NAMESPACES)
    done = run(IN_NAMESPACES, PROGRAM, "host", tmp_path, "c.LocalEngine.isolate = False")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check_jobs(told)
    assert "LocalEngine.isolate is off" in told["doctor"]


def test_a_pod_without_rights_has_the_literal_folder_by_the_option_alone(tmp_path: Path) -> None:
    """The hosts find out by themselves that they have no namespaces, and the reason is that of the system."""
    check_possible(IN_A_POD)
    done = run(IN_A_POD, PROGRAM, "host", tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check_jobs(told)
    assert "isolation: variables" in told["doctor"]
    assert "reason: unshare: " in told["doctor"]


def test_an_image_with_the_folder_lets_it_lead_to_one_job_at_a_time(tmp_path: Path) -> None:
    check_possible(IN_A_POD)
    done = run(IN_A_POD, PROGRAM, "job", tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "found first" in told["first"], "a job beside it with SM_MODEL_DIR writes elsewhere"
    assert "because a job of another host uses the /opt/ml of the machine" in told["beside"]
    assert told["idle"] == [".jupyter-smx-lock"], "idle pools leave it to the jobs of others"
    assert "found [] False" in told["after"]
    assert "Completed" in told["after"]
    assert len(told["outputs"]) == 3, told
    assert "machine opt ml: leads to one job at a time" in told["doctor"]


def test_a_pod_has_no_rights() -> None:
    """The surroundings of the test above are those of a pod: what makes a namespace fails."""
    check_possible(IN_A_POD)
    source = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
        "print(os.getuid(), [libc.unshare(flag) for flag in (0x20000, 0x10000000)], os.access('/opt', os.W_OK))"
    )
    assert run(IN_A_POD, "-c", source).stdout.split("\n")[0] == "0 [-1, -1] True"
