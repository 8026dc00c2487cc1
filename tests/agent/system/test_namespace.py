"""A host with a world of its own, and what is said where the machine does not allow one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from far_side import ROOT

from jupyter_smx.agent.host.host_isolation import Isolation
from jupyter_smx.agent.system.files.host_folder import HostFolder
from jupyter_smx.agent.system.isolation import namespace

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent


@pytest.fixture
def isolated(shared_isolated: Agent) -> Agent:
    """Give the agent of the module with a world of its own."""
    return shared_isolated


def test_opt_ml_is_real(isolated: Agent) -> None:
    source = """
import json, os
from pathlib import Path
Path("/opt/ml/model/m.txt").write_text("model")
config = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["a"]
print(json.dumps([os.getcwd(), os.environ["SM_MODEL_DIR"], "SAGEMAKER_BASE_DIR" in os.environ, config]))
"""
    record = isolated.run(source, hyperparameters={"a": "1"})
    assert json.loads(record["text"]) == ["/opt/ml/code", "/opt/ml/model", False, "1"]
    assert [one["name"] for one in record["artifacts"]] == ["model.tar.gz"]
    assert not Path("/opt/ml/model/m.txt").exists(), "nothing leaks out"


def test_the_rest_of_opt_is_there_and_cannot_be_littered(isolated: Agent) -> None:
    seen = isolated.json("import json, os; print(json.dumps(sorted(os.listdir('/opt'))))")
    assert set(seen) == {*(path.name for path in Path("/opt").iterdir()), "ml"}
    assert isolated.run("open('/opt/litter', 'w')")["exception"]["type"] == "OSError"


def test_every_host_name_is_found(isolated: Agent) -> None:
    source = "import json, socket; print(json.dumps([socket.gethostname(), *map(socket.gethostbyname, NAMES)]))"
    seen = isolated.json(source.replace("NAMES", "['algo-1', 'algo-2']"))
    assert seen == ["algo-1", "127.9.9.1", "127.9.9.2"]


IN_TMP = any(os.path.realpath(path).startswith("/tmp/") for path in (sys.prefix, sys.base_prefix, ROOT, Path.home()))  # noqa: S108


@pytest.mark.skipif(IN_TMP, reason="Python, the project or the home lies in /tmp, which stays the machine's then")
def test_tmp_and_shared_memory_are_the_hosts_own(isolated: Agent) -> None:
    mark = Path("/tmp") / f"smx-outside-{os.getpid()}"  # noqa: S108 - the machine's own
    mark.write_text("x")
    source = f"""
import json, os, tempfile
print(json.dumps([os.path.exists({str(mark)!r}), os.listdir('/dev/shm'), tempfile.gettempdir()]))
open('/tmp/inside', 'w').write('x'); open('/dev/shm/inside', 'w').write('x')
"""
    try:
        assert isolated.json(source) == [False, [], "/tmp"]  # noqa: S108
        assert isolated.json(source) == [False, [], "/tmp"]  # noqa: S108
    finally:
        mark.unlink()


def test_a_channel_in_the_hidden_tmp_still_arrives(isolated: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a")
    for mode in ("File", "FastFile"):
        record = isolated.run(
            "import os; print(open(os.environ['SM_CHANNEL_TRAIN'] + '/a.csv').read())",
            channels=[{"name": "train", "source": str(tmp_path), "mode": mode}],
        )
        assert record["text"] == "a\n", record


def test_a_job_cannot_change_the_mounts(isolated: Agent) -> None:
    source = (
        "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\nprint(c.umount2(b'/opt/ml', 2), ctypes.get_errno())"
    )
    assert isolated.run(source)["text"] == "-1 1\n"


def test_a_replaced_hosts_file_ends_the_host() -> None:
    isolation = Isolation("namespace")
    assert isolation.is_intact()
    isolation.hosts_file = (0, 0)
    assert not isolation.is_intact()


def test_the_host_is_of_one_piece_when_isolation_is_off(agent: Agent) -> None:
    assert agent.greeting["isolation"] == {"mode": "variables", "reason": "isolate is off for this host"}
    told = agent.json("import os, json; print(json.dumps(os.path.realpath(os.environ['TMPDIR'])))")
    assert told == str((agent.folder / "tmp").resolve())


def test_what_the_job_needs_is_never_hidden(far_folder: Path) -> None:
    folder = HostFolder(str(far_folder))
    needed = ["/usr/lib", str(far_folder)]
    plan, reason = namespace.make_plan(folder, "algo-1", {"algo-1": "127.0.0.1"}, needed)
    assert plan is not None, reason
    assert plan.own_tmp
    plan, _reason = namespace.make_plan(folder, "algo-1", {"algo-1": "127.0.0.1"}, [*needed, "/tmp/venv"])  # noqa: S108 - which hosts have of their own
    assert plan is not None
    assert not plan.own_tmp
    plan, reason = namespace.make_plan(folder, "algo-1", {"algo-1": "127.0.0.1"}, [*needed, "/opt/ml/env"])
    assert plan is None
    assert "/opt/ml/env is in /opt/ml" in reason


def test_a_step_that_is_not_allowed_is_the_reason(monkeypatch: pytest.MonkeyPatch, far_folder: Path) -> None:
    folder = HostFolder(str(far_folder))
    folder.make()
    plan, _reason = namespace.make_plan(folder, "algo-1", {"algo-1": "127.0.0.1"}, [str(far_folder)])
    assert plan is not None

    def refuse(_plan: Any) -> None:
        raise PermissionError(1, "Operation not permitted", "unshare")

    monkeypatch.setattr(namespace, "enter", refuse)
    assert namespace.probe(plan, [sys.prefix]) == "unshare: Operation not permitted"


def test_two_hosts_of_one_machine_do_not_meet(
    start_agent: Callable[..., Agent], isolated: Agent, far_folder: Path
) -> None:
    other = start_agent(isolate=True, hosts=["algo-1", "algo-2"], host="algo-2", parent=far_folder)
    first, lease = isolated.start(
        "import signal\nopen('/opt/ml/model/one', 'w')\nprint('on', flush=True)\nsignal.pause()"
    )
    isolated.wait_for_log(first, "on")
    seen = other.json("import json, os, socket; print(json.dumps([os.listdir('/opt/ml/model'), socket.gethostname()]))")
    assert seen == [[], "algo-2"]
    isolated.stop(first, lease)
    isolated.end_of(first)
