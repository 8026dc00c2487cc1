"""What is noted of the environment that a package reads while it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ASK = """
import json, os, sys
from jupyter_smx.agent.code.environ import reads as environ_reads
environ_reads.expect({"OMP_NUM_THREADS": "7"})
plain = type(os.environ)
found = {row[0]: row[1:] for row in environ_reads.as_rows(environ_reads.reads_of("top"))}
assert type(os.environ) is plain and "OMP_NUM_THREADS" not in os.environ
print(json.dumps([found, sys.modules["top"].SEEN]))
"""


def reads(folder: Path, **modules: str) -> tuple[dict[str, Any], Any]:
    """Import ``top`` in an interpreter of its own; gives what each package read, and what ``top`` saw."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text if "SEEN" in text else f"{text}\nSEEN = None\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "KNOWN": "1"}
    environment.pop("OMP_NUM_THREADS", None)
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found, seen = json.loads(done.stdout)
    return found, seen


@pytest.mark.parametrize(
    "text",
    [
        "os.environ.get('NAME')",
        "os.getenv('NAME', 'x')",
        "'NAME' in os.environ",
        "os.environ.setdefault('NAME', 'x')",
        "os.environ.pop('NAME', None)",
        "os.environ['NAME'] = 'x'",
        "(lambda: os.environ.get('NAME'))()",
        "os.path.expandvars('$NAME')",
    ],
)
def test_a_name_that_is_asked_for_or_set_is_noted(tmp_path: Path, text: str) -> None:
    found, _seen = reads(tmp_path, top=f"import os\n{text}\n")
    assert found == {"top": [["NAME"], [], ["top"]]}


def test_a_copy_and_an_iteration_name_no_variable_but_the_beginnings_that_are_asked_for(tmp_path: Path) -> None:
    found, seen = reads(
        tmp_path,
        top="import os\nwhole = dict(os.environ), os.environ.copy(), {**os.environ}, list(os.environ.values())\n"
        "SEEN = [v for k, v in os.environ.items() if k.startswith(('KNO', 'ABC_'))]\n"
        "assert whole[0] == whole[1] and whole[0]['KNOWN'] == os.environb[b'KNOWN'].decode()\n",
    )
    assert found == {"top": [[], ["ABC_", "KNO", "TOP_"], ["top"]]}
    assert seen == ["1"]


def test_a_read_belongs_to_the_package_whose_import_runs(tmp_path: Path) -> None:
    found, seen = reads(
        tmp_path,
        top="import os, helper, part\nSEEN = [helper.read('OF_TOP'), os.environ['OMP_NUM_THREADS'], part.SEEN]\n",
        helper="import os\nread = os.environ.get\nread('OF_HELPER')\n",
        part="import helper\nSEEN = helper.read('KNOWN')\n",
    )
    assert found == {
        "helper": [["OF_HELPER"], [], ["helper", "part", "top"]],
        "part": [["KNOWN"], [], ["part", "top"]],
        "top": [["OF_TOP", "OMP_NUM_THREADS"], [], ["top"]],
    }
    assert seen == [None, "7", "1"]


def test_names_of_an_iteration_are_texts_like_all_others(tmp_path: Path) -> None:
    _found, seen = reads(
        tmp_path,
        top="import json, os, pickle\nnames = list(os.environ)\nround = pickle.loads(pickle.dumps(names))\n"
        "assert round == names and {type(one) for one in round} == {str}\n"
        "SEEN = json.loads(json.dumps(names)).count('KNOWN')\n",
    )
    assert seen == 1
