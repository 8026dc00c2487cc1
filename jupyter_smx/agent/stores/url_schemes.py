"""Schemes and form of URLs of stores: policy, kernel and the agent's stores take every list and pattern from here."""

from __future__ import annotations

import re

SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+"
"""Pattern of a scheme; one letter is a drive of Windows."""
URL = re.compile(rf"({SCHEME})://(.*)", re.DOTALL)
"""A URL that stands alone: its scheme and the rest."""
URL_OR_CHAIN = re.compile(rf"{SCHEME}://|[A-Za-z0-9+.-]+::")
"""Beginning of a URL, or of a chain of URLs as fsspec has it: ``zip://train/::s3://bucket/all.zip``."""

AMAZON = ("s3", "s3a")
GOOGLE = ("gs", "gcs")
AZURE = ("abfs", "az")
BUCKETS = (*AMAZON, *GOOGLE, *AZURE, "oci", "oss", "tos")
"""Object stores, whose folders are a part of a name, so that none is ever made."""
WEB = ("http", "https")
"""Servers that are only read."""
SSH = ("sftp", "ssh")
FTP = ("ftp",)
RENAMING = (*SSH, *FTP)
"""Servers on which a file is written aside, and then put in its place by a rename."""
SERVERS = (*RENAMING, "smb", "hdfs", "webhdfs")
"""Servers with folders and files, where no name is that of both, and what is written is there in part."""
LOCAL = ("file", "local")
"""Folders of the machine itself."""
OF_ONE_PROCESS = ("memory", "data")
"""Schemes whose data no other process can reach."""
WITHOUT_URLS = ("webdav",)
"""Protocols of fsspec without URLs: their servers are named by arguments of Python alone."""
PACKAGES = {
    **dict.fromkeys(AMAZON, "s3fs"),
    **dict.fromkeys(GOOGLE, "gcsfs"),
    **dict.fromkeys(AZURE, "adlfs"),
    **dict.fromkeys(WEB, "aiohttp"),
    **dict.fromkeys(SSH, "paramiko"),
    "smb": "smbprotocol",
    "hdfs": "pyarrow",
    "webhdfs": "requests",
}
"""Packages that fsspec needs for a scheme."""
