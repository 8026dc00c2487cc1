"""The front as a program: its single instance, its port, its services, and its end by a signal or without its files."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket

from jupyter_smx import controller_launch
from jupyter_smx.agent.paths import AWS_SOCKET
from jupyter_smx.aws.cloudwatch.service import make_service as make_cloudwatch
from jupyter_smx.aws.controller_client import ControllerClient
from jupyter_smx.aws.front import MAX_UPLOAD, S3Route, make_front
from jupyter_smx.aws.front_files import FrontFiles
from jupyter_smx.aws.identity import make_iam, make_sts
from jupyter_smx.aws.job_records import ControllerRecords
from jupyter_smx.aws.logs.service import make_service as make_logs
from jupyter_smx.aws.protocol.models import load_model
from jupyter_smx.aws.s3.handler import S3Handler
from jupyter_smx.aws.s3.storage.temporary_file import remove_temporary_files
from jupyter_smx.aws.sagemaker.request_cleanup import RequestCleanup
from jupyter_smx.aws.sagemaker.request_store import RequestStore
from jupyter_smx.aws.sagemaker.service import make_service as make_sagemaker
from jupyter_smx.aws.sagemaker.settings import ImageRule, SageMakerSettings
from jupyter_smx.aws_endpoint.endpoint_file import HOST, endpoint_path, ensure_endpoint
from jupyter_smx.aws_endpoint.process import LOCK_LIMIT, lock_path, port_taken_message
from jupyter_smx.aws_endpoint.request_folder import front_folder, request_folder
from jupyter_smx.aws_endpoint.settings import read_settings
from jupyter_smx.data_folder.singleton_lock import SingletonLock
from jupyter_smx.model.errors import SmxError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jupyter_smx.aws.front import Front
    from jupyter_smx.aws.service import Service
    from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
    from jupyter_smx.aws_endpoint.settings import SmxAws

_log = logging.getLogger(__name__)
_FAILED = 1
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
TICK = 1.0
"""Seconds between two looks at the files of the front."""
_ANSWER_LIMIT = 1.0
"""Seconds for answers to requests that are under way at the end."""
_DRAIN_LIMIT = 5.0
"""Seconds for answers that are being written at the end."""
_EACH_USER = 0o666
_IDLE_LIMIT = 75.0
"""Seconds that a connection may wait for the head of its next request; clients open a new one after that."""


def main(words: Sequence[str] = ()) -> int:
    """Run the front until a signal ends it or its files are deleted; return the exit code.

    It is 0 also if another process is the front.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    os.umask(0o077)
    lock = SingletonLock(lock_path())
    try:
        controller_launch.ensure_folders()
        settings = read_settings(words)
        if not lock.acquire(LOCK_LIMIT):
            return 0
        asyncio.run(_run(settings, lock))
    except (SmxError, OSError) as error:
        # The process that started this one shows its last words.
        print(error, file=sys.stderr)  # noqa: T201
        return _FAILED
    finally:
        lock.release()
    return 0


async def _run(settings: SmxAws, lock: SingletonLock) -> None:
    endpoint = ensure_endpoint()
    is_shared = controller_launch.locate_data().has_local_records
    files = _front_files(is_shared=is_shared)  # before a client finds the front, and may delete them
    sockets = bind_endpoint(endpoint)
    front = _front(endpoint, settings)
    server = HTTPServer(front, max_body_size=MAX_UPLOAD, idle_connection_timeout=_IDLE_LIMIT)
    server.add_sockets(sockets)
    if settings.s3 == "local" and sys.platform == "linux":  # elsewhere, containers are in another machine
        listen_for_containers(server)
    ended = asyncio.Event()
    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    lock.write(settings.s3, "match" if settings.match_images else "note", str(endpoint.port))
    _log.info("The front for clients of AWS listens at %s, process %d.", endpoint.url, os.getpid())
    # Fronts of other machines have their requests in a shared folder, too, and no controller has the jobs of all.
    cleanup = None if is_shared else asyncio.create_task(_request_cleanup().repeat())
    await _wait_end(ended, files)
    if cleanup is not None:
        cleanup.cancel()
    server.stop()
    await front.drain(_ANSWER_LIMIT)  # a client that loses its connection would try again while no front listens
    try:
        await asyncio.wait_for(server.close_all_connections(), _DRAIN_LIMIT)
    except asyncio.TimeoutError:
        _log.warning("Connections were open at the end.")
    _log.info("The front for clients of AWS ended.")


def _request_cleanup() -> RequestCleanup:
    requests = RequestStore(request_folder(front_folder()))
    return RequestCleanup(ControllerClient(), requests, time.time, controller_launch.is_listening)


def _front_files(*, is_shared: bool) -> FrontFiles:
    """Watch what is on a local disk: files of a network file system may get another inode, or hold up the front."""
    losses = {
        controller_launch.data_dir(): "its data folder was deleted",
        lock_path(): "its lock was deleted or replaced",
    }
    if not is_shared:
        losses[endpoint_path()] = "the file with its port and key was deleted or replaced"
    return FrontFiles(losses)


async def _wait_end(ended: asyncio.Event, files: FrontFiles) -> None:
    """Wait for a signal, or until the front has lost one of its files."""
    while not ended.is_set():
        if loss := files.find_loss():
            _log.warning("Data folder %s: %s; the front leaves.", controller_launch.chosen_data_dir(), loss)
            return
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ended.wait(), TICK)


def bind_endpoint(endpoint: Endpoint) -> list[socket.socket]:
    """Listen on the port of a data folder, and on no other one.

    :raises UnavailableError: another process listens there.
    :raises OSError: the system refuses it for another reason.
    """
    try:
        return bind_sockets(endpoint.port, HOST)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise UnavailableError(
            port_taken_message(endpoint.port, endpoint_path()), field="port", value=endpoint.port
        ) from error


def listen_for_containers(server: HTTPServer) -> None:
    """Listen at the unix socket that containers of jobs mount, too; without it their clients find no front.

    Each user may connect: one in a container has any number, and a request needs the key here as elsewhere.
    """
    try:
        folder = os.open(controller_launch.ensure_aws_socket_dir(), os.O_RDONLY)
        try:
            # The path of a socket is short, that of a folder need not be.
            server.add_socket(bind_unix_socket(f"/proc/self/fd/{folder}/{AWS_SOCKET}", mode=_EACH_USER))
        finally:
            os.close(folder)
    except (OSError, ValueError) as error:
        _log.warning("Jobs in containers do not reach the front: %s.", error)


def _front(endpoint: Endpoint, settings: SmxAws) -> Front:
    secrets = {endpoint.access_key: endpoint.secret_key}
    buckets = controller_launch.chosen_data_dir() / "s3"
    buckets.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_temporary_files(buckets, socket.gethostname())  # of a front that was killed
    services = (make_sts(), make_iam(), *make_job_services(settings, buckets, endpoint))
    for service in services:  # the first request of a client must not wait for a model
        load_model(service.name)
    route = S3Route(S3Handler, {"root": buckets, "secrets": secrets, "clock": time.time})
    return make_front(services, secrets, route, port=endpoint.port, clock=time.time, new_id=lambda: str(uuid.uuid4()))


def make_job_services(settings: SmxAws, buckets: Path, endpoint: Endpoint) -> tuple[Service, ...]:
    """Return the services whose answers are about jobs of the controller."""
    sagemaker = SageMakerSettings(
        data_folder=front_folder(),
        s3_root=buckets if settings.s3 == "local" else None,
        endpoint=endpoint,
        engine=settings.engine,
        images=tuple(ImageRule(pattern=pattern, python=python) for pattern, python in settings.images.items()),
        match_images=settings.match_images,
        processing_keep_alive=settings.processing_keep_alive,
        hold=settings.hold,
    )
    controller = ControllerClient()
    records = ControllerRecords(controller)
    return (
        make_sagemaker(controller, sagemaker, time.time, time.monotonic),
        make_logs(records),
        make_cloudwatch(records),
    )
