"""The outputs that are collected from a job: each folder once, and only the job's own files."""

from __future__ import annotations

import gzip
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels import pack_outputs

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


NOBODY = 65534


def names(record: dict[str, Any]) -> list[str]:
    return [one["name"] for one in record["artifacts"]]


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Return a folder of the user with a file in it."""
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "of last year").write_text("mine")
    return folder


def test_a_host_refuses_an_output_that_is_not_below_opt_ml_and_leaves_the_users_folder_alone(
    agent: Agent, reports: Path
) -> None:
    for path in (str(reports), "../../../../../.." + str(reports), "/opt/ml"):
        spec = agent.spec("print('never')", kind="process", outputs=[{"name": "report", "path": path}])
        answer = agent.client.ask("run", job="a", lease=1, spec=spec)
        assert answer["code"] == "ValidationException"
        assert f"spec.outputs: {path!r} is not a folder below /opt/ml." in answer["message"]
    assert [path.name for path in reports.iterdir()] == ["of last year"]
    agent.serves()


def test_an_output_that_a_job_replaced_by_a_link_takes_nothing_from_where_it_leads(agent: Agent, reports: Path) -> None:
    source = (
        f"import os\nos.rmdir(os.environ['SMX_OUTPUT_R'])\nos.symlink({str(reports)!r}, os.environ['SMX_OUTPUT_R'])"
    )
    record = agent.run(source, kind="process", outputs=[{"name": "r", "path": "/opt/ml/processing/output/r"}])
    assert [path.name for path in reports.iterdir()] == ["of last year"]
    assert names(record) == []
    assert record["errors"] == [
        f"output r: /opt/ml/processing/output/r is a link out of /opt/ml, to {reports}; its files were not collected."
    ]
    agent.serves()


def test_an_output_below_a_linked_input_takes_nothing_from_the_users_folder(agent: Agent, reports: Path) -> None:
    channels = [{"name": "raw", "source": str(reports.parent / "r*"), "mode": "FastFile"}]
    outputs = [{"name": "r", "path": "/opt/ml/processing/input/raw/reports"}]
    record = agent.run("print('ran')", kind="process", channels=channels, outputs=outputs)
    assert record["text"].splitlines()[0] == "ran"
    assert [path.name for path in reports.iterdir()] == ["of last year"]
    assert (names(record), len(record["errors"])) == ([], 1)


def test_an_output_is_moved_and_not_copied(isolated: Agent) -> None:
    # A host with its own mount namespace has two names of this folder, on two mounts: a rename across them fails.
    source = "import os\nfile = open(os.environ['SMX_OUTPUT_R'] + '/x', 'w')\nprint(os.fstat(file.fileno()).st_ino)"
    record = isolated.run(source, kind="process", outputs=[{"name": "r", "path": "/opt/ml/processing/output/r"}])
    (one,) = record["artifacts"]
    spool = isolated.folder / "spool" / record["job"] / one["path"]
    assert str(spool.stat().st_ino) == record["text"].strip()


WRITE = """
import os
for place in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR"):
    open(os.path.join(os.environ[place], "x"), "w").write("x")
"""
OF_TRAINING = [{"name": "model", "path": "/opt/ml/model"}, {"name": "data", "path": "output/data/"}]


def test_the_model_and_the_data_of_a_training_job_come_home_once_as_archives(agent: Agent) -> None:
    record = agent.run(WRITE, outputs=OF_TRAINING)
    assert (names(record), record["errors"]) == (["model.tar.gz", "output.tar.gz"], [])
    assert agent.run("pass", outputs=OF_TRAINING)["artifacts"] == []


SMALL = pack_outputs._SMALL_BYTES


@pytest.mark.parametrize(
    ("files", "is_small"),
    [
        ({}, True),
        ({"model/x": SMALL}, True),
        ({"model/x": SMALL, "output/data/y": 1}, False),
        ({f"model/{number}": 1 for number in range(16)}, True),
        ({f"model/{number}": 1 for number in range(17)}, False),
        ({"model/folder/x": 1}, False),
    ],
)
def test_few_small_files_are_packed_by_the_agent_itself(tmp_path: Path, files: dict[str, int], is_small: bool) -> None:
    for folder in ("model", "output/data"):
        (tmp_path / folder).mkdir(parents=True)
    for name, size in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    assert pack_outputs.is_small(str(tmp_path), [], str(tmp_path / "job")) is is_small
    assert not pack_outputs.is_small(str(tmp_path), [("x", str(tmp_path / "x"))], str(tmp_path / "job"))


def test_a_pipe_among_outputs_is_left_to_a_process_and_received_variables_are_not(tmp_path: Path) -> None:
    for folder in ("model", "output/data", "job/artifacts"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "job/artifacts/result.pkl").write_bytes(bytes(10 * SMALL))
    assert pack_outputs.is_small(str(tmp_path), [], str(tmp_path / "job"))
    os.mkfifo(tmp_path / "model/pipe")
    assert not pack_outputs.is_small(str(tmp_path), [], str(tmp_path / "job"))


@pytest.mark.parametrize("code", [0, 3])
def test_a_pipe_that_is_left_out_is_named_in_the_log_unless_that_ends_with_a_failure(agent: Agent, code: int) -> None:
    source = (
        "import os\nout = os.environ['SM_OUTPUT_DATA_DIR']\nos.mkfifo(out + '/a\\npipe')\nopen(out + '/a', 'w').close()"
    )
    record = agent.run(f"{source}\nraise SystemExit({code})")
    said = r"output.tar.gz: 'a\npipe' is not a file or folder and was skipped."
    assert (record["errors"], record["text"]) == ([said], "" if code else f"jupyter_smx: {said}\n")


def test_an_output_of_a_processing_job_comes_home_once_as_files_wherever_it_lies(agent: Agent) -> None:
    source = "import os\nopen(os.environ['SMX_OUTPUT_M'] + '/x', 'w').write('x')"
    record = agent.run(source, kind="process", outputs=[{"name": "m", "path": "/opt/ml/model"}])
    assert (names(record), record["errors"]) == (["outputs/m/x"], [])


def test_a_folder_that_is_gone_at_the_end_is_named_as_the_user_wrote_it(agent: Agent) -> None:
    source = "import os\nos.rmdir(os.environ['SMX_OUTPUT_R'])"
    record = agent.run(source, kind="process", outputs=[{"name": "r", "path": "/opt/ml/processing/output/r"}])
    assert record["errors"] == ["output r: /opt/ml/processing/output/r is not a folder at the end of the job."]


def archive_as_somebody(ml: Path, output: Path, spool: Path) -> int:
    """Archive an output in a child process without root's rights; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(ml.parent)  # pytest's own folders are closed to all but root
            if os.getuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            pack_outputs.archive(ml.name, [("r", str(output.relative_to(ml.parent)))], spool.name)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_lies_in_folders_that_nobody_writes_to_comes_home(tmp_path: Path) -> None:
    ml, spool = tmp_path / "ml", tmp_path / "spool"
    output = ml / "processing" / "output"
    folders = [output, output / "copy", output / "copy" / "of an input"]
    folders[-1].mkdir(parents=True)
    spool.mkdir()
    for folder in folders:
        (folder / "x").write_text("x")
    for folder in (tmp_path, spool, *folders):
        os.chown(folder, *((NOBODY, NOBODY) if os.getuid() == 0 else (-1, -1)))
    for folder in reversed(folders):
        folder.chmod(0o555)
    assert archive_as_somebody(ml, output, spool) == 0
    home = spool / "artifacts" / "outputs" / "r"
    assert sorted(str(path.relative_to(home)) for path in home.rglob("x")) == ["copy/of an input/x", "copy/x", "x"]


NESTED = """
import os
model = os.environ["SM_MODEL_DIR"]
os.makedirs(f"{model}/sub")
for name in ("weights.bin", "sub/config.json"):
    open(f"{model}/{name}", "w").write(name)
os.symlink("weights.bin", f"{model}/latest")
open(os.environ["SM_OUTPUT_DATA_DIR"] + "/scores", "w").write("1")
"""


@pytest.mark.parametrize("outputs", [[], OF_TRAINING])
def test_a_model_without_compression_comes_home_as_its_files_and_the_data_as_an_archive(
    agent: Agent, outputs: list[dict[str, str]]
) -> None:
    record = agent.run(NESTED, outputs=outputs, disable_output_compression=True)
    model = ["outputs/model/sub/config.json", "outputs/model/weights.bin"]
    assert (sorted(names(record)), record["errors"]) == (["output.tar.gz", *model], [])
    assert [one["size"] for one in record["artifacts"] if one["name"] in model] == [15, 11]
    assert agent.run("pass", outputs=outputs, disable_output_compression=True)["artifacts"] == []
    assert names(agent.run(NESTED, outputs=outputs)) == ["model.tar.gz", "output.tar.gz"]


def test_pipes_in_the_place_of_a_jobs_words_hold_up_nobody(agent: Agent) -> None:
    source = (
        "import os\nout = os.environ.get('SAGEMAKER_BASE_DIR', '/opt/ml') + '/output/'\n"
        "for name in ('failure', 'message'):\n    os.mkfifo(out + name)\nraise SystemExit(3)"
    )
    record = agent.run(source, kind="process")
    assert (record["exit_code"], record["failure"], record["message"]) == (3, "", "")
    agent.serves()


DOWN = """
import os
os.chdir(os.environ["SM_MODEL_DIR"])
for _ in range(DEPTH):
    os.mkdir("d")
    os.chdir("d")
with open("weights", "w") as file:
    file.write("1")
"""


def packed(agent: Agent, depth: int) -> tuple[list[str], dict[str, Any]]:
    """Run a job whose model is in a folder of that depth; return the names in its archive, and the record."""
    job, _lease = agent.start(DOWN.replace("DEPTH", str(depth)))
    record = agent.end_of(job)
    [artifact] = record["artifacts"]
    with tarfile.open(agent.folder / "spool" / job / artifact["path"]) as whole:
        return whole.getnames(), record


def test_a_model_that_lies_deeper_than_python_calls_itself_comes_home(agent: Agent) -> None:
    found, record = packed(agent, 1100)
    assert found[-1] == "d/" * 1100 + "weights"
    assert len(found) == 1101
    assert record["errors"] == []
    agent.serves()


def test_of_one_that_lies_deeper_than_a_path_is_long_it_is_said_what_was_left_out(agent: Agent) -> None:
    found, record = packed(agent, 2100)
    assert found[0] == "d"
    assert not any(name.endswith("weights") for name in found)
    assert {error.rpartition("/d ")[2] for error in record["errors"]} == {
        "cannot be read and was skipped.",
        "cannot be read and its content was skipped.",
    }
    assert max(map(len, record["errors"])) < 300
    agent.serves()


def test_an_archive_is_that_of_tarfile_and_asks_nobody_for_the_names_of_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    (folder / "deep" / "empty").mkdir(parents=True)
    (folder / "run.sh").write_text("true\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "deep" / "again").hardlink_to(folder / "run.sh")
    (folder / "link").symlink_to("deep/nowhere")
    (folder / ("ü" * 80)).write_bytes(b"x" * 100_000)
    expected = tmp_path / "expected.tar"
    with tarfile.open(expected, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(str(path.relative_to(folder)) for path in folder.rglob("*")):
            archive.add(folder / path, arcname=path, recursive=False, filter=without_owner)

    def ask(*_: object) -> None:
        raise AssertionError("a directory service may answer late or never")

    for module, name in (("pwd", "getpwuid"), ("grp", "getgrgid")):
        monkeypatch.setattr(f"{module}.{name}", ask)
    assert pack_outputs.pack(str(folder), str(tmp_path / "model.tar.gz")) == []
    assert gzip.decompress((tmp_path / "model.tar.gz").read_bytes()) == expected.read_bytes()


def without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    return info
