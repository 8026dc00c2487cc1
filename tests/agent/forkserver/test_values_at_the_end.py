"""What becomes of a program's values at its end: Python lets go of them, and they may have last words."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

KEPT_OPEN = """
import gzip, os
import helpers
folder = os.environ["SM_OUTPUT_DATA_DIR"]
text = open(folder + "/text", "w")
text.write("all of it")
packed = gzip.open(folder + "/packed", "wb")
packed.write(b"all of it")
class Circle: pass
circle = Circle()
circle.own, circle.file = circle, open(folder + "/circle", "w")
circle.file.write("all of it")
helpers.open_at(folder + "/helper")
"""
HELPERS = "def open_at(path):\n    global file\n    file = open(path, 'w')\n    file.write('all of it')\n"
WITH_WORDS = "class Last:\n    def __del__(self):\n        print('last words', end='')\nlast = Last()\n"


def outputs(agent: Agent, record: dict[str, Any]) -> dict[str, bytes]:
    """Give the files of the job's ``output.tar.gz``."""
    (path,) = [one["path"] for one in record["artifacts"] if one["name"] == "output.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(agent.read(record["job"], path))) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # type: ignore[union-attr]


@pytest.mark.parametrize("last", ["", "raise ValueError('x')", "import sys; sys.exit(3)"])
def test_a_file_that_nobody_closed_has_all_that_was_written(agent: Agent, last: str) -> None:
    record = agent.run(f"open('helpers.py', 'w').write({HELPERS!r})\n{KEPT_OPEN}\n{last}")
    found = outputs(agent, record)
    found["packed"] = gzip.decompress(found["packed"])
    assert found == dict.fromkeys(("text", "packed", "circle", "helper"), b"all of it")


def test_the_last_words_of_a_value_are_in_the_log(agent: Agent) -> None:
    assert agent.run(WITH_WORDS)["text"] == "last words"


def test_a_thread_of_the_background_says_nothing_of_names_that_are_gone(agent: Agent) -> None:
    work = "import threading, time\ndef work():\n    while True: time.sleep(0)\n"
    slow = "class Slow:\n    def __del__(self, sleep=time.sleep): sleep(0.2)\n_a = Slow()\n"
    record = agent.run(work + slow + "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.05)")
    assert (record["text"], record["exit_code"]) == ("", 0)


@pytest.fixture
def preloaded(start_agent: Callable[..., Agent], tmp_path: Path) -> Callable[[str, str], Agent]:
    """Start an agent that has imported a module with this text."""

    def start(name: str, text: str) -> Agent:
        folder = tmp_path / "modules"
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True)
        (folder / "installed-1.0.dist-info").mkdir()
        path.write_text(text)
        agent = start_agent(preload=[name], environment={"PYTHONPATH": str(folder)})
        told = agent.greeting["preload"]
        assert (agent.client.event("preload") if told["pending"] else told)["loaded"] == [name]
        return agent

    return start


def test_a_finaliser_of_a_job_is_called_although_a_preload_has_one(preloaded: Callable[[str, str], Agent]) -> None:
    finalised = "import weakref\nclass Value: pass\nvalue = Value()\nweakref.finalize(value, print, {!r})\n"
    agent = preloaded("finalised", finalised.format("of the preload"))
    assert agent.run(finalised.format("of the job"))["text"] == "of the job\n"


@pytest.mark.parametrize(
    ("module", "name"), [("mlflow.tracking.fluent", "_safe_end_run"), ("jax._src.dispatch", "wait_for_tokens")]
)
def test_what_a_job_began_with_a_preload_is_brought_to_its_end(
    preloaded: Callable[[str, str], Agent], module: str, name: str
) -> None:
    agent = preloaded(
        module, f"import atexit\nbegun = []\ndef {name}(): print('ended', begun)\natexit.register({name})\n"
    )
    assert agent.run(f"import {module}\n{module}.begun.append('run')")["text"] == "ended ['run']\n"


def test_what_a_pool_of_threads_still_has_to_do_is_done_although_a_preload_has_imported_it(
    start_agent: Callable[..., Agent],
) -> None:
    agent = start_agent(preload=["concurrent.futures.thread", "concurrent.futures.process"])
    told = agent.greeting["preload"]
    assert (agent.client.event("preload") if told["pending"] else told)["failed"] == {}
    source = "import concurrent.futures, time\npool = concurrent.futures.ThreadPoolExecutor(1)\n"
    work = "def work():\n    time.sleep(0.2)\n    print('done')\npool.submit(work)\npool.submit(work)\n"
    assert agent.run(source + work)["text"] == "done\ndone\n"
