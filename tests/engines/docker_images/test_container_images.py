"""What ``make image`` promises: images of this machine's Python, the same from the same, each with its fault."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.docker import image_layer, images
from jupyter_smx.testing.docker.image_layer import Layer
from jupyter_smx.testing.docker.images import EMPTY, FOREIGN, IMAGES, NO_PYTHON, ODD, OLD_PYTHON, OTHER, PYTHON

if TYPE_CHECKING:
    from pathlib import Path

    from docker.models.images import Image

    from jupyter_smx.testing.docker.fixtures import Docker

HARDENED = {
    "cap_drop": ["ALL"],
    "network_mode": "none",
    "read_only": True,
    "remove": True,
    "security_opt": ["no-new-privileges"],
    "stderr": True,
    "tmpfs": {"/tmp": ""},  # noqa: S108 - of the container
    "user": "1234:1234",
}


def ran(docker: Docker, name: str, *command: str) -> str:
    return str(docker.client.containers.run(name, list(command), **HARDENED).decode())


def image(docker: Docker, name: str) -> Image:
    return docker.client.images.get(name)


def tarred(layer: Layer) -> tuple[str, dict[str, tarfile.TarInfo]]:
    file = io.BytesIO()
    digest = layer.save(file)
    file.seek(0)
    return digest, {member.name: member for member in tarfile.open(fileobj=file)}


def small(file: Path, text: str = "x = 1\n", *, stamp: int = 1_000_000_000) -> Layer:
    file.write_text(text)
    os.utime(file, (stamp, stamp))
    layer = Layer()
    layer.file("/usr/share/it/x.py", file)
    layer.write("/etc/motd", "hello\n")
    layer.link("/bin", "usr/bin")
    return layer


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first, _ = tarred(small(tmp_path / "a.py"))
    assert tarred(small(tmp_path / "b.py"))[0] == first
    assert tarred(small(tmp_path / "a.py", "x = 2\n"))[0] != first


def test_the_key_changes_with_content_time_and_name(tmp_path: Path) -> None:
    first = small(tmp_path / "a.py").key()
    assert small(tmp_path / "b.py").key() == first
    more = small(tmp_path / "a.py")
    more.write("/etc/motd", "good bye\n")
    another = small(tmp_path / "a.py")
    another.folder("/opt")
    assert len({first, more.key(), another.key(), small(tmp_path / "c.py", stamp=1_000_000_001).key()}) == 4


def test_a_layer_has_the_folders_above_its_files_and_everything_is_roots(tmp_path: Path) -> None:
    _, members = tarred(small(tmp_path / "a.py"))
    assert sorted(members) == ["bin", "etc", "etc/motd", "usr", "usr/share", "usr/share/it", "usr/share/it/x.py"]
    assert {(one.uid, one.gid, one.uname) for one in members.values()} == {(0, 0, "")}
    assert (members["bin"].linkname, members["usr/share/it/x.py"].mtime) == ("usr/bin", 1_000_000_000)


def test_a_file_that_a_layer_takes_away_is_named_as_images_do() -> None:
    layer = Layer()
    layer.remove("/usr/bin/python3")
    assert "usr/bin/.wh.python3" in tarred(layer)[1]


def test_a_tree_leaves_out_folders_by_pattern(tmp_path: Path) -> None:
    for name in ("keep/a.py", "test/b.py", "keep/config-3.11/c.py", "keep/broken"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "keep" / "broken").unlink()
    (tmp_path / "keep" / "broken").symlink_to("/nowhere")
    layer = Layer()
    layer.tree(tmp_path, ("test", "config-*"))
    assert [name for name, one in tarred(layer)[1].items() if one.isfile()] == [f"{tmp_path}/keep/a.py".lstrip("/")]


def test_a_program_that_this_machine_lacks_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program is not in /usr/bin or /bin"):
        Layer().program("no-such-program")


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("ldd") is None, reason="what the loader needs is asked of ldd"
)
def test_the_libraries_of_a_program_come_along_at_their_own_paths() -> None:
    layer = Layer()
    layer.program("sh")
    layer.libraries()
    names = [name for name in tarred(layer)[1] if ".so" in name]
    assert any("libc" in name for name in names)
    assert any("ld-" in name for name in names)


def test_images_have_names_of_their_own_and_say_what_they_are() -> None:
    assert PYTHON.name == "jupyter-smx-test:latest"
    assert len({one.name for one in IMAGES}) == len({one.description for one in IMAGES}) == len(IMAGES)
    assert {layer for one in IMAGES for layer in one.layers} <= set(images.layers())


def test_every_image_is_there_and_a_second_time_nothing_is_made(docker: Docker) -> None:
    tags = {tag for one in docker.client.images.list(images.REPOSITORY) for tag in one.tags}
    assert tags >= {one.name for one in IMAGES}
    assert images.load(docker.client) == []


def test_an_image_made_anew_is_the_same_one(docker: Docker) -> None:
    before = image(docker, EMPTY.name).id
    docker.client.images.remove(EMPTY.name)
    assert images.load(docker.client) == [EMPTY.name]
    assert image(docker, EMPTY.name).id == before


def test_an_image_made_of_something_else_is_made_anew(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    before = image(docker, EMPTY.name).id
    with monkeypatch.context() as patch:
        patch.setattr(images, "_base", lambda: small_base("another"))
        assert EMPTY.name in images.load(docker.client, [EMPTY])
        assert image(docker, EMPTY.name).id != before
    assert images.load(docker.client, [EMPTY]) == [EMPTY.name]
    assert image(docker, EMPTY.name).id == before


def small_base(text: str) -> image_layer.Layer:
    layer = Layer()
    layer.write("/etc/motd", text)
    return layer


def test_its_python_is_ours_whole_and_compiled_for_a_stranger_without_any_right(docker: Docker) -> None:
    lines = [
        "import bz2, ctypes, json, lzma, multiprocessing, os, socket, sqlite3, ssl, sys, threading, zlib",
        "multiprocessing.Lock()",
        "print(json.dumps([sys.version, os.getuid(), os.environ['TEST_IMAGE'], os.path.exists(json.__cached__)]))",
    ]
    said = json.loads(ran(docker, PYTHON.name, "python3", "-I", "-S", "-c", "\n".join(lines)))
    assert said == [sys.version, 1234, "latest", True]
    trace = ran(docker, PYTHON.name, "python3", "-v", "-c", "import json").splitlines()
    assert any("json/__init__" in line and " matches " in line for line in trace), "it would be compiled at each start"


def test_its_shell_has_the_programs_of_scripts(docker: Docker) -> None:
    assert ran(docker, PYTHON.name, "/bin/bash", "-c", "printf '%s ' b a | tr ' ' '\\n' | sort | head -n 1") == "a\n"
    assert ran(docker, NO_PYTHON.name, "/bin/sh", "-c", "command -v python3 python; echo none") == "none\n"


def test_the_old_python_says_so_however_it_is_asked(docker: Docker) -> None:
    ask = "import sys; print(sys.version_info[:2], sys.argv, '%x' % sys.hexversion)"
    assert ran(docker, OLD_PYTHON.name, "python3", "-I", "-S", "-c", ask, "a") == "(3, 6) ['-c', 'a'] 30609f0\n"
    assert ran(docker, OLD_PYTHON.name, "python", "--version") == "Python 3.6.9\n"


def test_the_other_one_differs_by_its_id_and_shares_its_layers(docker: Docker) -> None:
    first, second = (image(docker, one.name).attrs for one in (PYTHON, OTHER))
    assert first["Id"] != second["Id"]
    assert first["RootFS"] == second["RootFS"]
    assert ran(docker, OTHER.name, "sh", "-c", "echo $TEST_IMAGE") == "other\n"


def test_the_others_are_what_they_say(docker: Docker) -> None:
    assert image(docker, FOREIGN.name).attrs["Architecture"] == "s390x" != images.architecture()
    assert image(docker, PYTHON.name).attrs["Architecture"] == images.architecture()
    settings = image(docker, ODD.name).attrs["Config"]
    assert settings["Entrypoint"] == ["/usr/bin/false"]
    assert {"/data", "/opt/ml", "/opt/ml/model/"} <= set(settings["Volumes"])
    assert image(docker, EMPTY.name).attrs["Size"] < 10_000
    assert image(docker, PYTHON.name).attrs["Size"] < 200_000_000
