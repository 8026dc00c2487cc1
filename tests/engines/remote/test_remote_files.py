"""Files reach a remote host over its stream: variables, folders of code, inputs; jobs may only read them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RemoteWorld
    from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def hidden(shared_remote: RemoteWorld) -> Path:
    """Give an empty folder of this machine that the remote one does not show."""
    return Path(tempfile.mkdtemp(dir=shared_remote.folder / "home"))


def test_variables_and_code_go_there_and_come_back(remote: RemoteWorld, shell: InteractiveShell) -> None:
    folder = remote.folder / "project"
    folder.mkdir()
    (folder / "helper.py").write_text("FACTOR = 3\n")
    shell.user_ns["given"] = [1, 2]
    line = f"%%train --engine toy --send given --receive made --source-dir {folder} -k 5m --as job --wait"
    for value in ([1, 2], [1, 2], [5]):
        shell.user_ns["given"] = value
        shell.run_cell(f"{line}\nimport helper\nmade = [helper.FACTOR * one for one in given]")
        assert shell.user_ns["job"].result(30).made == [3 * one for one in value]
    assert shell.user_ns["job"].record.why.start == "warm"


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_inputs_are_there_and_a_job_cannot_change_those_of_the_next(
    shared_remote: RemoteWorld, hidden: Path, mode: str
) -> None:
    (hidden / "deep").mkdir()
    (hidden / "deep" / "rows.csv").write_text("1,2\n" * 200_000)
    channels = (Channel(name="rows", source=str(hidden), mode=mode),)
    body = """
    path = os.environ["SM_CHANNEL_ROWS"] + "/deep/rows.csv"
    print("bytes", len(open(path).read()))
    try: open(path, "a").write("spoilt")
    except OSError as error: print("refused", error.strerror)
    """
    logs = [shared_remote.run(body, channels=channels).log() for _ in range(2)]
    assert all("bytes 800000\n" in log for log in logs), logs


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_a_broken_link_is_left_out_there_with_a_note(shared_remote: RemoteWorld, hidden: Path, mode: str) -> None:
    (hidden / "rows.csv").write_text("1,2")
    (hidden / ".#rows.csv").symlink_to("ann@laptop.123")
    channels = (Channel(name="rows", source=str(hidden), mode=mode),)
    job = shared_remote.run("print(os.listdir(os.environ['SM_CHANNEL_ROWS']))", channels=channels)
    assert "['rows.csv']" in job.log()
    note = "channel rows: a link that leads nowhere was left out: .#rows.csv."
    provenance = job.job().provenance
    assert provenance is not None
    assert note in provenance.notes


def test_a_provided_file_itself_is_closed_to_jobs(shared_remote: RemoteWorld, hidden: Path) -> None:
    rows = hidden / "rows.csv"
    rows.write_text("kept\n")
    channels = (Channel(name="rows", source=str(rows), mode="File"),)
    cluster = shared_remote.run(channels=channels).job().cluster
    (provided,) = shared_remote.machine.glob(f"clusters/{cluster}/algo-1/inputs/provided/files/*")
    job = shared_remote.run(
        f"try: open({str(provided)!r}, 'a').write('spoilt')\nexcept OSError as error: print(error.strerror)",
        channels=channels,
    )
    assert "Read-only file system" in job.log()
    assert provided.read_text() == "kept\n"


@pytest.mark.parametrize("round_trip", [0.4])
@pytest.mark.usefixtures("remote")
def test_a_long_way_takes_an_unchanged_variable_no_longer(shell: InteractiveShell) -> None:
    line = "%%train --engine toy --send given -k 5m --as job --wait"
    for _ in range(2):
        shell.user_ns["given"] = [1]
        shell.run_cell(f"{line}\nprint(given)")
    timings = shell.user_ns["job"].record.timings
    assert timings["sent"] - timings["committed"] < 0.3, "no request before the job itself"


def test_a_file_that_is_gone_is_refused_by_its_path(shared_remote: RemoteWorld) -> None:
    gone = shared_remote.folder / "gone.csv"
    job = shared_remote.submit(channels=(Channel(name="rows", source=str(gone)),)).wait()
    assert job.state.value == "Failed"
    assert str(gone) in job.failure_reason


def test_without_namespaces_a_host_whose_files_a_job_changed_takes_no_other_job(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ToyEngine.isolate = False")
    rows = remote.folder / "home" / "rows.csv"
    rows.write_text("kept\n")
    channels = (Channel(name="rows", source=str(rows), mode="File"),)
    pattern = str(remote.machine / "clusters" / "*" / "algo-1" / "inputs" / "provided" / "files" / "*")
    spoil = f"import glob\npath, = glob.glob({pattern!r})\nos.chmod(path, 0o644)\nopen(path, 'a').write('spoilt')"
    remote.run(spoil, channels=channels)
    log = remote.run("print(open(os.environ['SM_CHANNEL_ROWS'] + '/rows.csv').read(), end='')", channels=channels).log()
    assert "kept\ndone" in log


def test_a_folder_that_both_machines_have_is_used_where_it_is(
    remote: RemoteWorld, configure: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("shared")
    configure(f"c.ToyEngine.shared_folders = [{str(shared)!r}]")
    (shared / "rows.csv").write_text("1\n")
    channels = (Channel(name="rows", source=str(shared / "rows.csv"), mode="File"),)
    body = """
    print("rows", open(os.environ["SM_CHANNEL_ROWS"] + "/rows.csv").read())
    open("/opt/ml/checkpoints/step-1", "w").write("saved")
    """
    assert "rows 1\n" in remote.run(body, channels=channels, checkpoint=str(shared / "kept")).log()
    assert (shared / "kept" / "step-1").read_text() == "saved"
    assert not [*remote.machine.glob("clusters/*/algo-1/inputs/provided/files/*")], "nothing was sent"
    with pytest.raises(ValidationError, match="do not share this folder"):
        remote.submit(checkpoint=str(remote.folder / "kept"))
