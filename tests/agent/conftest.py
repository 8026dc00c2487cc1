"""The fixtures of the agent's tests; they live beside what they give."""

from __future__ import annotations

from far_side import (
    _agent_of_module,
    _far_folder_of_module,
    _isolated_of_module,
    agent,
    far_folder,
    host_folder,
    isolated,
    own_agent,
    own_isolated,
    shared_agent,
    shared_isolated,
    start_agent,
    start_shared_agent,
    wait_until,
)
from real_toolkit import real_packages, toolkit

from jupyter_smx.testing.private_shm import own_shared_memory
from jupyter_smx.testing.servers.file_servers import ftp, server, sftp
from jupyter_smx.testing.servers.google_storage import google
from jupyter_smx.testing.servers.object_storage import bucket, web

__all__ = [
    "_agent_of_module",
    "_far_folder_of_module",
    "_isolated_of_module",
    "agent",
    "bucket",
    "far_folder",
    "ftp",
    "google",
    "host_folder",
    "isolated",
    "own_agent",
    "own_isolated",
    "own_shared_memory",
    "real_packages",
    "server",
    "sftp",
    "shared_agent",
    "shared_isolated",
    "start_agent",
    "start_shared_agent",
    "toolkit",
    "wait_until",
    "web",
]
