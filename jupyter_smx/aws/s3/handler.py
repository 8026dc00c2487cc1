"""Connect S3 to tornado: check signatures, receive bodies piece by piece, and send objects piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote

from tornado.httputil import HTTPHeaders
from tornado.iostream import StreamClosedError
from tornado.web import stream_request_body

from jupyter_smx.aws.request_log import QueryFreeLog
from jupyter_smx.aws.s3.forms import xml
from jupyter_smx.aws.s3.operations.call import ACCOUNT, FileSegment, S3Answer, S3Call
from jupyter_smx.aws.s3.operations.routing import S3Operation, find_operation
from jupyter_smx.aws.s3.received_body import UNSIGNED, ReceivedBody
from jupyter_smx.aws.s3.storage.disk_errors import describe_disk_error
from jupyter_smx.aws.s3.storage.layout import S3Storage
from jupyter_smx.aws.service import AwsError
from jupyter_smx.aws.signature import Credential, RequestHead, check_signature, chunk_signatures, is_presigned
from jupyter_smx.aws.signing.canonical import split_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tornado.http1connection import HTTP1Connection

Result = TypeVar("Result")
PIECE = 1024 * 1024
"""Bytes that a thread writes or reads at once."""
MAX_BODY = 1 << 50
"""Bytes of a body, which goes to the disk; tornado's limit is for bodies in memory."""
MAX_DROPPED = 64 * 1024 * 1024
"""Bytes of a refused body that are read and dropped."""
DROP_TIMEOUT = 60.0
"""Seconds for the rest of a refused body."""
BLANK_INTERVAL = 10.0
"""Seconds between two blanks to a client that waits for a long copy."""
MAX_THREADS = 32
READ_SIZE = 256 * 1024
"""Bytes that tornado reads from the connection at once; its own 64 KiB cost more turns of the loop."""


class LowerCaseHeaders(HTTPHeaders):
    """Headers that go out in lower case, since clients give names of user metadata as they come."""

    def get_all(self) -> Iterator[tuple[str, str]]:
        """Yield names and values."""
        return ((name.lower(), value) for name, value in super().get_all())


@stream_request_body
class S3Handler(QueryFreeLog):
    """Answer every request of S3; a front routes all paths to it that are no other service's."""

    def initialize(self, root: Path, secrets: Mapping[str, str], clock: Callable[[], float]) -> None:
        """Set the folder of all buckets, the secret key of each access key, and the clock."""
        self._storage = S3Storage(root, clock, lambda: uuid.uuid4().hex)
        self._secrets = secrets
        self._request_id = uuid.uuid4().hex[:16].upper()
        self._operation: S3Operation | None = None
        self._call: S3Call | None = None
        self._body: ReceivedBody | None = None
        self._error: AwsError | None = None
        self._pieces: list[bytes] = []
        self._pieces_size = 0
        self._dropped = 0
        self._writing: asyncio.Future[None] | None = None
        self._is_abandoned = False
        """True once the connection is closed."""
        self._is_acting = False
        """True once the body is complete and the operation runs."""

    def set_default_headers(self) -> None:
        """Name the server as S3 does not, and no type, since each answer sets its own."""
        self.set_header("Server", "jupyter-smx")
        self.clear_header("Content-Type")

    def compute_etag(self) -> None:
        """Compute no ETag over answers: objects have their own."""

    def check_etag_header(self) -> bool:
        """Leave conditions to the operations."""
        return False

    async def prepare(self) -> None:
        """Check the head before the body comes, so that no client sends an object for an error."""
        connection = self._connection()
        connection.set_max_body_size(MAX_BODY)
        connection.stream.read_chunk_size = READ_SIZE
        connection.params.chunk_size = PIECE  # one object for all connections of a server
        try:
            await self._begin()
        except AwsError as error:
            self._error = error
        except OSError as error:
            self._error = describe_disk_error(error)
        if self._error is None:
            return
        connection.set_body_timeout(DROP_TIMEOUT)
        if self._is_waiting_client():
            # The client holds its body back, so it may be answered now.
            self._send_failure(self._error)

    def _is_waiting_client(self) -> bool:
        return self.request.headers.get("Expect", "").lower() == "100-continue"

    def _connection(self) -> HTTP1Connection:
        return cast("HTTP1Connection", self.request.connection)

    async def _begin(self) -> None:
        headers = {name.lower(): value for name, value in self.request.headers.items()}
        head = RequestHead(self.request.method or "", self.request.path, self.request.query, headers)
        credential = self._check(head)
        if headers.get("x-amz-expected-bucket-owner", ACCOUNT) != ACCOUNT:
            raise AwsError("AccessDenied", f"The buckets belong to the account {ACCOUNT}.", HTTPStatus.FORBIDDEN)
        bucket, key = split_path(head.path)
        query = dict(split_query(head.query))
        operation = find_operation(head.method, bucket, key, query, headers)
        call = S3Call(self._storage, head.method, bucket, key, query, headers, credential.region)
        file = None if operation.open_file is None else await in_thread(operation.open_file, call)
        try:
            self._body = ReceivedBody(headers, file, lambda: chunk_signatures(head, self._secrets))
        except BaseException:
            if file is not None:
                file.discard()
            raise
        if self._is_abandoned:
            self._body.discard()
        self._operation = operation
        self._call = S3Call(call.storage, head.method, bucket, key, query, headers, call.region, self._body)

    def _check(self, head: RequestHead) -> Credential:
        payload = head.headers.get("x-amz-content-sha256")
        if payload is None:
            if "authorization" in head.headers and not is_presigned(head):
                raise AwsError("InvalidRequest", "Missing required header for this request: x-amz-content-sha256.")
            payload = UNSIGNED
        return check_signature(head, payload, self._secrets, self._storage.clock())

    async def data_received(self, chunk: bytes) -> None:
        """Collect pieces of the body, and give them to a thread when there are enough."""
        if self._error is not None:
            self._drop(chunk)  # the rest is read only so that the client reads the answer
            return
        self._pieces.append(chunk)
        self._pieces_size += len(chunk)
        if self._pieces_size >= PIECE:
            await self._write_pieces()

    def _drop(self, chunk: bytes) -> None:
        """End the connection of a request without a valid head that goes on to send; a valid one may end its body."""
        self._dropped += len(chunk)
        if self._error is not None and self._call is None and self._dropped > MAX_DROPPED and not self._finished:
            self._send_failure(self._error)

    async def _write_pieces(self) -> None:
        """Start the writing of what was collected, after what is being written."""
        await self._wait_for_writing()
        body = self._body
        if self._error is None and body is not None and not self._is_abandoned:
            pieces, self._pieces, self._pieces_size = self._pieces, [], 0
            self._writing = asyncio.ensure_future(self._feed(body, pieces))

    async def _feed(self, body: ReceivedBody, pieces: list[bytes]) -> None:
        """Write pieces, and remove the file at the first error: the rest of the body can take hours."""
        try:
            await in_thread(body.feed, pieces)
        except AwsError as error:
            self._error = error
            self._pieces.clear()
            await self._discard()

    async def _wait_for_writing(self) -> None:
        if self._writing is None:
            return
        try:
            await self._writing
        finally:
            self._writing = None

    async def _respond(self) -> None:
        """Act once the body is complete, and answer."""
        await self._wait_for_writing()
        self._is_acting = True
        answer = None
        try:
            if self._error is None:
                answer = await self._act_patiently()
        except AwsError as error:
            self._error = error
        except OSError as error:
            self._error = describe_disk_error(error)
        finally:
            await self._discard()  # before the answer, after which the client may count on it
        if self._error is not None:
            self._send_failure(self._error)
        elif answer is not None:
            await self._send(answer)

    get = head = put = post = delete = options = patch = _respond

    async def _act_patiently(self) -> S3Answer:
        """Act, and send blanks while that takes long, since clients give up after 60 s without a byte.

        S3 does so, too: status 200 comes first, and clients look for an error in the body.
        """
        acting = asyncio.ensure_future(in_thread(self._act))
        if self._operation is not None and self._operation.is_slow:
            while not (await asyncio.wait({acting}, timeout=BLANK_INTERVAL))[0] and not self._is_abandoned:
                if not self._headers_written:
                    self._set_headers({"content-type": "application/xml"})
                self.write(" " if self._headers_written else xml.HEAD)
                with contextlib.suppress(StreamClosedError):
                    await self.flush()
        return await acting

    def _act(self) -> S3Answer:
        if self._operation is None or self._call is None or self._body is None:
            raise AwsError("InternalError", "The request was not read.", HTTPStatus.INTERNAL_SERVER_ERROR)
        if self._pieces:
            self._body.feed(self._pieces)
        self._body.finish()
        return _read_small(self._operation.act(self._call))

    async def _discard(self) -> None:
        if self._body is not None and self._body.is_open:
            await in_thread(self._body.discard)

    def on_connection_close(self) -> None:
        """Remove a partial upload after the thread that writes to it ended."""
        super().on_connection_close()  # ends the wait for the rest of the body
        self._is_abandoned = True
        body, writing = self._body, self._writing
        if body is None or self._is_acting:
            return  # the end of the request removes the file
        self._pieces.clear()
        if writing is None or writing.done():
            body.discard()
        else:
            writing.add_done_callback(lambda _: body.discard())

    async def _send(self, answer: S3Answer) -> None:
        segment = answer.segment
        try:
            if self._headers_written:
                answer.body = answer.body.removeprefix(xml.HEAD.encode())
            else:
                self.set_status(answer.status)
                self._set_headers(answer.headers)
            if segment is not None:
                await self._send_segment(segment)
            elif answer.body:
                self.write(answer.body)
            if not self._finished:
                await self.finish()
        except StreamClosedError:
            pass  # the client went away
        finally:
            if segment is not None:
                segment.close()

    def _set_headers(self, headers: Mapping[str, str]) -> None:
        self._headers = LowerCaseHeaders(self._headers)
        self.set_header("x-amz-request-id", self._request_id)
        for name, value in headers.items():
            # A value that no header can have, as a line break in a parameter response-…, is left out.
            with contextlib.suppress(ValueError):
                self.set_header(name, value)

    async def _send_segment(self, segment: FileSegment) -> None:
        """Send bytes of a file, and read the next ones while the connection takes the last."""
        position, end = segment.start, segment.start + segment.length
        piece = await in_thread(os.pread, segment.descriptor, min(PIECE, end - position), position)
        while piece:
            position += len(piece)
            self.write(piece)
            flushed = self.flush()
            if position < end:
                piece = await in_thread(os.pread, segment.descriptor, min(PIECE, end - position), position)
            else:
                piece = b""
            await flushed
        if position < end:
            # The file became shorter, and the headers are on the way: only a broken connection says so.
            self._connection().close()
            raise StreamClosedError

    def _send_failure(self, error: AwsError) -> None:
        document = xml.write_error(error.code, error.message, unquote(self.request.path), self._request_id)
        if self._headers_written:
            self.finish(document.removeprefix(xml.HEAD.encode()))
            return
        self.clear()
        self.set_status(error.status)
        self._set_headers({"content-type": "application/xml"})
        if self._is_waiting_client() and self._call is None:
            # The body never comes, so the next request on this connection would be read as one.
            self.set_header("Connection", "close")
        if self.request.method != "HEAD":
            self.write(document)
        self.finish()

    def write_error(self, status_code: int, **_options: Any) -> None:
        """Answer a failure of this program itself, which tornado logs with its traceback."""
        self._set_headers({"content-type": "application/xml"})
        message = "The S3 folder's server failed; its log has the traceback. Try again."
        body = xml.write_error("InternalError", message, unquote(self.request.path), self._request_id)
        self.set_status(status_code)
        self.finish(b"" if self.request.method == "HEAD" else body)


def _read_small(answer: S3Answer) -> S3Answer:
    """Read the bytes of a short answer, so that they need no other turn of a thread."""
    segment = answer.segment
    if segment is not None and segment.length <= PIECE:
        data = os.pread(segment.descriptor, segment.length, segment.start)
        if len(data) == segment.length:
            answer.body, answer.segment = data, None
            segment.close()
    return answer


def split_path(path: str) -> tuple[str, str]:
    """Return bucket and key of a raw path; raise AwsError where it is not UTF-8."""
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise AwsError("InvalidURI", "The path is not UTF-8 in percent-encoding.") from None
    bucket, _, key = decoded.removeprefix("/").partition("/")
    return bucket, key


async def in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of a function that blocks."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), function, *arguments)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Return threads of S3 alone, so that long copies take none that other services need."""
    return ThreadPoolExecutor(MAX_THREADS, "s3")
