"""Images for tests of container engines, made of this machine's own Python without any registry.

``python -m jupyter_smx.testing.docker.images`` (``make image``) puts them into the Docker daemon that answers.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from jupyter_smx.testing.docker.image_layer import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from docker import DockerClient

REPOSITORY = "jupyter-smx-test"
KEY = "jupyter-smx-test.key"
"""Label of an image with a digest of its sources."""

_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
_PROGRAMS = (
    *("bash", "cat", "chmod", "cp", "cut", "date", "dd", "df", "dirname", "echo", "env", "expr", "false", "find"),
    *("grep", "head", "hostname", "id", "ln", "ls", "mkdir", "mktemp", "mv", "nice", "printf", "pwd", "readlink"),
    *("rm", "rmdir", "sed", "seq", "sh", "sleep", "sort", "stat", "tail", "tar", "tee", "test", "touch", "tr", "true"),
    *("uname", "uniq", "wc", "which", "xargs", "yes"),
)
_EXCLUDED = (
    *("config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "site-packages"),
    *("test", "tests", "tkinter", "turtledemo"),
    "*.opt-[12].pyc",  # what only a Python that is started with -O reads
)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_OLD_PYTHON_SCRIPT = """\
import runpy, sys
sys.version_info = (3, 6, 9, "final", 0)
sys.hexversion = 0x030609F0
sys.version = "3.6.9 (default, Jan  1 2020, 00:00:00) [GCC 8.4.0]"
words = sys.argv[1:]
while words and words[0].startswith("-") and words[0] not in ("-", "-c", "-m", "-V", "--version"):
    del words[0]
if words[:1] in (["-V"], ["--version"]):
    print("Python 3.6.9")
elif words[:1] == ["-c"]:
    sys.argv = ["-c", *words[2:]]
    exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
elif words[:1] == ["-m"]:
    sys.argv = words[1:]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
elif words and words[0] != "-":
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
else:
    sys.argv = ["-"]
    exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
"""
"""A Python of this machine that reports an old version, since no registry has a real one for this test."""


class TestImage(NamedTuple):
    """One image: its tag, its purpose, its layers from below, and its configuration."""

    tag: str
    description: str
    layers: tuple[str, ...]
    settings: Mapping[str, object] = {}
    architecture: str = ""

    @property
    def name(self) -> str:
        """Return its name at a daemon."""
        return f"{REPOSITORY}:{self.tag}"

    def configuration(self, digests: Sequence[str], key: str) -> bytes:
        """Write the file whose digest is the image's id."""
        settings = {"Env": [_PATH, f"TEST_IMAGE={self.tag}"], "Labels": {KEY: key}, **self.settings}
        body = {
            "architecture": self.architecture or architecture(),
            "os": "linux",
            "created": "2020-01-01T00:00:00Z",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": list(digests)},
            "history": [{"created": "2020-01-01T00:00:00Z", "created_by": name} for name in self.layers],
        }
        return json.dumps(body, sort_keys=True).encode()


PYTHON = TestImage(
    "latest", "has this machine's Python and some programs", ("programs", "python"), {"Cmd": ["python3"]}
)
OTHER = TestImage("other", "has the same, and is another image", ("programs", "python"), {"Cmd": ["python3"]})
PIP = TestImage("pip", "has the same and this environment's pip", ("programs", "python", "pip"), {"Cmd": ["python3"]})
NO_PYTHON = TestImage("no-python", "has a shell and no Python", ("programs",), {"Cmd": ["sh"]})
EMPTY = TestImage("empty", "has no program at all", ("nothing",), {"Cmd": ["none"]})
OLD_PYTHON = TestImage("old-python", "has a Python that says that it is 3.6", ("programs", "python", "old"))
SILENT = TestImage("silent", "has a Python that says nothing and does not end", ("programs", "silent"))
FOREIGN = TestImage("foreign", "is for another kind of processor", ("programs", "python"), {}, "s390x")
VOLUMES = ("/data", "/tmp/a/b", "/opt/ml", "/opt/ml/model/", "/opt/ml/input/config")  # noqa: S108 - of an image
ODD = TestImage(
    "odd",
    "has Python where only PATH says it, an entry point that fails, volumes, a user and a folder that is not there",
    ("programs", "python", "elsewhere"),
    {
        "Env": ["PATH=/opt/a b/bin:/usr/bin", "TEST_IMAGE=odd", "PYTHONPATH=/nowhere", "PYTHONSTARTUP=/nowhere"],
        "Entrypoint": ["/usr/bin/false"],
        "Cmd": ["nothing of ours"],
        "User": "nobody",
        "WorkingDir": "/not/there/yet",
        "Volumes": {path: {} for path in VOLUMES},
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["CMD", "false"], "Interval": 1_000_000_000},
    },
)
BROKEN = TestImage(
    "broken",
    "has a Python that its variables keep from starting, unless it is told to ignore them",
    ("programs", "python"),
    {"Env": ["PYTHONHOME=/nowhere"]},
)
IMAGES = (PYTHON, OTHER, PIP, NO_PYTHON, EMPTY, OLD_PYTHON, SILENT, FOREIGN, ODD, BROKEN)


def architecture() -> str:
    """Return this machine's architecture by its name for images."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def layers() -> dict[str, Layer]:
    """Describe every layer; reads names, sizes and times only, and the names of large layers once in a process."""
    return {
        "nothing": _base(),
        "programs": _programs(),
        "python": _python(),
        "pip": _pip(),
        "old": _old_python(),
        "silent": _silent(),
        "elsewhere": _odd_python(),
    }


def size(images: Sequence[TestImage] = IMAGES) -> int:
    """Count the bytes of their files; a daemon that loads them needs twice that, and room for what it writes."""
    parts = layers()
    return sum(parts[name].size() for name in {name for image in images for name in image.layers})


def load(
    client: DockerClient, images: Sequence[TestImage] = IMAGES, more: Mapping[str, Layer] | None = None
) -> list[str]:
    """Load the images that a daemon lacks or has in another version; return their names.

    ``more`` are layers that are not among :func:`layers`.
    """
    parts = {**layers(), **(more or {})}
    keys = {image.name: _key(image, parts) for image in images}
    wanted = [image for image in images if _loaded_key(client, image) != keys[image.name]]
    if wanted:
        with tempfile.TemporaryFile() as archive:
            _write(archive, wanted, parts, keys)
            archive.seek(0)
            # Podman names all of them in one line, which the library takes for one name; and its types lack this call.
            api: Any = client.api
            for row in api.load_image(archive):
                if "errorDetail" in row:
                    raise RuntimeError(row["errorDetail"])
        client.images.prune({"dangling": True, "label": KEY})  # those that had the names before
    return [image.name for image in wanted]


def _key(image: TestImage, parts: Mapping[str, Layer]) -> str:
    said = [image.configuration([], "").decode(), *(parts[name].key() for name in image.layers)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def _loaded_key(client: DockerClient, image: TestImage) -> str:
    found = client.api.images(name=image.name)
    return str((found[0].get("Labels") or {}).get(KEY, "")) if found else ""


def _write(
    archive: IO[bytes], images: Sequence[TestImage], parts: Mapping[str, Layer], keys: Mapping[str, str]
) -> None:
    """Write the form that ``docker save`` writes, with each layer once."""
    with tarfile.open(fileobj=archive, mode="w") as tar:
        digests: dict[str, str] = {}
        for name in sorted({name for image in images for name in image.layers}):
            with tempfile.TemporaryFile() as file:
                digests[name] = parts[name].save(file)
                _member(tar, f"{name}.tar", file)
        manifest = []
        for image in images:
            configuration = image.configuration([digests[name] for name in image.layers], keys[image.name])
            config = f"{hashlib.sha256(configuration).hexdigest()}.json"
            _member(tar, config, io.BytesIO(configuration))
            files = [f"{name}.tar" for name in image.layers]
            manifest.append({"Config": config, "RepoTags": [image.name], "Layers": files})
        _member(tar, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))


def _member(tar: tarfile.TarFile, name: str, file: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size = file.seek(0, os.SEEK_END)
    file.seek(0)
    tar.addfile(info, file)


def _base() -> Layer:
    layer = Layer()
    layer.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n")
    layer.write("/etc/group", "root:x:0:\nnogroup:x:65534:\n")
    layer.folder("/tmp", 0o1777)  # noqa: S108 - of the image
    return layer


@cache
def _programs() -> Layer:
    layer = _base()
    layer.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    layer.link("/bin", "usr/bin")
    for name in _PROGRAMS:
        layer.program(name)
    layer.libraries()
    return layer


def interpreter_path() -> Path:
    """Find the program behind this environment, whose own folder has only a link to it."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))


@cache
def _python() -> Layer:
    layer = Layer()
    program = interpreter_path()
    layer.file(os.fspath(program), program)
    for name in ("python", "python3"):
        layer.link(f"/usr/bin/{name}", os.fspath(program))
    for kind in ("stdlib", "platstdlib"):
        layer.tree(Path(sysconfig.get_path(kind, vars={"platbase": sys.base_exec_prefix})), _EXCLUDED)
    layer.libraries()
    return layer


@cache
def _pip() -> Layer:
    """Add pip to the interpreter's packages; an environment without pip has none to add."""
    layer, spec = _base(), find_spec("pip")
    command = [os.fspath(interpreter_path()), "-I", "-c", "import site; print(site.getsitepackages()[0])"]
    site = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(place).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                layer.file(f"{site}/pip/{path.relative_to(place).as_posix()}", path)
    return layer


def _old_python() -> Layer:
    layer = Layer()
    for name in ("python", "python3"):
        layer.write(f"/usr/bin/{name}", f"#!{interpreter_path()} -IS\n{_OLD_PYTHON_SCRIPT}", 0o755)
    return layer


def _silent() -> Layer:
    layer = Layer()
    for name in ("python", "python3"):
        layer.write(f"/usr/bin/{name}", "#!/bin/sh\nexec sleep 1000000\n", 0o755)
    return layer


def _odd_python() -> Layer:
    layer = Layer()
    for name in ("python", "python3"):
        layer.remove(f"/usr/bin/{name}")
    layer.link("/opt/a b/bin/python3", os.fspath(interpreter_path()))
    layer.folder("/data", 0o777)
    layer.write("/data/of the image", "")
    return layer


def main() -> int:
    """Load the images, and print their names."""
    from docker import DockerClient  # noqa: PLC0415 - a heavy client, which only this needs

    from jupyter_smx.testing.docker.dockerd import find_daemon  # noqa: PLC0415 - the same

    host = find_daemon()
    if not host:
        sys.stderr.write("No Docker daemon answers: `make dockerd` starts one.\n")
        return 1
    made = load(DockerClient(base_url=host, timeout=120))
    for image in IMAGES:
        sys.stdout.write(f"{image.name:28} {'made' if image.name in made else 'there'}: {image.description}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
