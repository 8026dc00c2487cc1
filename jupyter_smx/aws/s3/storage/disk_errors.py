"""Translate errors of the disk into errors of S3, apart, because uploads, copies and reads meet the same ones."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def describe_disk_error(error: OSError) -> AwsError:
    """Return the error of S3 for one of the disk."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in FULL:
        # A client tries 500 and 503 again; a full disk does not pass by itself.
        return AwsError(
            "InsufficientStorage",
            f"The disk of the S3 folder has no room ({reason}). Nothing was changed. Free space, and try again.",
            507,
        )
    if error.errno in FORBIDDEN:
        return AwsError("AccessDenied", f"The file system refuses this: {reason}. Check the folder's permissions.", 403)
    if error.errno == errno.ENAMETOOLONG:
        return AwsError("InvalidArgument", "The key is too long for a path of this file system; shorten it.")
    if error.errno == errno.EXDEV:
        message = "The bucket's folder is on another file system than the S3 folder; both must be on one."
        return AwsError("InvalidArgument", message)
    return AwsError("InternalError", f"The disk of the S3 folder failed: {reason}.", 500)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise errors of the disk as AwsError."""
    try:
        yield
    except OSError as error:
        raise describe_disk_error(error) from error
