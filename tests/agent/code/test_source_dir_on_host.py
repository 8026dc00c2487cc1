"""A folder of code on a host: where it is, what finds it, and that no job sees the folder of another one."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_archives import packed

from jupyter_smx.agent.code import sourcedir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


def trees(agent: Agent) -> list[Path]:
    return sorted((agent.folder / "code").iterdir())


def waits(agent: Agent, source: Mapping[str, Any]) -> bool:
    """Return True if the host has a copy for the next job."""
    return (agent.folder / "code" / source["sha256"] / "ready").is_dir()


MODES = {"file": "File", "fast": "FastFile"}
WHERE = """
import json, os, sys
import helper
from pkg import part
names = ("SM_MODULE_DIR", "SM_MODULE_NAME", "SM_USER_ENTRY_POINT")
print(json.dumps({
    "cwd": os.getcwd(), "argv": sys.argv, "path": sys.path[:2], "file": __file__, "name": __name__,
    "variables": {name: os.environ.get(name) for name in names}, "helper": helper.X, "part": part.Y,
    "python_path": os.environ.get("PYTHONPATH", "").split(":")[0],
}))
"""
FILES = {"helper.py": "X = 1\n", "pkg/__init__.py": "", "pkg/part.py": "Y = 2\n", "data.txt": "here"}


def test_an_entry_point_is_run_as_sagemakers_toolkit_runs_it(agent: Agent, tmp_path: Path) -> None:
    source = packed(tmp_path, {**FILES, "train.py": WHERE})
    seen = agent.json(
        WHERE, source_dir=source, entry_point="train.py", hyperparameters={"epochs": "3", "x": '"a"', "flag": "true"}
    )
    code = f"{agent.folder}/ml/code"
    assert (seen["cwd"], seen["file"], seen["name"]) == (code, f"{code}/train.py", "__main__")
    assert seen["argv"] == ["train.py", "--epochs", "3", "--flag", "True", "-x", "a"]
    assert (seen["path"][0], seen["python_path"]) == (code, code)
    assert (seen["helper"], seen["part"]) == (1, 2)
    assert seen["variables"] == {
        "SM_MODULE_DIR": code,
        "SM_MODULE_NAME": "train",
        "SM_USER_ENTRY_POINT": "train.py",
    }


def test_in_its_own_world_the_code_lies_in_opt_ml_code(isolated: Agent, tmp_path: Path) -> None:
    del tmp_path  # it is hidden on the host
    source = packed(isolated.folder, {**FILES, "sub/train.py": WHERE})
    seen = isolated.json(WHERE, source_dir=source, entry_point="sub/train.py")
    assert seen["path"] == ["/opt/ml/code/sub", "/opt/ml/code"]
    assert (seen["cwd"], seen["file"]) == ("/opt/ml/code", "/opt/ml/code/sub/train.py")
    assert seen["variables"]["SM_MODULE_NAME"] == "sub/train"


@pytest.mark.parametrize("files", [FILES, {**FILES, **{f"part{number}.txt": "x" for number in range(3000)}}], ids=len)
def test_by_the_contract_of_sdk_3_the_code_is_a_channel(
    isolated: Agent, far_folder: Path, files: Mapping[str, str]
) -> None:
    source = packed(isolated.folder, {**files, "train.py": WHERE})
    (far_folder / "data").mkdir()
    (far_folder / "data" / "a.csv").write_text("a")
    channels = [{"name": name, "source": str(far_folder / "data"), "mode": mode} for name, mode in MODES.items()]
    for _ in range(2):
        seen = isolated.json(
            WHERE,
            source_dir=source,
            entry_point="train.py",
            contract="v3",
            channels=channels,
            hyperparameters={"x": "1"},
        )
        code = "/opt/ml/input/data/code"
        assert (seen["cwd"], seen["file"], seen["path"][0]) == (code, f"{code}/train.py", code)
        assert (seen["argv"], seen["helper"], seen["part"]) == (["train.py", "--x", "1"], 1, 2)
        assert seen["python_path"] != code, "the drivers leave it as it is"
    where = "import json, os; print(json.dumps(sorted(os.listdir('/opt/ml/input/data'))))"
    assert isolated.json(where) == [], "the next job finds nothing of it"


def test_a_processing_job_has_its_code_where_a_framework_processor_puts_it(agent: Agent, tmp_path: Path) -> None:
    source = packed(tmp_path, {**FILES, "clean.py": WHERE})
    seen = agent.json(WHERE, kind="process", source_dir=source, entry_point="clean.py", hyperparameters={"n": "1"})
    code = f"{agent.folder}/ml/processing/input/code"
    assert (seen["cwd"], seen["file"], seen["argv"]) == (code, f"{code}/clean.py", ["clean.py", "-n", "1"])
    assert set(seen["variables"].values()) == {None}


def test_an_entry_point_alone_is_written_there(agent: Agent) -> None:
    script = "import json, os, sys; print(json.dumps([open(__file__).read()[:6], sys.argv, os.getcwd()]))"
    ml = f"{agent.folder}/ml"
    assert agent.json(script, entry_point="fit.py") == ["import", ["fit.py"], f"{ml}/code"]
    there = f"{ml}/processing/input/code/fit.py"
    assert agent.json(script, kind="process", entry_point="fit.py") == ["import", [there], f"{ml}/code"]


def test_a_cell_beside_a_folder_takes_no_name_of_it(agent: Agent, tmp_path: Path) -> None:
    source = packed(tmp_path, {"train.py": "NAME = 'theirs'\n"})
    cell = "import json, os, train; print(json.dumps([train.NAME, __file__, os.environ['SM_USER_ENTRY_POINT']]))"
    name, file, entry = agent.json(cell, source_dir=source)
    assert (name, Path(file).name, entry) == ("theirs", "train_cell.py", "train_cell.py")


def test_tracebacks_of_the_record_name_the_users_files_and_the_line_of_the_cell(agent: Agent, tmp_path: Path) -> None:
    source = packed(tmp_path, {"helper.py": "def broken():\n    raise KeyError('no')\n"})
    record = agent.run("\n\nimport helper\nhelper.broken()", source_dir=source, folder="/home/me/project")
    assert record["exception"]["line"] == 4
    assert 'File "<train-1>", line 4, in <module>\n    helper.broken()' in record["exception"]["traceback"]
    assert 'File "/home/me/project/helper.py", line 2, in broken' in record["exception"]["traceback"]
    assert "raise KeyError('no')" in record["exception"]["traceback"]


def test_tracebacks_of_an_entry_point_name_the_users_script(agent: Agent) -> None:
    record = agent.run("x = 1\nx / 0\n", entry_point="fit.py", folder="/home/me")
    assert record["exception"]["line"] == 2
    assert 'File "/home/me/fit.py", line 2, in <module>\n    x / 0' in record["exception"]["traceback"]


def test_the_reason_of_a_driven_script_names_its_files_as_the_script_itself_does(agent: Agent, tmp_path: Path) -> None:
    """SageMaker reads the reason from ``/opt/ml/output/failure``; there, paths of a notebook's home have no meaning."""
    fit = "import helper\nhelper.broken()\n"
    source = packed(tmp_path, {"fit.py": fit, "helper.py": "def broken():\n    1 / 0\n"})
    record = agent.run(fit, source_dir=source, entry_point="fit.py", folder="/home/me", contract="v3")
    there = f"{agent.folder}/ml/input/data/code"
    assert record["reason"] == record["text"], "as the log has it"
    assert f'File "{there}/fit.py", line 2, in <module>' in record["reason"]
    assert f'File "{there}/helper.py", line 2, in broken' in record["reason"]
    assert 'File "/home/me/helper.py", line 2, in broken' in record["exception"]["traceback"]


WRITES = """
import os, helper
for name in ("helper.py", "pkg/part.py"):
    with open(name, "a") as file:
        file.write("X = Y = 99\\n")
os.unlink("data.txt")
open("new.py", "w").close()
"""


@pytest.mark.parametrize("idle", [False, True], ids=["at once", "after a pause"])
@pytest.mark.parametrize("size", [0, 100_000_000], ids=["by the job", "by an errand"])
def test_what_a_job_does_to_its_code_is_gone_with_it(
    start_agent: Callable[..., Agent], tmp_path: Path, wait_until: Callable[..., Any], *, size: int, idle: bool
) -> None:
    agent = start_agent()
    source = packed(tmp_path, FILES, size=size)
    for _ in range(2):
        assert agent.run(WRITES, source_dir=source)["exit_code"] == 0
        if idle:
            wait_until(lambda: waits(agent, source), "a copy waits")
    Path(source["path"]).unlink(missing_ok=True)  # so the next job can only get the host's copy
    look = (
        "import json, os, helper\nfrom pkg import part\n"
        "print(json.dumps([helper.X, part.Y, os.path.exists('data.txt'), os.path.exists('new.py')]))"
    )
    assert agent.json(look, source_dir=source) == [1, 2, True, False]
    assert [tree.name for tree in trees(agent)] == [source["sha256"]]


WAYS = {
    "in place": "with open(NAME, 'r+') as file:\n    file.write('bad')\n",
    "append": "with open(NAME, 'a') as file:\n    file.write('bad')\n",
    "truncate": "import os\nos.truncate(NAME, 0)\n",
    "by a map": "import mmap\nwith open(NAME, 'r+b') as file:\n    mmap.mmap(file.fileno(), 0)[:3] = b'bad'\n",
    "by its mode": "import os\nos.chmod(NAME, 0o600)\nwith open(NAME, 'a') as file:\n    file.write('bad')\n",
    "by a link": "import os\nos.link(NAME, '../l')\nwith open('../l', 'a') as file:\n    file.write('bad')\n",
    "instead": "import os\nwith open('x', 'w') as file:\n    file.write('bad')\nos.replace('x', NAME)\n",
}


@pytest.mark.parametrize("kind", ["train", "process"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_a_job_writes_into_its_code_is_in_no_later_job(
    agent: Agent, tmp_path: Path, wait_until: Callable[..., Any], way: str, kind: str
) -> None:
    source = packed(tmp_path, FILES, size=100_000_000)
    names = ["data.txt", "pkg/part.py", *(["sourcedir.tar.gz"] if kind == "process" else [])]
    look = f"import json; print(json.dumps([open(name, 'rb').read().hex() for name in {names}]))"
    code = "".join(way.replace("NAME", repr(name)).replace("../l", f"../l{len(name)}") for name in names)
    whole = agent.json(look, source_dir=source, kind=kind)
    for idle in (False, True):
        record = agent.run(code, source_dir=source, kind=kind)
        assert record["exit_code"] == 0, record["text"]
        if idle:
            wait_until(lambda: waits(agent, source), "a copy waits")
        assert agent.json(look, source_dir=source, kind=kind) == whole
    assert hashlib.sha256(Path(source["path"]).read_bytes()).hexdigest() == source["sha256"]


def test_another_jobs_code_finds_nothing_of_the_one_before(agent: Agent, tmp_path: Path) -> None:
    first = packed(tmp_path, {"helper.py": "X = 'first'\n"})
    second = packed(tmp_path, {"helper.py": "X = 'second'\n"})
    look = "import json, helper; print(json.dumps(helper.X))"
    assert [agent.json(look, source_dir=one) for one in (first, second, first)] == ["first", "second", "first"]
    assert agent.run(look)["exception"]["type"] == "ModuleNotFoundError"


def test_modules_of_the_folder_are_never_told_as_worth_preloading(agent: Agent, tmp_path: Path) -> None:
    source = packed(tmp_path, {**FILES, "lone/deep.py": "Z = 3\n"})
    cell = "import helper, pkg.part, lone.deep, cloudpickle, msgspec"
    told = agent.run(cell, source_dir=source)["modules"]
    assert "msgspec" in told
    assert not {"helper", "pkg", "lone"}.intersection(told)


def test_the_folder_wins_over_a_module_that_the_host_has_imported(
    start_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    installed = tmp_path / "installed"
    (installed / "shared").mkdir(parents=True)
    (installed / "shared-1.0.dist-info").mkdir()
    (installed / "shared" / "__init__.py").write_text("X = 'installed'\n")
    (installed / "shared" / "deep.py").write_text("X = 'installed'\n")
    agent = start_agent(preload=["shared.deep"], environment={"PYTHONPATH": str(installed)})
    while agent.client.ask("hello", protocol=1, epoch=1)["preload"]["loaded"] != ["shared.deep"]:
        agent.client.event("preload")
    look = "import json, shared.deep; print(json.dumps([shared.X, shared.deep.X]))"
    assert agent.json(look) == ["installed", "installed"]
    theirs = packed(tmp_path, {"shared/__init__.py": "X = 'folder'\n", "shared/deep.py": "X = 'folder'\n"})
    assert agent.json(look, source_dir=theirs) == ["folder", "folder"]
    assert agent.json(look) == ["installed", "installed"]


def test_a_host_keeps_the_trees_of_the_last_two_folders(
    agent: Agent, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    sources = [packed(tmp_path, {"helper.py": f"X = {number}\n"}) for number in range(3)]
    for source in (sources[0], sources[1], sources[0], sources[2]):
        agent.run("import helper", source_dir=source)
    kept = sorted(source["sha256"] for source in (sources[0], sources[2]))
    wait_until(lambda: [tree.name for tree in trees(agent)] == kept, "the oldest tree is gone")
    wait_until(lambda: not list((agent.folder / "trash").iterdir()), "the trash is empty")


def test_a_folder_that_is_sent_again_before_an_idle_host_deleted_it_ends_no_host(tmp_path: Path) -> None:
    """Of three notebooks that took turns on a pool one ended the host: its folder had the same name in the trash."""
    code, trash = tmp_path / "code", tmp_path / "trash"
    trash.mkdir()
    for turn, name in enumerate(("a", "b", "c", "a", "b", "c", "a")):
        (code / name / "tree").mkdir(parents=True, exist_ok=True)
        os.utime(code / name, (turn, turn))
        sourcedir.trim(str(code), str(trash))
    assert sorted(path.name for path in code.iterdir()) == ["a", "c"]
    assert sorted(path.name.partition("-")[0] for path in trash.iterdir()) == ["a", "a", "b", "b", "c"]


@pytest.mark.parametrize("size", [0, 100_000_000], ids=["by the job", "by an errand"])
@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "a/../../evil"])
def test_an_archive_that_leads_out_of_its_folder_is_refused(agent: Agent, tmp_path: Path, name: str, size: int) -> None:
    source = packed(tmp_path, {"helper.py": "X = 1\n"}, names={"helper.py": name}, size=size)
    record = agent.run("print('ran')", source_dir=source)
    assert (record["cause"], record["text"].count("ran\n")) == ("refused", 0)
    assert f"source_dir: {name!r} in the archive is not a file or folder inside it." in record["failure"]
    assert not [top for top, _folders, names in os.walk(tmp_path) if "evil" in names]


def test_an_archive_that_is_another_one_or_is_not_there_is_refused(agent: Agent, tmp_path: Path) -> None:
    source = packed(tmp_path, FILES)
    whole = Path(source["path"]).read_bytes()
    Path(source["path"]).write_bytes(whole[:-1])
    assert "its SHA-256 differs" in agent.run("pass", source_dir=source)["failure"]
    Path(source["path"]).unlink()
    assert "cannot be read on this host" in agent.run("pass", source_dir=source)["failure"]
    Path(source["path"]).write_bytes(whole)
    assert agent.run("import helper", source_dir=source)["exit_code"] == 0


def test_a_program_of_the_folder_stays_one(agent: Agent, tmp_path: Path) -> None:
    buffer = tmp_path / "x.tar.gz"
    with tarfile.open(buffer, "w:gz") as archive:
        member = tarfile.TarInfo("tool.sh")
        data = b"#!/bin/sh\necho it runs\n"
        member.size, member.mode = len(data), 0o755
        archive.addfile(member, io.BytesIO(data))
    digest = hashlib.sha256(buffer.read_bytes()).hexdigest()
    source = {"folder": "/x", "path": str(buffer), "sha256": digest, "files": 1, "size": len(data)}
    assert agent.run("import subprocess; subprocess.run(['./tool.sh'], check=True)", source_dir=source)["text"] == (
        "it runs\n"
    )


def test_a_stopped_errand_leaves_nothing_that_the_next_job_trips_over(
    agent: Agent, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    source = packed(tmp_path, FILES, size=100_000_000)
    for name in ("tree.part", "ready.part"):
        half = agent.folder / "code" / source["sha256"] / name
        half.mkdir(parents=True)
        (half / "helper.py").write_text("half\n")
    for _ in range(2):
        assert agent.json("import json, helper; print(json.dumps(helper.X))", source_dir=source) == 1
        wait_until(lambda: waits(agent, source), "a copy waits")


def test_processes_that_the_script_starts_find_the_code(agent: Agent, tmp_path: Path) -> None:
    script = (
        "import json, multiprocessing, helper\n"
        "def work(n):\n    return n + helper.X\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(json.dumps(pool.map(work, [1, 2])))\n"
    )
    source = packed(tmp_path, {**FILES, "train.py": script})
    assert agent.json(script, source_dir=source, entry_point="train.py") == [2, 3]


def test_a_copy_that_waits_is_what_the_next_job_gets(
    isolated: Agent, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    del tmp_path  # it is hidden on the host
    source = packed(isolated.folder, FILES, size=100_000_000)
    look = "import json, os, helper; print(json.dumps([os.stat('.').st_ino, os.getcwd(), helper.X]))"
    for kind, folder in (("train", "/opt/ml/code"), ("process", "/opt/ml/processing/input/code")):
        isolated.run("pass", source_dir=source)
        wait_until(lambda: waits(isolated, source), "a copy waits")
        ready = (isolated.folder / "code" / source["sha256"] / "ready").stat().st_ino
        assert isolated.json(look, source_dir=source, kind=kind) == [ready, folder, 1]


def test_a_host_that_starts_interpreters_brings_the_code_too(
    start_agent: Callable[..., Agent], tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    agent = start_agent(start_method="spawn")
    source = packed(tmp_path, FILES)
    for _ in range(2):
        assert agent.json("import json, helper; print(json.dumps(helper.X))", source_dir=source) == 1
        wait_until(lambda: waits(agent, source), "a copy waits")


def test_the_archive_beside_the_code_waits_for_a_processing_job(
    agent: Agent, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    source = packed(tmp_path, FILES)
    home = agent.folder / "code" / source["sha256"]
    agent.run("import helper", source_dir=source)
    wait_until(lambda: waits(agent, source), "a copy waits")
    assert not (home / "ready.tar.gz").exists(), "a training job has no archive beside its code"
    agent.run("import helper", source_dir=source, kind="process")
    wait_until((home / "ready.tar.gz").exists, "an archive waits")
    waiting = (home / "ready.tar.gz").stat().st_ino
    look = "import json, os; print(json.dumps(os.stat('sourcedir.tar.gz').st_ino))"
    Path(source["path"]).unlink()
    assert agent.json(look, source_dir=source, kind="process") == waiting
    wait_until(lambda: not (home / "archive.txt").exists(), "it is not asked for again")


def test_a_job_that_comes_while_its_copy_is_made_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = packed(tmp_path, FILES)
    trees = str(tmp_path / "code")
    sourcedir.copy_tree(source, trees, str(tmp_path / "first"))
    home, has_tried = sourcedir.home_of(source, trees), threading.Event()
    take = sourcedir._take_spare_copy

    def try_once(*words: str) -> bool:
        taken = take(*words)
        has_tried.set()
        return taken

    monkeypatch.setattr(sourcedir, "_take_spare_copy", try_once)
    job = threading.Thread(target=sourcedir.copy_tree, args=(source, trees, str(tmp_path / "second")))
    with sourcedir._spare_copy_lock(home):
        job.start()
        assert has_tried.wait(60)
        (Path(home) / "ready").mkdir()
        (Path(home) / "ready" / "from.txt").touch()
    job.join(60)
    assert [path.name for path in (tmp_path / "second").iterdir()] == ["from.txt"]


@pytest.mark.parametrize("in_kernel", [True, False], ids=["in the kernel", "by this process"])
def test_a_copy_is_whole_and_keeps_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_kernel: bool
) -> None:
    if not in_kernel:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    big = hashlib.shake_128(b"noise").digest(3_000_001)
    for name, data in {"big.bin": big, "empty": b"", "run": b"#!/bin/sh\n"}.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o555 if name == "run" else 0o444)
        sourcedir._copy_file(str(tmp_path / name), str(tmp_path / f"{name}-copy"))
        assert (tmp_path / f"{name}-copy").read_bytes() == data
        assert bool((tmp_path / f"{name}-copy").stat().st_mode & 0o100) == (name == "run")
        assert (tmp_path / f"{name}-copy").stat().st_mode & 0o200


def test_a_kernel_that_cannot_copy_between_files_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, calls = os.copy_file_range, []

    def fail_later(reading: int, writing: int, _count: int) -> int:
        calls.append(reading)
        if len(calls) > 1:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return copy(reading, writing, 1_000_000)

    data = hashlib.shake_128(b"noise").digest(3_000_001)
    (tmp_path / "big.bin").write_bytes(data)
    monkeypatch.setattr(os, "copy_file_range", fail_later)
    sourcedir._copy_file(str(tmp_path / "big.bin"), str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == data
    assert len(calls) == 2
