"""A job on a host: what it sees, how it ends, what is told of it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import signal
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

from jupyter_smx.agent.contract.platform_variables import region_of
from jupyter_smx.policy.hosts import agent_messages

if TYPE_CHECKING:
    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


def test_a_job_runs_and_prints(agent: Agent) -> None:
    record = agent.run("print('hello')\nimport sys\nprint('trouble', file=sys.stderr)")
    assert record["text"] == "hello\ntrouble\n"
    assert (record["cause"], record["exit_code"], record["signal"]) == ("exit", 0, None)
    at = record["at"]
    assert at["received"] <= at["awake"] <= at["first_line"] <= at["exited"] <= at["ended"]


def test_the_record_is_on_disk_when_it_is_told(agent: Agent) -> None:
    job, _lease = agent.start("1 / 0")
    record = agent.end_of(job)
    assert json.loads((agent.folder / "spool" / job / "end.json").read_text()) == record
    assert json.loads(agent.read(job, "end.json")) == record


def test_events_come_in_the_order_of_the_job(agent: Agent) -> None:
    job, lease = agent.start("print('x')")
    agent.end_of(job)
    kinds = [event["event"] for event in agent.client.events]
    assert kinds.index("first_line") < kinds.index("exited")
    assert "grew" in kinds
    assert [agent_messages.parse_event(event) for event in agent.client.events] == agent.client.events, (
        "a controller believes each"
    )
    assert {(event["job"], event["lease"]) for event in agent.client.events} == {(job, lease)}


def test_script_mode_variables_and_arguments(agent: Agent) -> None:
    source = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv, os.getcwd(), __name__, __file__]))"
    hyperparameters = {"epochs": "3", "lr": "0.1", "name": "adam", "flag": "true", "x": "[1, 2]"}
    environment, argv, cwd, name, file = agent.json(source, hyperparameters=hyperparameters)
    ml = str(agent.folder / "ml")
    assert environment["SM_MODEL_DIR"] == ml + "/model"
    assert environment["SM_HP_EPOCHS"] == "3"
    assert environment["SM_HP_FLAG"] == "true"
    assert json.loads(environment["SM_HPS"]) == {"epochs": 3, "flag": True, "lr": 0.1, "name": "adam", "x": [1, 2]}
    assert environment["TRAINING_JOB_NAME"] == "job-1"
    assert environment["SAGEMAKER_BASE_DIR"] == ml
    assert json.loads(environment["SM_TRAINING_ENV"])["is_master"] is True
    assert argv == ["train.py", "--epochs", "3", "--flag", "True", "--lr", "0.1", "--name", "adam", "-x", "[1, 2]"]
    assert (cwd, name, file) == (ml + "/code", "__main__", ml + "/code/train.py")


def test_config_files_are_written(agent: Agent) -> None:
    source = """
import json, os
folder = os.environ["SM_INPUT_CONFIG_DIR"]
print(json.dumps({name: json.load(open(os.path.join(folder, name))) for name in os.listdir(folder)}))
"""
    files = agent.json(source, hyperparameters={"a": "1"})
    assert files["hyperparameters.json"] == {
        "a": "1",
        "sagemaker_submit_directory": f'"{agent.folder}/ml/code"',
        "sagemaker_program": '"train.py"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"job-1"',
        "sagemaker_region": json.dumps(region_of(os.environ)),
    }
    assert files["resourceconfig.json"]["current_host"] == "algo-1"
    assert files["resourceconfig.json"]["current_group_name"] == "homogeneousCluster"
    assert files["inputdataconfig.json"] == {}


def test_a_processing_job_has_its_own_contract(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("in")
    source = """
import json, os
base = os.environ["SAGEMAKER_BASE_DIR"]
open(os.path.join(os.environ["SMX_OUTPUT_TABLE"], "out.txt"), "w").write("out")
config = json.load(open(base + "/config/processingjobconfig.json"))
print(json.dumps([sorted(n for n in os.environ if n.startswith("SM_")), config["ProcessingJobName"],
                  os.listdir(os.environ["SMX_INPUT_RAW"])]))
"""
    record = agent.run(
        source,
        kind="process",
        channels=[{"name": "raw", "source": str(tmp_path / "in.txt"), "mode": "File"}],
        outputs=[{"name": "table", "path": "/opt/ml/processing/output/table"}],
    )
    assert json.loads(record["text"]) == [[], "job-1", ["in.txt"]]
    assert [one["name"] for one in record["artifacts"]] == ["outputs/table/out.txt"]
    assert agent.read(record["job"], record["artifacts"][0]["path"]) == b"out"


def test_the_next_job_sees_nothing_of_the_one_before(agent: Agent) -> None:
    agent.run(
        "import os, sys, builtins\nbuiltins.secret = secret = 1\nos.environ['SECRET'] = '1'\nsys.path.insert(0, '/x')\n"
        "open('left.txt', 'w').write('x')\nopen(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('x')\nos.chdir('/')",
        environment={"WISH": "1"},
        hyperparameters={"a": "1"},
    )
    seen = agent.json(
        "import json, os, sys\nprint(json.dumps(['secret' in globals(), hasattr(__builtins__, 'secret'),"
        "'SECRET' in os.environ, 'WISH' in os.environ, 'SM_HP_A' in os.environ, '/x' in sys.path,"
        "os.listdir('.'), os.listdir(os.environ['SM_MODEL_DIR'])]))"
    )
    assert seen == [False, False, False, False, False, False, ["train.py"], []]


def test_no_secret_of_the_server_reaches_a_job(start_agent: Any) -> None:
    names = ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JUPYTER_SMX_DATA_DIR")
    agent = start_agent(environment=dict.fromkeys(names, "secret-of-the-server"))
    environment = agent.json(PRINT_ENVIRONMENT)
    assert set(names).isdisjoint(environment)
    assert environment["JUPYTER_SMX_HOST"] == agent.mark()
    assert environment["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    told = agent.run("import os; print(open(f'/proc/{os.getppid()}/environ').read())")["text"]
    assert "secret-of-the-server" not in told


def test_a_job_cannot_see_the_agents_own_code(agent: Agent) -> None:
    seen = agent.json(
        "import sys, json\nprint(json.dumps([n for n in sys.modules if n.startswith('jupyter_smx')] + sys.path[:1]))"
    )
    assert seen == [str(agent.folder / "ml" / "code")]


def test_an_exception_is_told_with_its_line(agent: Agent) -> None:
    record = agent.run("def f():\n    return 1 / 0\n\nf()\n")
    told = record["exception"]
    assert (told["type"], told["message"], told["line"]) == ("ZeroDivisionError", "division by zero", 2)
    assert "return 1 / 0" in told["traceback"]
    assert "jupyter_smx" not in told["traceback"]
    assert record["text"] == told["traceback"]
    assert (record["exit_code"], record["failure"]) == (1, "ZeroDivisionError: division by zero")


def test_a_syntax_error_is_told_with_its_line(agent: Agent) -> None:
    record = agent.run("x = 1\nif x\n    pass")
    assert (record["exception"]["type"], record["exception"]["line"], record["exit_code"]) == ("SyntaxError", 2, 1)


def test_the_failure_file_wins_and_is_cut(agent: Agent) -> None:
    record = agent.run(
        "import os\nopen(os.path.join(os.environ['SM_OUTPUT_DIR'], 'failure'), 'w').write('y' * 5000)\nraise ValueError"
    )
    assert record["failure"] == "y" * 1024


@pytest.mark.parametrize(("code", "expected"), [("3", 3), ("", 0), ("None", 0), ("True", 1), ("'sorry'", 1)])
def test_sys_exit_gives_the_exit_code(agent: Agent, code: str, expected: int) -> None:
    record = agent.run(f"import sys; sys.exit({code})")
    assert (record["cause"], record["exit_code"], record["exception"]) == ("exit", expected, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_bug_27_a_death_by_signal_is_told_as_that(agent: Agent, number: int) -> None:
    record = agent.run(f"import os; os.kill(os.getpid(), {int(number)})")
    assert (record["cause"], record["signal"], record["exit_code"]) == ("signal", number, None)


def test_exit_handlers_and_threads_are_waited_for(agent: Agent) -> None:
    source = """
import atexit, sys, threading, concurrent.futures
atexit.register(print, "handler")
gate = threading.Event()
threading.Thread(target=lambda: (gate.wait(), sys.stdout.write("thread\\n"))).start()
concurrent.futures.ThreadPoolExecutor(1).submit(lambda: (gate.wait(), sys.stdout.write("pool\\n")))
print("end of the cell", end="")
print()
gate.set()
"""
    lines = agent.run(source)["text"].splitlines()
    assert lines[0] == "end of the cell"
    assert sorted(lines[1:3]) == ["pool", "thread"]
    assert lines[3] == "handler"


def test_main_is_the_cell(agent: Agent) -> None:
    source = """
import pickle, inspect, __main__
class Thing: pass
assert isinstance(pickle.loads(pickle.dumps(Thing())), Thing)
assert __main__.Thing is Thing
print(inspect.getsource(Thing).strip())
"""
    assert agent.run(source)["text"] == "class Thing: pass\n"


def test_the_agents_future_flags_do_not_leak_into_the_cell(agent: Agent) -> None:
    assert agent.run("def f(x: int): pass\nprint(f.__annotations__['x'] is int)")["text"] == "True\n"


def test_artefacts_have_their_members_at_the_root(agent: Agent) -> None:
    source = """
import os
os.makedirs(os.environ["SM_MODEL_DIR"] + "/deep")
open(os.environ["SM_MODEL_DIR"] + "/deep/m.bin", "wb").write(b"model")
open(os.environ["SM_OUTPUT_DATA_DIR"] + "/metrics.json", "w").write("{}")
"""
    first, second = agent.run(source), agent.run(source)
    assert [one["name"] for one in first["artifacts"]] == ["model.tar.gz", "output.tar.gz"]
    packed = agent.read(first["job"], "artifacts/model.tar.gz")
    assert packed == agent.read(second["job"], "artifacts/model.tar.gz"), "equal content gives equal bytes"
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["deep", "deep/m.bin"]


def test_a_job_that_makes_nothing_has_no_artefacts(agent: Agent) -> None:
    assert agent.run("pass")["artifacts"] == []


def test_channels_are_copied_and_links_for_fast_file(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "a.csv").write_text("a")
    (tmp_path / "data" / "sub" / "b.csv").write_text("b")
    source = """
import json, os
def tree(top):
    return sorted((os.path.relpath(os.path.join(t, n), top), os.path.islink(os.path.join(t, n)))
                  for t, _, names in os.walk(top, followlinks=True) for n in names)
print(json.dumps({n: tree(os.environ["SM_CHANNEL_" + n]) for n in ("TRAIN", "ONE", "PART", "FAST")}))
"""
    data = str(tmp_path / "data")
    seen = agent.json(
        source,
        channels=[
            {"name": "train", "source": data, "mode": "File"},
            {"name": "one", "source": data + "/a.csv", "mode": "File"},
            {"name": "part", "source": data + "/s*", "mode": "File"},
            {"name": "fast", "source": data, "mode": "FastFile"},
        ],
    )
    assert seen == {
        "TRAIN": [["a.csv", False], ["sub/b.csv", False]],
        "ONE": [["a.csv", False]],
        "PART": [["sub/b.csv", False]],
        "FAST": [["a.csv", True], ["sub/b.csv", False]],
    }


def test_a_host_gets_its_share_of_all_files_of_a_channel(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    for name in ("a", "b", "sub/c", "sub/d", "z"):
        (tmp_path / "data" / name).write_text(name)
    source = """
import json, os
top = os.environ["SM_CHANNEL_TRAIN"]
print(json.dumps(sorted(os.path.relpath(os.path.join(t, n), top) for t, _, names in os.walk(top) for n in names)))
"""
    channel = {"name": "train", "source": str(tmp_path / "data"), "mode": "File"}
    shares = [{"turn": turn, "count": 2} for turn in (0, 1)]
    parts = [agent.json(source, channels=[{**channel, "share": share}]) for share in shares]
    assert parts == [["a", "sub/c", "z"], ["b", "sub/d"]]
    assert agent.json(source, channels=[{**channel, "mode": "FastFile", "share": {"turn": 7, "count": 9}}]) == []


def test_a_channel_that_is_not_there_is_a_refusal(agent: Agent, tmp_path: Path) -> None:
    record = agent.run("print('never')", channels=[{"name": "train", "source": str(tmp_path / "no"), "mode": "File"}])
    assert (record["cause"], record["exit_code"], record["text"]) == ("refused", None, "")
    assert "channel train" in record["failure"]
    assert agent.run("print('next')")["text"] == "next\n"


@pytest.mark.parametrize("name", ["ChannelError: x", "SourceDirError: x", "DiskError: x"])
def test_a_refusal_is_told_as_it_was_said_whatever_the_users_files_are_called(
    agent: Agent, tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / name)
    record = agent.run("print('never')", channels=[{"name": "train", "source": path, "mode": "File"}])
    assert record["errors"] == [f"channel train: {path!r} is not a file, folder or pattern on this host."]


def test_what_nobody_foresaw_is_told_with_its_kind(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    os.mkfifo(tmp_path / "data" / "sub" / "pipe")
    channels = [{"name": "train", "source": str(tmp_path / "data"), "mode": "File"}]
    (sentence,) = agent.run("print('never')", channels=channels)["errors"]
    assert sentence.startswith("SpecialFileError: "), sentence
    assert str(tmp_path / "data" / "sub" / "pipe") in sentence


def test_a_link_of_an_input_that_leads_nowhere_is_named(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "nothing")
    record = agent.run("print('runs')", channels=[{"name": "train", "source": str(tmp_path / "data")}])
    assert (record["text"], record["errors"]) == ("runs\n", [])
    assert record["notes"] == ["channel train: a link that leads nowhere was left out: link."]


class Missing:
    """Needs a module that is nowhere when it is read."""

    def __reduce__(self) -> Any:
        return (__import__, ("no_such_module",))


def pack(tmp_path: Path, values: dict[str, Any], protocol: str = "") -> dict[str, str]:
    data = pickle.dumps({name: cloudpickle.dumps(value) for name, value in values.items()})
    path = tmp_path / "payload.pkl"
    path.write_bytes(data)
    version = protocol or f"{sys.version_info[0]}.{sys.version_info[1]}/{cloudpickle.__version__}"
    return {"path": str(path), "sha256": hashlib.sha256(data).hexdigest(), "protocol": version}


def test_variables_go_there_and_come_back(agent: Agent, tmp_path: Path) -> None:
    factor = 3
    send = pack(tmp_path, {"x": [1, 2], "double": lambda value: value * factor})
    record = agent.run("y = [double(v) for v in x]\nz = lambda: 1", send=send, receive=["y", "z"])
    back = pickle.loads(agent.read(record["job"], "artifacts/result.pkl"))  # noqa: S301 - our own
    assert pickle.loads(back["y"]) == [3, 6]  # noqa: S301
    assert pickle.loads(back["z"])() == 1  # noqa: S301
    assert record["received"] == {name: len(data) for name, data in back.items()}
    assert [one["name"] for one in record["artifacts"]] == ["result.pkl"]


def test_a_variable_that_cannot_come_back_is_a_sentence(agent: Agent) -> None:
    record = agent.run("good = 1\nimport threading; bad = threading.Lock()", receive=["good", "bad", "missing"])
    assert list(record["received"]) == ["good"]
    assert "'bad' cannot be pickled" in record["errors"][0]
    assert "'missing' is not defined" in record["errors"][1]
    assert record["exit_code"] == 0


def test_bug_22_functions_of_another_python_are_refused_and_values_are_read(agent: Agent, tmp_path: Path) -> None:
    factor = 3
    send = pack(tmp_path, {"double": lambda value: value * factor}, protocol="3.7/0.1")
    record = agent.run("print('never')", send=send)
    assert record["cause"] == "refused"
    assert "send: double contains the code of a function or class, which Python 3.7 compiled" in record["failure"]
    assert "send their data only" in record["failure"]
    assert record["at"]["first_line"] is None
    record = agent.run("print(x)", send=pack(tmp_path, {"x": [1, "ä"]}, protocol="3.7/0.1"))
    assert record["text"] == "[1, 'ä']\n"


def test_what_cannot_be_read_is_refused_with_the_versions_of_both_sides(agent: Agent, tmp_path: Path) -> None:
    send = pack(tmp_path, {"thing": Missing()}, protocol="3.7/")
    failure = agent.run("print('never')", send=send)["failure"]
    ours = f"Python {sys.version_info[0]}.{sys.version_info[1]} with cloudpickle {cloudpickle.__version__}"
    assert failure.endswith(f"It was packed by Python 3.7 with no cloudpickle, this host has {ours}.")


def test_damaged_missing_or_unreadable_variables_are_refused(agent: Agent, tmp_path: Path) -> None:
    def failure(send: dict[str, str]) -> str:
        record = agent.run("print('never')", send=send)
        assert record["cause"] == "refused"
        return str(record["failure"])

    assert "cannot be read on this host" in failure({**pack(tmp_path, {}), "path": str(tmp_path / "no")})
    assert "SHA-256 differs" in failure({**pack(tmp_path, {}), "sha256": "0" * 64})
    assert "send: thing cannot be read on this host (ModuleNotFoundError" in failure(
        pack(tmp_path, {"thing": Missing()})
    )


def test_modules_name_what_the_job_imported(agent: Agent) -> None:
    assert "msgspec" in agent.run("import msgspec, json")["modules"]


def test_the_warm_pool_cache_survives_and_nothing_else(agent: Agent) -> None:
    write = "import os; open(os.environ['SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY'] + '/kept', 'w').write('kept')"
    agent.run(write, warm_pool=True)
    read = "import os; print(open(os.environ['SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY'] + '/kept').read())"
    assert agent.run(read, warm_pool=True)["text"] == "kept\n"


def test_a_job_that_destroys_its_folders_does_not_destroy_the_host(agent: Agent) -> None:
    agent.run("import os, shutil; shutil.rmtree(os.environ['SAGEMAKER_BASE_DIR']); open('/dev/null')")
    assert agent.run("import os; print(os.path.exists(os.getcwd()), os.listdir('.'))")["text"] == "True ['train.py']\n"
