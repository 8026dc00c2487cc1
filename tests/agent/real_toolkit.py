"""The real packages of AWS in an environment of their own, and what a script sees that they start.

They are installed from the package index when the first test asks for them, and nothing of them is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from jupyter_smx.agent.system.files.host_folder import HostFolder
from jupyter_smx.agent.system.isolation import namespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOOLKIT = "sagemaker-training==5.1.4"
DRIVERS = "sagemaker-train==1.27.0"
CORE = "sagemaker-core==2.27.0"
TENSORFLOW = "sagemaker-tensorflow-training==20.5.0"
# What importing the toolkit's environment and running ``train`` need, and nothing of what only its encoders do.
NEEDS = [
    "boto3", "botocore", "jmespath", "s3transfer", "python-dateutil", "urllib3", "six", "retrying",
    "inotify_simple", "psutil", "paramiko", "cryptography", "bcrypt", "pynacl", "cffi", "pycparser", "invoke"
]  # fmt: skip
ROOT = Path(__file__).parents[2]
MINUTES = 300

# Goes where our hosts go, writes what the platform would have written, and becomes the program.
STAGE = """
import json, os, sys
from jupyter_smx.agent.system.isolation import namespace
from jupyter_smx.agent.system.files.host_folder import HostFolder
asked = json.load(sys.stdin)
base = asked["base"]
if asked["isolated"]:
    folder = HostFolder(asked["folder"])
    addresses = dict.fromkeys(asked["hosts"], "127.0.0.1")
    namespace.enter(namespace.NamespacePlan(folder, asked["hosts"][0], addresses, False))
for name, text in asked["files"].items():
    path = os.path.join(base, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
for source, name in asked["folders"]:
    import shutil
    shutil.copytree(source, os.path.join(base, name), dirs_exist_ok=True)
os.execve(asked["command"][0], asked["command"], asked["environment"])
"""

# Tells everything about the script that runs it. The same text is the script on either side.
TELL = """
import json, os, sys
base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
folder = os.path.join(base, "input", "config")
files = {name: open(os.path.join(folder, name), encoding="utf-8").read() for name in sorted(os.listdir(folder))}
seen = {
    "environment": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(), "path": sys.path[0],
    "file": os.path.abspath(__file__), "name": __name__, "files": files,
}
with open(os.path.join(base, "model", "seen.json"), "w", encoding="utf-8") as file:
    json.dump(seen, file)
print("SEEN" + json.dumps(seen))
"""

SHELL = "#!/bin/sh\nexec python3 -c '" + TELL.replace("os.path.abspath(__file__)", '""') + '\' "$@"\n'
"""The same, told by a shell script; it has no file of Python."""


class Seen(NamedTuple):
    """What a script saw and how it ended."""

    code: int
    log: str
    seen: dict[str, Any]
    failure: str


class RealPackages:
    """AWS' packages for one test run."""

    def __init__(self, home: Path) -> None:
        self.python = home / "venv" / "bin" / "python"
        self.train = home / "venv" / "bin" / "train"
        self.home = home

    def install(self) -> None:
        """Make the environment.

        :raises subprocess.CalledProcessError: the index cannot be reached, or the package cannot be built.
        """
        uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
        folder = str(self.home / "venv")
        if uv:
            self._do([uv, "venv", "-q", "--python", sys.executable, folder])
            command = [uv, "pip", "install", "-q", "--compile-bytecode", "--python", str(self.python)]
        else:
            self._do([sys.executable, "-m", "venv", folder])
            command = [str(self.python), "-m", "pip", "install", "-q"]
        self._do([*command, "--no-deps", TOOLKIT, DRIVERS, CORE, TENSORFLOW, *NEEDS])

    def _do(self, command: list[str]) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=MINUTES)

    def drivers(self) -> Path:
        """Give the folder of SDK 3's drivers."""
        return self.sdk() / "train"

    def sdk(self) -> Path:
        """Give the folder of SDK 3's packages."""
        return next((self.home / "venv" / "lib").glob("python*/site-packages/sagemaker")).resolve()

    def environment(self) -> dict[str, str]:
        """Give the variables that a container has by itself."""
        return {"PATH": f"{self.python.parent}:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}

    def start(
        self,
        folder: Path,
        command: list[str],
        *,
        files: Mapping[str, str],
        environment: Mapping[str, str],
        hosts: list[str],
        folders: list[tuple[str, str]] = (),  # type: ignore[assignment]
        isolated: bool = True,
    ) -> Seen:
        """Run a program of theirs on a stage like our hosts, and tell what the script saw."""
        host = HostFolder(str(folder))
        host.make()
        base = "/opt/ml" if isolated else host.ml
        added = {} if isolated else {"SAGEMAKER_BASE_DIR": host.ml, "SM_STUDIO_LOCAL_MODE": "True"}
        asked = {
            "folder": host.root,
            "base": base,
            "isolated": isolated,
            "hosts": hosts,
            "files": dict(files),
            "folders": list(folders),
            "command": command,
            "environment": {**self.environment(), **environment, **added},
        }
        if isolated:
            namespace.write_files(
                namespace.NamespacePlan(host, hosts[0], dict.fromkeys(hosts, "127.0.0.1"), own_tmp=False)
            )
        done = subprocess.run(
            [sys.executable, "-c", STAGE],
            check=False,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        told, failure = Path(host.ml, "model", "seen.json"), Path(host.ml, "output", "failure")
        return Seen(
            done.returncode,
            done.stdout + done.stderr,
            json.loads(told.read_text()) if told.exists() else {},
            failure.read_text() if failure.exists() else "",
        )


@pytest.fixture(scope="session")
def real_packages(tmp_path_factory: pytest.TempPathFactory) -> RealPackages:
    """Give AWS' packages; where no package index can be reached only CI insists on them."""
    packages = RealPackages(tmp_path_factory.mktemp("aws"))
    try:
        packages.install()
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{TOOLKIT} cannot be installed here: {str(told)[-400:]}")
    return packages


ASK = """
import json, os, sys
base = os.environ["SAGEMAKER_BASE_DIR"]
from sagemaker_training import environment
for line in sys.stdin:
    for name, text in json.loads(line).items():
        with open(os.path.join(base, "input", "config", name), "w") as file:
            file.write(text)
    found = environment.Environment()
    print(json.dumps([found.to_cmd_args(), found.to_env_vars(), os.environ["SAGEMAKER_JOB_NAME"]]), flush=True)
"""


class Toolkit:
    """The toolkit in one process: config files in, words and variables out."""

    def __init__(self, packages: RealPackages, folder: Path) -> None:
        self.base = folder / "ml"
        (self.base / "input" / "config").mkdir(parents=True)
        variables = {"SAGEMAKER_BASE_DIR": str(self.base), "TRAINING_JOB_NAME": "job-1"}
        self._process = subprocess.Popen(
            [str(packages.python), "-c", ASK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**packages.environment(), **variables},
        )

    def tell(self, files: Mapping[str, str]) -> tuple[list[str], dict[str, str], str]:
        """Give the words, the variables and the job's name that it makes of config files."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(dict(files)) + "\n")
        self._process.stdin.flush()
        words, variables, name = json.loads(self._process.stdout.readline())
        return words, variables, name

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def toolkit(real_packages: RealPackages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    found = Toolkit(real_packages, tmp_path_factory.mktemp("toolkit"))
    yield found
    found.close()
