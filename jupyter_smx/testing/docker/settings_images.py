"""Images with settings and files of their own: a user, an entry point, a working folder, code in ``/opt/ml``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.testing.docker.image_layer import Layer
from jupyter_smx.testing.docker.images import TestImage, interpreter_path
from jupyter_smx.testing.docker.images import load as load_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from docker import DockerClient

_ACCOUNTS = """\
root:x:0:0:root:/root:/bin/sh
app:x:1000:1000:app:/home/app:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
"""
APP = 1000
"""Number of the user of the images."""
_TRAIN = """\
#!/usr/bin/env python3
import json, os
print("train of the image, in", os.getcwd())
print(json.load(open("/opt/ml/input/config/hyperparameters.json")))
print(sorted(os.listdir("/opt/ml/code")), os.environ["SAGEMAKER_PROGRAM"], os.environ.get("FROM_ENTRY"))
open("/opt/ml/model/m.txt", "w").write("trained by the image")
"""
_PATH = "PATH=/opt/program:/usr/local/bin:/usr/bin:/bin"
ENTRY = TestImage(
    "entry",
    "has a user with packages at home, an entry point that sets a variable, and a working folder",
    ("programs", "python", "app"),
    {
        "User": "app",
        "WorkingDir": "/app",
        "Entrypoint": ["/entry.sh"],
        "Env": [_PATH, "PYTHONPATH=/app"],
    },
)
USER_1000 = TestImage("user-1000", "has the user 1000", ("programs", "python", "app"), {"User": "1000:1000"})
ROOT = TestImage("root", "has the user root by its name", ("programs", "python", "app"), {"User": "root"})
BAKED = TestImage(
    "baked",
    "has its code, its weights and its program train",
    ("programs", "python", "baked"),
    {
        "WorkingDir": "/opt/program",
        "Env": [_PATH, "SAGEMAKER_PROGRAM=baked.py", "SAGEMAKER_SUBMIT_DIRECTORY=/opt/ml/code"],
    },
)
CLOSED = TestImage(
    "closed-python",
    "has its Python in a folder of root alone",
    ("programs", "python", "closed"),
    {"Env": ["PATH=/root/bin:/usr/bin"]},
)
ENDS = TestImage(
    "entry-ends", "has an entry point that ends", ("programs", "python"), {"Entrypoint": ["/usr/bin/true"]}
)
HANGS = TestImage(
    "entry-hangs", "has an entry point that does not end", ("programs", "python", "app"), {"Entrypoint": ["/hang.sh"]}
)
IMAGES = (ENTRY, USER_1000, ROOT, BAKED, CLOSED, ENDS, HANGS)


def _app() -> Layer:
    layer = Layer()
    layer.write("/etc/passwd", _ACCOUNTS)
    layer.write("/etc/group", "root:x:0:\napp:x:1000:\nnogroup:x:65534:\n")
    layer.folder("/home/app", 0o700, owner=APP)
    for version in range(8, 20):
        place = f"/home/app/.local/lib/python3.{version}/site-packages"
        layer.write(f"{place}/userpkg.py", "X = 1\n", owner=APP)
    layer.folder("/app", owner=APP)
    layer.write("/app/mylib.py", "VALUE = 42\n", owner=APP)
    layer.write("/entry.sh", '#!/bin/sh\nexport FROM_ENTRY=yes\nexec "$@"\n', 0o755)
    layer.write("/hang.sh", "#!/bin/sh\nexec sleep 1000000\n", 0o755)
    return layer


def _baked() -> Layer:
    layer = Layer()
    layer.write("/opt/program/train", _TRAIN, 0o755)
    layer.write("/opt/ml/code/baked.py", 'print("baked.py runs")\n', 0o600)
    layer.write("/opt/ml/weights/large.bin", "w" * ((1 << 20) + 1))
    layer.write("/opt/ml/model/old.bin", "of the image")
    return layer


def _closed() -> Layer:
    layer = Layer()
    for name in ("python", "python3"):
        layer.remove(f"/usr/bin/{name}")
    layer.folder("/root", 0o700)
    layer.link("/root/bin/python3", os.fspath(interpreter_path()))
    return layer


def load(client: DockerClient, images: Sequence[TestImage] = IMAGES) -> list[str]:
    """Load images that a daemon lacks or has in another version; return their names."""
    return load_images(client, images, {"app": _app(), "baked": _baked(), "closed": _closed()})
