from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.engines.machine import resources

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine_has_what_the_system_says() -> None:
    found = resources.detect_machine()
    assert 1 <= found.cpus <= len(os.sched_getaffinity(0))
    assert 0 < found.memory <= psutil.virtual_memory().total
    assert found.memory_gib() == pytest.approx(found.memory / 2**30)


def test_the_tightest_limit_of_all_control_groups_above_counts_version_2(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user/notebook\n",
            "sys/fs/cgroup/user/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user/notebook/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user/memory.max": "4294967296\n",
            "sys/fs/cgroup/user/notebook/memory.max": "max\n",
        },
    )
    assert resources.cpu_quotas(tmp_path) == [1.5]
    assert resources.memory_limits(tmp_path) == [4 * 2**30]


def test_limits_of_version_1_are_read_and_its_huge_number_is_no_limit(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/box\n9:memory:/box\n1:name=systemd:/box\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1073741824\n",
        },
    )
    assert resources.cpu_quotas(tmp_path) == [0.5]
    assert resources.memory_limits(tmp_path) == [2**30]


def test_in_a_container_the_groups_own_root_counts(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/../../elsewhere\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"})
    assert resources.cpu_quotas(tmp_path) == [3.0]


def test_a_machine_without_control_groups_or_gpus_has_no_limits(tmp_path: Path) -> None:
    assert resources.cpu_quotas(tmp_path) == []
    assert resources.memory_limits(tmp_path) == []
    assert resources.count_gpus(tmp_path, {}) == 0


@given(affinity=st.integers(1, 512), quotas=st.lists(st.floats(0.01, 600)))
def test_usable_cpus_never_exceed_a_limit_by_a_whole_one_and_are_at_least_one(
    affinity: int, quotas: list[float]
) -> None:
    cpus = resources.usable_cpus(affinity, quotas)
    assert 1 <= cpus <= affinity
    assert all(cpus < quota + 1 for quota in quotas) or cpus == 1
    assert cpus in (1, affinity) or cpus in {math.ceil(quota - 0.01) for quota in quotas}


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, 4), ("", 0), ("-1", 0), ("0,2", 2), ("1,9,2", 1), ("GPU-a,GPU-b", 2), ("0,1,2,3,0,1", 4), ("0, 1", 2)],
)
def test_gpus_are_counted_as_cuda_would_see_them(tmp_path: Path, visible: str | None, expected: int) -> None:
    devices = ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm")
    write(tmp_path, {f"dev/{name}": "" for name in devices})
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert resources.count_gpus(tmp_path, environ) == expected


def test_amd_gpus_are_counted_and_processors_in_the_same_list_are_not(tmp_path: Path) -> None:
    nodes = "sys/class/kfd/kfd/topology/nodes"
    write(tmp_path, {f"{nodes}/0/gpu_id": "0\n", f"{nodes}/1/gpu_id": "53194\n", f"{nodes}/2/gpu_id": "4711\n"})
    assert resources.count_gpus(tmp_path, {}) == 2
    assert resources.count_gpus(tmp_path, {"HIP_VISIBLE_DEVICES": "1"}) == 1
