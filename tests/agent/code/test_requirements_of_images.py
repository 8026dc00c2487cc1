"""Requirements of a job if its Python is the image's: pip installs them before the script, for that job alone."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
import venv
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from source_archives import packed

from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

pytestmark = pytest.mark.heavy("environments")

HERE = version("msgspec")
SEE = """
import json, os, subprocess, sys
import alpha, msgspec
ask = [sys.executable, "-c", "import alpha; print(alpha.version)"]
print(json.dumps({
    "file": alpha.__file__, "version": alpha.version, "other": msgspec.__version__, "others": msgspec.__file__,
    "by this": subprocess.run(ask, capture_output=True, text=True).stdout.strip(),
    "by name": subprocess.run(["python", *ask[1:]], capture_output=True, text=True).stdout.strip(),
    "path": sys.path[:2], "python_path": os.environ["PYTHONPATH"].split(":")[:2],
}))
"""


def nearby(folder: Path, *wheels: tuple[str, str]) -> dict[str, str]:
    """Write wheels, and return the variables by which pip finds them without an index."""
    for name, number in wheels:
        write_wheel(folder / "wheels", name, number, code="__version__ = version\n")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels")}


@pytest.mark.parametrize("kind", ["agent", "isolated"])
def test_it_is_installed_for_one_job_and_what_is_there_already_is_not(
    request: pytest.FixtureRequest, kind: str, far_folder: Path
) -> None:
    host: Agent = request.getfixturevalue(kind)
    given = {"environment": nearby(far_folder, ("alpha", "1.0"), ("alpha", "2.0"), ("msgspec", HERE))}
    ml = "/opt/ml" if kind == "isolated" else f"{host.folder}/ml"
    for wanted in ("1.0", "2.0"):
        record = host.run(SEE, requirements=["alpha", "msgspec", f"-c alpha=={wanted}"], **given)
        assert record["exit_code"] == 0, record["text"]
        seen = json.loads(record["text"].splitlines()[-1])
        assert (seen["version"], seen["by this"], seen["by name"]) == (wanted, wanted, wanted)
        assert seen["file"].startswith(f"{ml}/requirements/lib/python3.")
        assert (seen["other"], seen["others"].startswith(ml)) == (HERE, False)
        assert seen["path"] == seen["python_path"]
        assert seen["path"][0] == f"{ml}/code"
        assert f"requirements are installed into {ml}/requirements, a folder of this job" in record["text"]
        assert record["left_behind"] == []
    gone = "import importlib.util, json; print(json.dumps(importlib.util.find_spec('alpha') is None))"
    assert host.json(gone) is True
    assert not (host.folder / "ml" / "requirements").exists()


def start_image(start: Callable[..., Agent], folder: Path) -> tuple[Agent, Path]:
    """Start a host whose Python has its own folder of packages, to which a test writes; return both."""
    image = folder / "image" / "site-packages"
    image.mkdir(parents=True)
    path = os.pathsep.join([str(image), os.environ.get("PYTHONPATH", "")])
    return start(environment={"PYTHONPATH": path}), image


def pack(folder: Path, values: dict[str, Any]) -> dict[str, str]:
    """Pack variables as a kernel does."""
    data = pickle.dumps({name: cloudpickle.dumps(value) for name, value in values.items()})
    path = folder.with_suffix(".pkl")
    path.write_bytes(data)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}/{cloudpickle.__version__}"
    return {"path": str(path), "sha256": hashlib.sha256(data).hexdigest(), "protocol": version}


def warm(agent: Agent, module: str) -> None:
    """Let a host preload a module."""
    agent.client.ask("preload", modules=[module])
    assert module in agent.client.event("preload")["loaded"]


def test_another_version_of_what_its_host_has_imported_is_the_jobs_and_nothing_else_is_lost(
    agent: Agent, tmp_path: Path
) -> None:
    warm(agent, "msgspec")
    ask = "import json, msgspec, os, sys\nprint(json.dumps([msgspec.__version__, sys.argv[1:], os.getcwd()]))\n"
    own = f"{ask}kept = {{'a': 1}}\nassert msgspec.version == '99.0'\nassert __name__ == '__main__'\n"
    given = {"environment": nearby(tmp_path, ("msgspec", "99.0")), "hyperparameters": {"n": "1"}}
    record = agent.run(own, requirements=["msgspec>=99"], receive=["kept"], **given)
    assert record["exit_code"] == 0, record["text"]
    assert json.loads(record["text"].splitlines()[-1]) == ["99.0", ["-n", "1"], f"{agent.folder}/ml/code"]
    assert list(record["received"]) == ["kept"]
    assert record["packages"]["msgspec"] == "99.0"
    assert record["at"]["first_line"] > record["at"]["awake"] >= record["at"]["received"]
    broken = agent.run("import msgspec\n1 / 0\n", requirements=["msgspec>=99"], **given)
    assert (broken["exception"]["type"], broken["exception"]["line"]) == ("ZeroDivisionError", 2)
    assert "jupyter_smx" not in broken["exception"]["traceback"]
    assert agent.json(ask)[0] == HERE, "the host itself is as it was"


def test_what_its_host_has_imported_uses_the_version_of_the_job_too_and_variables_come_along(
    start_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    host, image = start_image(start_agent, tmp_path)
    (image / "alpha.py").write_text("version = '1.0'\n")
    (image / "uses.py").write_text("import alpha\nseen = alpha.version\n")
    warm(host, "uses")
    send = {name: pack(tmp_path / name, {name: [name]}) for name in ("send", "shared")}
    ask = "import json, uses, alpha\nprint(json.dumps([uses.seen, alpha.version, *send, *shared]))\nsend += shared\n"
    given = {"environment": nearby(tmp_path, ("alpha", "2.0")), "requirements": ["alpha"]}
    record = host.run(ask, receive=["send"], **given, **send)
    assert record["exit_code"] == 0, record["text"]
    assert json.loads(record["text"].splitlines()[-1]) == ["2.0", "2.0", "send", "shared"]
    assert list(record["received"]) == ["send"]


@pytest.mark.parametrize(("wanted", "is_new"), [("part", True), ("other", False)])
def test_a_package_of_a_namespace_is_the_jobs_own_where_its_host_has_imported_another_one(
    start_agent: Callable[..., Agent], tmp_path: Path, wanted: str, is_new: bool
) -> None:
    host, image = start_image(start_agent, tmp_path)
    (image / "spread" / "part").mkdir(parents=True)
    (image / "spread" / "part" / "__init__.py").write_text("version = '1.0'\n")
    warm(host, "spread.part")
    write_wheel(tmp_path / "wheels", wanted, "2.0", within="spread")
    given = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    ask = f"import json, sys\nwarm = 'spread.part' in sys.modules\nimport spread.part, spread.{wanted}\n"
    ask += f"print(json.dumps([spread.part.version, spread.{wanted}.version, warm]))\n"
    record = host.run(ask, requirements=[wanted], environment=given)
    assert record["exit_code"] == 0, record["text"]
    expected = ["2.0" if is_new else "1.0", "2.0", not is_new]
    assert json.loads(record["text"].splitlines()[-1]) == expected, "and the rest stays warm"
    assert host.json("import json, spread.part\nprint(json.dumps(spread.part.version))") == "1.0"


def test_a_job_that_is_stopped_while_it_is_another_interpreter_hears_of_it(agent: Agent, tmp_path: Path) -> None:
    warm(agent, "msgspec")
    wait = """
import msgspec, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("waits", msgspec.version, flush=True)
signal.pause()
"""
    given = {"environment": nearby(tmp_path, ("msgspec", "99.0")), "requirements": ["msgspec>=99"]}
    job, lease = agent.start(wait, **given)
    agent.wait_for_log(job, "waits 99.0")
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("stopped", 5)


def test_files_of_the_folder_of_code_are_found_where_that_is_on_the_host(agent: Agent, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "wheels", "alpha", "1.0")
    source = packed(tmp_path, {"my links/links.html": f'<a href="file://{wheel}">{wheel.name}</a>', "helper.py": ""})
    wishes = ["--find-links '/home/me/project/my links/links.html'", "alpha"]
    given: dict[str, Any] = {"environment": {"PIP_NO_INDEX": "1"}, "folder": "/home/me/project"}
    record = agent.run("import alpha; print(alpha.version)", requirements=wishes, source_dir=source, **given)
    assert record["text"].splitlines()[-1] == "1.0", record["text"]


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({"PIP_NO_INDEX": "1"}, "pip ended with exit code 1. The log says why."),
        (
            {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"},
            "This host cannot reach a package index: ",
        ),
    ],
)
def test_what_cannot_be_installed_is_the_jobs_failure_as_sagemaker_names_it(
    agent: Agent, index: dict[str, str], said: str
) -> None:
    record = agent.run("print('ran')", requirements=["no-such-package-of-ours"], environment=index)
    assert (record["cause"], record["exit_code"]) == ("exit", 1)
    assert said in record["reason"]
    assert record["reason"].startswith("InstallRequirementsError: pip ended with exit code 1.")
    assert "ran\n" not in record["text"]
    assert "no-such-package-of-ours" in record["text"], "what pip said"


def test_an_image_without_pip_is_named_with_a_cure(start_agent: Callable[..., Agent], tmp_path: Path) -> None:
    home = tmp_path / "no-pip"
    venv.create(home, with_pip=False)
    host = start_agent(options={"program": (str(home / "bin" / "python"), "-m", "jupyter_smx.agent")})
    record = host.run("print('ran')", requirements=["alpha"])
    assert record["reason"].startswith(f"InstallRequirementsError: {home}/bin/python in the image has no pip")
    assert "Use an image with pip" in record["reason"]
    assert record["text"].count("ran\n") == 0
    assert host.run("print('ran')")["text"] == "ran\n"
