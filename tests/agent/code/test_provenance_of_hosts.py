"""What a host says of a job's provenance: packages with versions, the user's own modules, inputs, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.engines.machine import agent_zipapp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent


def install(folder: Path, name: str, release: str, files: dict[str, str]) -> None:
    """Put a distribution into a folder as an installer does."""
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    info = folder / f"{name}-{release}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n\nName: not-this\n")
    (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def in_site(start_agent: Callable[..., Agent], site: Path) -> Callable[..., Agent]:
    return lambda **changes: start_agent(environment={"PYTHONPATH": str(site)}, **changes)


def preloaded(agent: Agent, *names: str) -> Any:
    agent.client.ask("preload", modules=list(names))
    return agent.client.event("preload")


def test_the_record_has_the_version_of_each_package_that_the_job_imported(in_site: Callable[..., Agent]) -> None:
    record = in_site().run("import json\ndef later():\n    import numpy\nlater()")
    assert record["packages"] == {"numpy": version("numpy")}
    assert record["modules"] == ["numpy"]
    assert record["own_modules"] == []


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_was_preloaded_for_others_is_not_what_this_job_imported(
    in_site: Callable[..., Agent], site: Path, tmp_path: Path, method: str
) -> None:
    install(site, "Base", "1.0", {"base_part/__init__.py": "", "base_part/deep.py": ""})
    install(site, "Upper", "2.0", {"upper.py": "import base_part"})
    install(site, "Stranger", "3.0", {"stranger.py": ""})
    agent = in_site(start_method=method)
    assert preloaded(agent, "stranger", "base_part.deep", "upper")["failed"] == {}
    here = "import sys; print('stranger' in sys.modules, 'upper' in sys.modules)\n"
    record = agent.run(here + "from base_part.deep import __name__ as n")
    assert record["text"] == "True True\n"
    assert record["packages"] == {"Base": "1.0"}
    assert agent.run("import importlib; importlib.import_module('upper')")["packages"] == {
        "Base": "1.0",
        "Upper": "2.0",
    }
    assert agent.run("pass")["packages"] == {}
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "upper.py").write_text("")
    code = f"import sys\ndel sys.modules['upper']\nsys.path.insert(0, {str(mine)!r})\nimport upper"
    record = agent.run(code)
    assert (record["packages"], [one["path"] for one in record["own_modules"]]) == ({}, [str(mine / "upper.py")])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_travels_with_the_agent_is_not_what_a_preload_finds(
    in_site: Callable[..., Agent], site: Path, tmp_path: Path, method: str
) -> None:
    """``torch.cuda`` tries ``import pynvml``, and there is one in the agent's archive."""
    install(site, "nvidia-ml-py", "0.1", {"pynvml.py": "mine = 'of the user'"})
    install(site, "asks", "1.0", {"asks.py": "import pynvml"})
    program = (sys.executable, str(agent_zipapp.write_archive(tmp_path)))
    agent = in_site(start_method=method, options={"program": program})
    assert preloaded(agent, "asks")["failed"] == {}
    record = agent.run("import asks; print(asks.pynvml.mine)")
    assert (record["exit_code"], record["text"]) == (0, "of the user\n")
    assert (record["packages"], record["own_modules"]) == ({"asks": "1.0", "nvidia-ml-py": "0.1"}, [])


def test_parts_of_a_namespace_belong_to_those_who_brought_them(in_site: Callable[..., Agent], site: Path) -> None:
    install(site, "cloud-a", "1.0", {"cloud/a/__init__.py": ""})
    install(site, "cloud-b", "2.0", {"cloud/b/__init__.py": "", "cloud/b/data/x.py": ""})
    assert in_site().run("import cloud.b")["packages"] == {"cloud-b": "2.0"}


def test_modules_of_the_user_are_named_with_their_hash_and_never_learnt(
    in_site: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = in_site()
    (tmp_path / "single.py").write_text("x = 1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__init__.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport single, folder"
    first = agent.run(code)
    assert (first["packages"], first["modules"]) == ({}, [])
    mine = {one["name"]: one for one in first["own_modules"]}
    assert mine["single"]["sha256"] == hashlib.sha256(b"x = 1\n").hexdigest()
    assert mine["single"]["path"] == str(tmp_path / "single.py")
    (tmp_path / "folder" / "part.py").write_text("y = 2\n")
    again = {one["name"]: one["sha256"] for one in agent.run(code)["own_modules"]}
    assert again["single"] == mine["single"]["sha256"]
    assert again["folder"] not in ("", mine["folder"]["sha256"])


def test_a_module_of_the_user_is_not_preloaded(start_agent: Callable[..., Agent], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    agent = start_agent(environment={"PYTHONPATH": str(tmp_path)})
    assert "your own files" in preloaded(agent, "mine")["failed"]["mine"]
    assert agent.run("import mine; print(mine.x)")["text"] == "1\n"
    (tmp_path / "mine.py").write_text("x = 22\n")
    assert agent.run("import mine; print(mine.x)")["text"] == "22\n"


def test_a_package_that_is_replaced_while_the_host_is_idle_is_the_new_one_in_the_next_job(
    in_site: Callable[..., Agent], site: Path
) -> None:
    install(site, "changing", "1.0", {"changing.py": "release = '1.0'"})
    agent = in_site()
    assert preloaded(agent, "changing")["loaded"] == ["changing"]
    code = "import changing; print(changing.release)"
    first = agent.run(code)
    assert (first["text"], first["packages"]) == ("1.0\n", {"changing": "1.0"})
    (site / "changing-1.0.dist-info").rename(site / "gone")
    install(site, "changing", "2.0.0", {"changing.py": "release = '2.0.0'"})
    second = agent.run(code)
    assert (second["text"], second["packages"]) == ("2.0.0\n", {"changing": "2.0.0"})


def test_what_was_being_tried_when_packages_changed_is_tried_again(
    in_site: Callable[..., Agent], site: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "go"
    install(site, "steady", "1.0", {"steady.py": ""})
    waits = f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.002)"
    install(site, "late", "1.0", {"late.py": waits})
    agent = in_site()
    assert preloaded(agent, "steady")["loaded"] == ["steady"]
    agent.client.ask("preload", modules=["late"])
    (site / "steady-1.0.dist-info").rename(site / "steady-1.1.dist-info")
    agent.run("pass")
    flag.touch()
    while (news := agent.client.event("preload"))["pending"] or "late" not in news["loaded"]:
        pass
    assert sorted(news["loaded"]) == ["late", "steady"]


def test_a_package_that_came_from_an_address_is_said_to(in_site: Callable[..., Agent], site: Path) -> None:
    install(site, "direct", "1.0", {"direct.py": ""})
    said = '{"url": "https://example.org/direct.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'
    (site / "direct-1.0.dist-info" / "direct_url.json").write_text(said)
    assert in_site().run("import direct")["notes"] == [
        "direct 1.0 was installed from https://example.org/direct.git@abc."
    ]


def channel(source: Path, mode: str = "File") -> dict[str, Any]:
    return {"channels": [{"name": "train", "source": str(source), "mode": mode, "distribution": ""}]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.csv").write_text("1,2\n")
    (folder / "inner" / "b.csv").write_text("3,4\n")
    for file in folder.rglob("*.csv"):
        os.utime(file, (1_000_000, 1_000_000))
    return folder


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_the_digest_of_an_input_depends_on_names_and_content_only(agent: Agent, data: Path, mode: str) -> None:
    def taken() -> Any:
        (described,) = agent.run("pass", **channel(data, mode))["inputs"]
        return described

    first = taken()
    assert (first["channel"], first["method"], first["files"], first["bytes"]) == ("train", "content", 2, 8)
    os.utime(data / "a.csv", (2_000_000, 2_000_000))
    assert taken() == first
    # Same size, same times: only the content tells, and what was remembered of the file must not be believed.
    (data / "a.csv").write_text("1,9\n")
    os.utime(data / "a.csv", (2_000_000, 2_000_000))
    changed = taken()
    assert changed["sha256"] != first["sha256"]
    (data / "a.csv").rename(data / "c.csv")
    assert taken()["sha256"] not in (first["sha256"], changed["sha256"])


def test_both_modes_give_the_same_digest(agent: Agent, data: Path) -> None:
    of = [agent.run("pass", **channel(data, mode))["inputs"][0]["sha256"] for mode in ("File", "FastFile")]
    assert of[0] == of[1] != ""


def test_a_large_input_has_the_digest_that_its_content_gives(agent: Agent, data: Path) -> None:
    rows = []
    for number in range(3):
        content = bytes([number]) * (6 << 20)
        (data / f"large-{number}").write_bytes(content)
        rows.append((f"large-{number}", content))
    rows += [("a.csv", b"1,2\n"), ("inner/b.csv", b"3,4\n")]
    lines = [f"{name}\0{len(content)}\0{hashlib.sha256(content).hexdigest()}\n" for name, content in sorted(rows)]
    (described,) = agent.run("pass", **channel(data))["inputs"]
    assert described["sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_above_the_limit_names_sizes_and_times_are_hashed_and_the_record_says_so(
    start_agent: Callable[..., Agent], data: Path
) -> None:
    with (data / "large").open("wb") as file:
        file.truncate((1 << 20) + 1)
    agent = start_agent(input_hash_limit=1)
    (first,) = agent.run("pass", **channel(data))["inputs"]
    assert (first["method"], first["bytes"]) == ("listing", (1 << 20) + 9)
    (same,) = agent.run("pass", **channel(data))["inputs"]
    assert same == first
    os.utime(data / "large", (1, 1))
    (touched,) = agent.run("pass", **channel(data))["inputs"]
    assert touched["sha256"] != first["sha256"]


def test_the_greeting_describes_the_machine(start_agent: Callable[..., Agent]) -> None:
    machine = start_agent(threads=1).greeting["machine"]
    assert machine["hostname"] == socket.gethostname()
    assert machine["python"] == " ".join(sys.version.split())
    assert machine["executable"] == sys.executable
    assert platform.machine() in machine["platform"]
    assert (machine["vcpus"], machine["cpus"]) == (1, os.cpu_count())
    assert machine["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_the_record_says_whether_hashes_were_fixed(start_agent: Callable[..., Agent]) -> None:
    assert start_agent(environment={"PYTHONHASHSEED": "7"}).run("pass")["hash_seed"] == "7"
    assert start_agent().run("pass", environment={"PYTHONHASHSEED": "8"})["hash_seed"] == "8"


def test_a_host_with_a_world_of_its_own_names_the_machine_and_not_itself(isolated: Agent) -> None:
    assert isolated.greeting["machine"]["hostname"] == socket.gethostname()
    assert isolated.json("import json, socket; print(json.dumps(socket.gethostname()))") == "algo-1"


def test_a_file_whose_name_is_no_utf_8_in_a_package_of_the_user_takes_no_versions_away(
    in_site: Callable[..., Agent],
) -> None:
    code = (
        "import os\nos.makedirs('mine')\nfor name in (b'__init__', b'caf\\xe9'): open(b'mine/' + name + b'.py', 'w')\n"
    )
    record = in_site().run(code + "import mine, numpy")
    assert (record["packages"], record["notes"]) == ({"numpy": version("numpy")}, [])
    assert [(one["name"], bool(one["sha256"])) for one in record["own_modules"]] == [("mine", True)]
