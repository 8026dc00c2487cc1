"""Where control groups can be made, and what is written into them, on fake machines of both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.resources import cgroup_limits
from jupyter_smx.agent.system.resources.cgroup_limits import (
    CgroupLimits,
    ParentGroups,
    find_parents,
    group_name,
    make_groups,
    plan_limits,
    remove_groups,
    sweep,
)

if TYPE_CHECKING:
    from pathlib import Path

WISH = CgroupLimits(cpus=4, memory=8 << 30)
TWO = {
    "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
    "sys/fs/cgroup/cgroup.subtree_control": "cpu memory pids\n",
}
SCOPE = "proc/self/cgroup", "0::/user/jupyter.scope\n"


def machine(root: Path, *rows: tuple[str, str], **more: str) -> Path:
    for name, text in (*rows, *more.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Make a machine with version 1, where each controller has its own hierarchy."""
    for folder in ("sys/fs/cgroup/cpu,cpuacct/box", "sys/fs/cgroup/memory"):
        (tmp_path / folder).mkdir(parents=True)
    return machine(tmp_path, ("proc/self/cgroup", "4:memory:/hidden/in/a/container\n3:cpu,cpuacct:/box\n0::/\n"))


def scope(root: Path, handed_on: str, **own: str) -> Path:
    """Make a machine with version 2 on which this process is in ``user/jupyter.scope``."""
    files = {f"sys/fs/cgroup/user/jupyter.scope/{name.replace('_', '.')}": text for name, text in own.items()}
    procs = [(f"sys/fs/cgroup/{folder}/cgroup.procs", "") for folder in ("user", "user/jupyter.scope")]
    rows = [*TWO.items(), SCOPE, ("sys/fs/cgroup/user/cgroup.subtree_control", handed_on), *procs, *files.items()]
    (root / "sys/fs/cgroup/user/jupyter.scope").mkdir(parents=True)
    return machine(root, *rows)


def test_version_1_has_a_folder_for_each_controller_under_the_own_group(old: Path) -> None:
    found = find_parents(old, "linux")
    top = old / "sys/fs/cgroup"
    assert (found.version, found.reason) == (1, "")
    assert found.folders == {"cpu": top / "cpu,cpuacct/box", "memory": top / "memory"}
    assert found.description() == "CPU and memory, by control groups version 1"


def test_version_1_writes_quota_period_and_memory_with_swap(old: Path) -> None:
    parents = find_parents(old, "linux")
    (old / "sys/fs/cgroup/memory/h").mkdir()
    (old / "sys/fs/cgroup/memory/h/memory.memsw.limit_in_bytes").write_text("")
    assert make_groups(parents, "h", WISH) == parents
    written = {file.name: file.read_text() for folder in parents.folders.values() for file in (folder / "h").iterdir()}
    assert written == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "400000",
        "memory.limit_in_bytes": str(8 << 30),
        "memory.memsw.limit_in_bytes": str(8 << 30),
    }


def test_version_2_has_one_folder_beside_a_group_that_has_no_limits_itself(tmp_path: Path) -> None:
    unlimited = {"cpu_max": "max 100000\n", "memory_max": "max\n", "cpuset_cpus": "\n", "pids_max": "max\n"}
    parents = find_parents(scope(tmp_path, "cpu memory\n", **unlimited), "linux")
    user = tmp_path / "sys/fs/cgroup/user"
    assert (parents.version, parents.folders) == (2, {"cpu": user, "memory": user})
    (user / "h").mkdir()
    (user / "h/memory.swap.max").write_text("max")
    make_groups(parents, "h", WISH)
    written = {file.name: file.read_text() for file in (user / "h").iterdir()}
    assert written == {"cpu.max": "400000 100000", "memory.max": str(8 << 30), "memory.swap.max": "0"}
    said = plan_limits(parents, "h", WISH)
    assert said == {"cpus": 4, "memory": 8 << 30, "groups": dict.fromkeys(("cpu", "memory"), f"{user}/h"), "reason": ""}


@pytest.mark.parametrize(
    "own",
    [
        {"memory_max": "1073741824\n"},
        {"memory_high": "1073741824\n"},
        {"memory_swap_max": "0\n"},
        {"cpu_max": "50000 100000\n"},
        {"cpuset_cpus": "0-3\n"},
        {"cpuset_mems": "0\n"},
        {"io_max": "8:0 rbps=1048576 wbps=max riops=max wiops=max\n"},
        {"pids_max": "4096\n"},
    ],
)
def test_a_limit_of_this_process_is_never_escaped_and_named(tmp_path: Path, own: dict[str, str]) -> None:
    found = find_parents(scope(tmp_path, "cpu memory\n", **own), "linux")
    assert found.folders == {}
    (name,) = own
    group, file = tmp_path / "sys/fs/cgroup/user/jupyter.scope", name.replace("_", ".")
    assert found.description() == (
        f"none: {group} has a limit in {file}, which jobs outside it would escape, "
        "and it does not delegate cpu or memory to this user"
    )


def test_groups_that_hand_nothing_on_are_not_said_to_have_a_limit(tmp_path: Path) -> None:
    found = find_parents(scope(tmp_path, "pids\n"), "linux")
    assert found.folders == {}
    assert found.reason.endswith("jupyter.scope and its parent do not delegate cpu or memory to this user")


def test_a_group_that_hands_on_memory_only_limits_memory_only_and_says_so(tmp_path: Path) -> None:
    found = find_parents(scope(tmp_path, "memory pids\n"), "linux")
    assert list(found.folders) == ["memory"]
    assert found.description().startswith("memory, by control groups version 2 (")
    assert "delegate cpu" in found.reason


def test_a_group_that_hands_its_controllers_on_itself_has_its_jobs_below_it(tmp_path: Path) -> None:
    root = scope(tmp_path, "cpu memory\n", memory_max="1073741824\n", cgroup_subtree_control="")
    own = root / "sys/fs/cgroup/user/jupyter.scope"
    (own / "cgroup.subtree_control").write_text("cpu memory\n")
    assert set(find_parents(root, "linux").folders.values()) == {own}


def service(root: Path, unit: str = "lab.service", subgroup: str = "main", procs: str = "", able: str = "") -> Path:
    """Make a machine with version 2 on which systemd delegated a unit, and this process is in a group below it."""
    above = f"sys/fs/cgroup/user/{unit}"
    rows = {
        "proc/self/cgroup": f"0::/user/{unit}/{subgroup}\n",
        f"{above}/cgroup.controllers": able or "cpu io memory pids\n",
        f"{above}/cgroup.subtree_control": "\n",
        f"{above}/cgroup.procs": procs,
        f"{above}/{subgroup}/cgroup.procs": "",
    }
    return machine(root, *TWO.items(), *rows.items())


def test_a_service_that_was_given_away_hands_on_what_its_jobs_need(tmp_path: Path) -> None:
    """The state after ``Delegate=yes`` and ``DelegateSubgroup=``, as seen with systemd 257 in a virtual machine."""
    parents = find_parents(service(tmp_path), "linux")
    above = tmp_path / "sys/fs/cgroup/user/lab.service"
    assert parents.description() == "CPU and memory, by control groups version 2"
    assert set(parents.folders.values()) == {above}
    assert (above / "cgroup.subtree_control").read_text() == "\n", "looking changes nothing"
    make_groups(parents, "h", CgroupLimits(cpus=4))
    assert (above / "cgroup.subtree_control").read_text() == "+cpu"
    make_groups(parents, "h", CgroupLimits(memory=8 << 30))
    assert (above / "cgroup.subtree_control").read_text() == "+memory"
    assert {file.name for file in (above / "h").iterdir()} == {"cpu.max", "memory.max"}


def test_a_service_that_does_not_let_itself_be_divided_is_said(tmp_path: Path) -> None:
    parents = find_parents(service(tmp_path), "linux")
    handed_on = tmp_path / "sys/fs/cgroup/user/lab.service/cgroup.subtree_control"
    handed_on.unlink()
    handed_on.mkdir()  # refuses as the kernel does if there are processes in the group by now
    made = make_groups(parents, "h", WISH)
    assert made.folders == {}
    assert "cgroup.subtree_control: Is a directory" in made.reason
    assert not (handed_on.parent / "h").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"procs": "17\n"},
        {"unit": "app.slice"},
        {"unit": "user@1000.service", "subgroup": "init.scope"},
        {"able": "io pids\n"},
    ],
)
def test_what_is_systemds_own_or_cannot_be_divided_is_left_as_it_is(tmp_path: Path, changes: dict[str, str]) -> None:
    found = find_parents(service(tmp_path, **changes), "linux")
    assert found.folders == {}
    assert "do not delegate cpu or memory" in found.reason


def test_a_group_whose_processes_this_user_may_not_move_is_none_to_divide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = scope(tmp_path, "cpu memory\n")
    assert set(find_parents(root, "linux").folders) == {"cpu", "memory"}
    # The user owns the folder, but not the file in it: groups can be made there, but no process can be moved into them.
    monkeypatch.setattr(cgroup_limits.os, "access", lambda path, _mode: path.name != "cgroup.procs")
    found = find_parents(root, "linux")
    assert found.folders == {}
    assert "to this user" in found.reason


@pytest.mark.parametrize(
    ("platform", "says"), [("darwin", "only Linux"), ("linux", "has no control groups"), ("win32", "only Linux")]
)
def test_where_there_are_none_a_sentence_says_why(tmp_path: Path, platform: str, says: str) -> None:
    found = find_parents(tmp_path, platform)
    assert found.folders == {}
    assert says in found.description()
    assert plan_limits(found, "h", WISH)["groups"] == {}


def test_a_folder_that_is_not_ours_to_write_is_named(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_limits.os, "access", lambda path, _mode: "cpu" in str(path))
    found = find_parents(old, "linux")
    assert list(found.folders) == ["cpu"]
    assert found.reason == f"{old}/sys/fs/cgroup/memory is not writable for this user"


def test_a_group_that_refuses_its_limit_is_left_out_and_removed(old: Path) -> None:
    parents = find_parents(old, "linux")
    # A folder in place of a file makes the write fail, as if the kernel refused the number.
    (old / "sys/fs/cgroup/memory/h/memory.limit_in_bytes").mkdir(parents=True)
    made = make_groups(parents, "h", WISH)
    assert list(made.folders) == ["cpu"]
    assert "memory.limit_in_bytes: Is a directory" in made.reason
    assert plan_limits(made, "h", WISH)["groups"] == {"cpu": str(old / "sys/fs/cgroup/cpu,cpuacct/box/h")}


def test_what_is_not_limited_gets_no_group(old: Path) -> None:
    parents = find_parents(old, "linux")
    make_groups(parents, "h", CgroupLimits(cpus=1))
    assert not (old / "sys/fs/cgroup/memory/h").exists()
    assert list(plan_limits(parents, "h", CgroupLimits(cpus=1))["groups"]) == ["cpu"]  # type: ignore[call-overload]


def test_a_sweep_takes_empty_groups_of_hosts_that_nobody_knows_and_no_others(tmp_path: Path) -> None:
    parents = ParentGroups(version=1, folders={"cpu": tmp_path, "memory": tmp_path})
    mine, theirs = (group_name(folder, "c1", "algo-1") for folder in ("/data/a", "/data/b"))
    lives = group_name("/data/a", "c2", "algo-1")
    for name in (mine, theirs, lives, "system.slice"):
        (tmp_path / name).mkdir()
    sweep(parents, "/data/a", lambda: [lives])
    assert {path.name for path in tmp_path.iterdir()} == {theirs, lives, "system.slice"}


def test_removing_is_quiet_about_what_is_gone_and_names_what_stays(tmp_path: Path) -> None:
    (tmp_path / "full/inside").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    said = remove_groups([str(tmp_path / name) for name in ("empty", "gone", "full")])
    assert "full (Directory not empty)" in said
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert remove_groups([str(tmp_path / "gone")]) == ""
