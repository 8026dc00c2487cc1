"""A loaded module that is imported again is noticed, whichever way, by every Python that can be found here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from other_pythons import pythons

SCRIPT = """
import importlib, json, sys
from jupyter_smx.agent.code import imports
imports.begin_watching()
import base, upper, other
imports.end_watching()
seen = []
def job(act):
    imports.begin_job()
    act()
    seen.append(sorted(name for names in imports.imports_by_folder().values() for name in names))
def by_statement():
    import upper
def from_a_part():
    from base.part import x
def relative():
    importlib.import_module(".part", "base")
job(lambda: None)
job(by_statement)
job(from_a_part)
job(lambda: importlib.import_module("other"))
job(lambda: __import__("upper"))
job(relative)
print(json.dumps(seen))
"""
SEEN = '[[], ["base", "upper"], ["base"], ["other"], ["base", "upper"], ["base"]]'


@pytest.mark.parametrize("python", pythons())
def test_what_a_job_asks_for_is_noticed_and_what_that_needs(python: str, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "__init__.py").write_text("")
    (tmp_path / "base" / "part.py").write_text("x = 1\n")
    (tmp_path / "upper.py").write_text("import base.part\n")
    (tmp_path / "other.py").write_text("")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    clean = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run([python, "-c", SCRIPT], env=clean, capture_output=True, text=True, check=False)
    assert (told.stdout.strip(), told.stderr) == (SEEN, "")
