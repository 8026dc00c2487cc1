"""Clients that are not botocore's: s3fs over aiohttp, and rclone, which signs and encodes by Go's libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import KEY, SECRET, S3Server

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
NAMES = ("a b", "ü+%&", "(x)!*'~$@,;:=", "sub dir/y")


def test_s3fs_writes_reads_copies_and_removes(s3: S3Server) -> None:
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    files = s3fs.S3FileSystem(key=KEY, secret=SECRET, endpoint_url=s3.url, skip_instance_cache=True)
    body = os.urandom(12 * MIB)
    with files.open("data/a b/large", "wb", block_size=5 * MIB) as file:
        file.write(body)
    assert s3.path("data", "a b/large").read_bytes() == body
    with files.open("data/a b/large", "rb") as file:
        file.seek(7 * MIB)
        assert file.read(100) == body[7 * MIB : 7 * MIB + 100]
    files.copy("data/a b/large", "data/x/ü+")
    assert sorted(files.find("data")) == ["data/a b/large", "data/x/ü+"]
    files.rm("data/x", recursive=True)
    assert files.ls("data") == ["data/a b"]
    with pytest.raises(FileNotFoundError):
        files.cat("data/x/ü+")
    with pytest.raises(OSError, match="a file system does not"):
        files.pipe("data/a b/large/x", b"1")
    with pytest.raises(FileNotFoundError, match="absent-bucket"):
        files.pipe("absent-bucket/x", b"1" * 9_000_000)


@pytest.mark.processes
def test_rclone_copies_and_compares_a_folder(s3: S3Server, tmp_path: Path) -> None:
    program = shutil.which("rclone") or pytest.skip("rclone is not installed")
    source = tmp_path / "source"
    (source / "sub dir").mkdir(parents=True)
    for name in NAMES:
        (source / name).write_text(name, encoding="utf-8")
    (source / "large").write_bytes(os.urandom(12 * MIB))
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": s3.url,
        "ACCESS_KEY_ID": KEY,
        "SECRET_ACCESS_KEY": SECRET,
        "FORCE_PATH_STYLE": "true",
        "CHUNK_SIZE": "5M",
        "UPLOAD_CUTOFF": "8M",
    }
    environment = {f"RCLONE_CONFIG_S3_{name}": value for name, value in settings.items()}
    environment |= {"RCLONE_CONFIG": str(tmp_path / "none"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def rclone(*arguments: str) -> str:
        command = [program, "--retries", "1", *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    rclone("copy", str(source), "s3:data/copied")
    rclone("check", str(source), "s3:data/copied", "--download")
    assert s3.path("data", "copied/large").read_bytes() == (source / "large").read_bytes()
    rclone("copy", "s3:data/copied", "s3:data/again")
    listed = rclone("lsf", "-R", "--files-only", "s3:data/again").splitlines()
    assert sorted(listed) == sorted([*NAMES, "large"])
    rclone("purge", "s3:data/again")
    assert rclone("lsf", "s3:data") == "copied/\n"
