"""What 6b340c9 recorded, restored once with a controller of this tree on it, and what it said then."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from recorded_data import FIXTURE, Asker, controller, restore, variables
from traitlets.config import Config

from jupyter_smx.kernel.api import session

if TYPE_CHECKING:
    from collections.abc import Iterator


RENAMED = {
    "The idle host ended by itself.": "The idle host ended unexpectedly.",
    "The keep-alive ran out.": "The keep-alive expired.",
    "wish (3)": "option (3)",
    "wish ": "option ",
    "Nothing differs": "No differences",
    "KEPT FOR": "EXPIRES IN",
    "WHAT  ": "SECTION  ",
    "PRICE FROM": "PRICE SOURCE",
    "REST FROM": "HARDWARE SOURCE",
    "  its share  ": "  share  ",
    "The catalogue that ships with jupyter-smx.": "From the catalog of jupyter-smx.",
    " an hour, all hosts together": " per hour for all hosts",
    "idle time of its pool:": "idle time of pool:",
    "from the cell to the first line:": "Time to first line:",
    "\\n  isolation: namespace\\n": "\\n  Isolation: Linux namespaces\\n",
}
"""Words for people that were changed on purpose; what programs read is as it was."""


@pytest.fixture(scope="session")
def said() -> dict[str, Any]:
    """Give what the package of 6b340c9 answered, by path, page or state of the pool."""
    text = (FIXTURE / "answers.json").read_text(encoding="utf-8")
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    text = re.sub(
        r"([\w-]+): no rule found anything\. CPUBottleneck and LowGPUUtilization look at hosts whose GPUs were "
        r"measured, after their patience of 50 s and 500 s\.",
        r"No recommendations for \1. CPUBottleneck and LowGPUUtilization evaluate hosts with measured GPUs, "
        r"after 50 s and 500 s.",
        text,
    )
    text = re.sub(r"There is no run of (\S+) before (\S+)\.", r"\1 has no run before \2.", text)
    told: dict[str, Any] = json.loads(text)
    # A record keeps the words of its time; a step that has none gets today's.
    events = "page: events endless"
    told[events] = told[events].replace("Waiting for room on the engine.", "Waiting for capacity.", 1)
    return told


@pytest.fixture(scope="session")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """Give the way to a controller on the data folder of 6b340c9, whose pool has lost its host."""
    folder = tmp_path_factory.mktemp("upgrade")
    restore(folder, 600.0)
    (folder / "work").mkdir()
    with controller(folder) as made:
        made.wait_for_pool_end()
        yield made


@pytest.fixture
def asker(restored: Asker, monkeypatch: pytest.MonkeyPatch) -> Asker:
    """Give that controller, and let commands and kernels of the test work with it."""
    for name, value in variables(restored.folder).items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    return restored


@pytest.fixture
def shell(asker: Asker) -> Iterator[InteractiveShell]:  # noqa: ARG001 - it must be there first
    """Give a shell with the magics."""
    config = Config()
    config.HistoryManager.enabled = False
    made: InteractiveShell = InteractiveShell(config=config)  # type: ignore[no-untyped-call]
    made.run_line_magic("load_ext", "jupyter_smx")
    yield made
    session.close_session()
