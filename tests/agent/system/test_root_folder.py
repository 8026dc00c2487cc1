"""A processing script starts in ``/``, which is the host's own: its new names go with it, and all else is as it was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.contract import script, scriptmode
from jupyter_smx.agent.job import working_folder
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.agent.system.files.host_folder import NO_ENTRIES, HostFolder, RootEntries
from jupyter_smx.agent.system.isolation import host_cleanup, namespace, root_folder

if TYPE_CHECKING:
    from far_side import Agent

PLACE = HostInfo("algo-1", ["algo-1"], [], "homogeneousCluster", "local", 1, 0, own_root=True)
SOURCE_DIR: dict[str, Any] = {"folder": "/n", "path": "/p", "sha256": "0", "files": 1, "size": 1}
EVALUATE = """
import io, os, tarfile
path = "/opt/ml/processing/model.tar.gz"
with tarfile.open(path, "w:gz") as tar:
    info = tarfile.TarInfo("xgboost-model"); info.size = 1; tar.addfile(info, io.BytesIO(b"x"))
with tarfile.open(path) as tar:
    tar.extractall(path="..")
print("cwd", os.getcwd())
print(open("xgboost-model").read())
"""
"""The case processing-cwd: how evaluation steps of SageMaker's pipelines open a model."""


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


@pytest.fixture
def isolated(shared_isolated: Agent) -> Agent:
    """Give the agent of the module with a world of its own."""
    return shared_isolated


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def has_own_root(agent: Agent) -> bool:
    return agent.greeting["isolation"] == {"mode": "namespace", "reason": ""}


@pytest.fixture
def rooted(isolated: Agent) -> Agent:
    if not has_own_root(isolated):
        pytest.skip(f"this machine gives hosts no / of their own: {isolated.greeting['isolation']['reason']}")
    return isolated


@pytest.mark.parametrize("entry_point", ["", "evaluate.py"])
def test_an_evaluation_step_finds_what_it_unpacked_above_its_working_folder(rooted: Agent, entry_point: str) -> None:
    record = rooted.run(EVALUATE, kind="process", entry_point=entry_point)
    assert (record["exit_code"], record["text"].splitlines()[:2]) == (0, ["cwd /", "x"]), record
    (sentence,) = record["left_behind"]
    assert sentence.startswith("The job left xgboost-model in its working folder, which is deleted after the job.")
    assert not Path("/xgboost-model").exists(), "it is not on the machine"
    look = "import os; print(os.path.exists('/xgboost-model'))"
    assert rooted.run(look, kind="process")["text"] == "False\n", "the next job of the pool does not find it"


def test_a_script_is_called_by_a_path_that_its_working_folder_does_not_change(rooted: Agent) -> None:
    source = "import json, os, sys; print(json.dumps([os.getcwd(), sys.argv, os.path.exists(sys.argv[0])]))"
    assert rooted.json(source, kind="process") == ["/", ["/opt/ml/code/process.py"], True]
    there = "/opt/ml/processing/input/code/clean.py"
    seen = rooted.json(source, kind="process", entry_point="clean.py", arguments=["a"])
    assert seen == ["/", [there, "a"], True]


def test_what_the_machine_has_in_its_root_folder_is_there_and_as_writable_as_it_was(
    rooted: Agent, far_folder: Path
) -> None:
    source = f"""
import json, os
top = {{name: [os.path.islink("/" + name), os.path.isdir("/" + name)] for name in os.listdir("/")}}
open({str(far_folder / "kept")!r}, "w").write("by the job")
print(json.dumps([top, os.readlink("/proc/self/cwd"), os.path.realpath("..")]))
"""
    seen, cwd, above = rooted.json(source, kind="process")
    there = {path.name: [path.is_symlink(), path.is_dir()] for path in Path("/").iterdir()}
    assert {name: seen.get(name) for name in there} == there
    assert (cwd, above) == ("/", "/")
    assert (far_folder / "kept").read_text() == "by the job"
    assert os.access("/etc/hostname", os.W_OK) == rooted.json(
        "import json, os; print(json.dumps(os.access('/etc/hostname', os.W_OK)))"
    )


def test_training_jobs_may_write_there_too_and_are_told_that_it_goes(rooted: Agent) -> None:
    record = rooted.run("import os\nos.makedirs('/results')\nopen('/results/a', 'w').write('x')")
    assert record["exit_code"] == 0
    (sentence,) = record["left_behind"]
    assert sentence.startswith("The job left /results/ directly below /, where new names are deleted after the job.")
    assert not Path("/results").exists()
    rooted.serves()


def test_a_job_can_take_away_neither_a_folder_of_the_machine_nor_a_link_for_the_next_one(rooted: Agent) -> None:
    machine = Path("/").stat()
    links = [
        path.name for path in Path("/").iterdir() if path.is_symlink() and path.name not in ("bin", "lib", "lib64")
    ]
    folders = [name for name in ("home", "usr", "etc", "opt") if not Path("/", name).is_symlink()]
    source = f"""
import json, os
assert (os.stat("/").st_dev, os.stat("/").st_ino) != ({machine.st_dev}, {machine.st_ino}), "this is the machine's own"
failed = []
for name in {folders!r}:
    for change in (lambda: os.rename("/" + name, "/moved"), lambda: os.rmdir("/" + name)):
        try: change()
        except OSError: failed.append(name)
for name in {links!r}: os.unlink("/" + name)
os.chmod("/", 0o500)
print(json.dumps(failed))
"""
    assert rooted.json(source, kind="process") == [name for name in folders for _ in "ab"]
    seen = rooted.json("import json, os; print(json.dumps([os.listdir('/'), oct(os.stat('/').st_mode)]))")
    assert set(links) <= set(seen[0])
    assert seen[1] == "0o40755"
    assert {path.name for path in Path("/").iterdir()} >= set(links), "and the machine's are where they were"


def test_programs_of_a_job_may_bind_the_root_folder(rooted: Agent) -> None:
    """As bubblewrap and Apptainer do in a user namespace of their own, where the machine allows one."""
    source = """
import subprocess, sys
done = subprocess.run(["unshare", "-rm", "sh", "-c", "mount --rbind / /mnt && test -d /mnt/usr"], capture_output=True)
print("ok" if done.returncode == 0 else done.stderr.decode(errors="replace"))
"""
    text = rooted.run(source)["text"]
    command = ["unshare", "-rm", "true"]
    outside = subprocess.run(command, capture_output=True, text=True, check=False)
    assert text == "ok\n" or (outside.returncode != 0 and text.strip() == outside.stderr.strip())


def test_without_a_root_folder_of_its_own_a_script_starts_where_it_did(agent: Agent) -> None:
    cwd = agent.json("import json, os; print(json.dumps(os.getcwd()))", kind="process")
    assert cwd == str(agent.folder / "ml" / "code")


@pytest.mark.parametrize(
    ("fields", "folder"),
    [
        ({"kind": "process"}, "/"),
        ({"kind": "process", "entry_point": "a.py"}, "/"),
        ({"kind": "process", "entry_point": "a.py", "source_dir": SOURCE_DIR}, "/opt/ml/processing/input/code"),
        ({"kind": "process", "distribution": "pyspark"}, "/opt/ml/code"),
        ({"kind": "train"}, "/opt/ml/code"),
        ({"kind": "train", "entry_point": "a.py"}, "/opt/ml/code"),
        ({"kind": "train", "contract": "v3"}, "/opt/ml/input/data/code"),
    ],
)
def test_only_the_script_of_a_script_processor_starts_in_the_root_folder(fields: dict[str, Any], folder: str) -> None:
    spec = scriptmode.complete({"source": "pass", **fields})
    assert script.working_folder(spec, PLACE) == folder


def test_a_refused_root_folder_costs_nothing_else(monkeypatch: pytest.MonkeyPatch, far_folder: Path) -> None:
    folder = HostFolder(str(far_folder))
    folder.make()
    plan, _reason = namespace.make_plan(folder, "algo-1", {"algo-1": "127.0.0.1"}, [str(far_folder)])
    assert plan is not None
    tried = []

    def probe(one: namespace.NamespacePlan, _needed: list[str]) -> str:
        tried.append(one.own_root)
        return "pivot_root: Invalid argument" if one.own_root else ""

    monkeypatch.setattr(namespace, "probe", probe)
    found, reason = namespace.choose_root(plan, [])
    assert (tried, reason) == ([True, False], "")
    assert found is not None
    assert found.reason == "jobs share the machine's /: pivot_root: Invalid argument"


def test_only_new_names_are_moved_away_and_links_are_put_back(tmp_path: Path) -> None:
    folder = HostFolder(str(tmp_path))
    folder.make()
    root = Path(folder.rootfs)
    root.mkdir()
    (root / "usr").mkdir()
    (root / "usr" / "kept").touch()
    (root / "bin").symlink_to("elsewhere")
    (root / "new").mkdir()
    (root / "file").touch()
    folder.root_entries = RootEntries(frozenset({"usr", "bin", "lib"}), {"bin": "usr/bin", "lib": "usr/lib"})
    sentence = working_folder.describe_root(scriptmode.complete({"source": "", "kind": "process"}), PLACE, folder)
    assert sentence.startswith("The job left file in its working folder")
    host_cleanup.reset_folders(folder, "job-1")
    assert names(root) == ["bin", "lib", "usr"]
    assert [str((root / name).readlink()) for name in ("bin", "lib")] == ["usr/bin", "usr/lib"]
    assert (root / "usr" / "kept").exists()
    (root / "late").touch()
    host_cleanup.clear_root(folder)
    assert names(root) == ["bin", "lib", "usr"]
    folder.root_entries = NO_ENTRIES
    host_cleanup.clear_root(folder)
    assert names(root) == ["bin", "lib", "usr"], "where / is the machine's nothing is looked at"
    root_folder.restore_links(folder.rootfs, NO_ENTRIES)
