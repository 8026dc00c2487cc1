"""Archives of source folders, as the controller sends them to a host."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def packed(folder: Path, files: Mapping[str, str], *, size: int = 0, names: Mapping[str, str] | None = None) -> Any:
    """Write an archive of files and give the wire's description of it."""
    buffer = io.BytesIO()
    with gzip.GzipFile("", "wb", mtime=0, fileobj=buffer) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo((names or {}).get(name, name))
            data = text.encode()
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    path = folder / f"{digest}.tar.gz"
    path.write_bytes(data)
    return {"folder": "/home/me/project", "path": str(path), "sha256": digest, "files": len(files), "size": size}
