"""One port for all services: a request goes to S3 or, after its signature is checked, to an operation of a service."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import socket
import traceback
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tornado.http1connection import HTTP1Connection
from tornado.web import Application, stream_request_body

from jupyter_smx.aws.guard import MAX_BODY, find_refusal, find_size_refusal
from jupyter_smx.aws.protocol.models import SIGNING_NAMES
from jupyter_smx.aws.protocol.operations import read_members, unavailable_error, write_answer, write_error
from jupyter_smx.aws.protocol.targets import RequestTarget, find_target, is_for_s3
from jupyter_smx.aws.request_log import QueryFreeLog, log_request
from jupyter_smx.aws.retries import FirstAnswers
from jupyter_smx.aws.service import AwsError, Caller
from jupyter_smx.aws.signature import RequestHead, check_signature, find_secret, read_credential
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from tornado.httputil import HTTPServerRequest
    from tornado.web import RequestHandler, _HandlerDelegate

    from jupyter_smx.aws.service import Service
    from jupyter_smx.aws.signature import Credential

_log = logging.getLogger(__name__)

_READS = ("Describe", "Filter", "Get", "List", "Search", "Simulate")
"""Beginnings of operations that change nothing, so that one of them ends with its connection."""
_ATTEMPT = re.compile(r"(?:^|;)\s*attempt=(?P<number>[0-9]{1,6})\s*(?:;|$)")
_SERVER_ERROR = 500
MAX_DROPPED = 16 * MAX_BODY
"""Bytes of a refused body that are read and dropped."""
BODY_TIMEOUT = 60.0
"""Seconds for the whole body of a request to a service other than S3."""
MAX_UPLOAD = 5 * 2**30
"""Bytes of one body, as S3 limits them."""


@dataclass(frozen=True)
class S3Route:
    """The handler of S3 and its arguments."""

    handler: type[RequestHandler]
    arguments: dict[str, Any]


@dataclass(frozen=True)
class FrontContext:
    """What the handlers of all requests share."""

    services: Mapping[str, Service]
    secrets: Mapping[str, str]
    """Secret keys by access key."""
    clock: Callable[[], float]
    new_id: Callable[[], str]
    answers: FirstAnswers = field(default_factory=FirstAnswers)
    open_requests: set[asyncio.Future[Any]] = field(default_factory=set)
    """The tasks of requests to services other than S3 that have no answer yet."""


class Front(Application):
    """The application that chooses the handler of a request by its head alone."""

    def __init__(self, context: FrontContext, s3: S3Route, port: int) -> None:
        super().__init__(log_function=log_request)
        self._context = context
        self._s3 = s3
        self._port = port

    def find_handler(self, request: HTTPServerRequest, **_: Any) -> _HandlerDelegate:
        """Return what handles a request."""
        method = request.method or ""
        head = _head(request)
        scope = _scope_service(head)
        refusal = find_refusal(method, request.headers, 0 if _is_by_socket(request) else self._port)
        if refusal is None and is_for_s3(method, request.headers, scope):
            return self.get_handler_delegate(request, self._s3.handler, self._s3.arguments)
        if isinstance(request.connection, HTTP1Connection):
            request.connection.set_body_timeout(BODY_TIMEOUT)
        refusal = refusal or find_size_refusal(request.headers) or self._find_key_refusal(head)
        if refusal is not None:
            arguments = {"error": refusal, "scope": scope, "request_id": self._context.new_id()}
            return self.get_handler_delegate(request, RefusalHandler, arguments)
        if isinstance(request.connection, HTTP1Connection):  # a body without a length, too
            request.connection.set_max_body_size(MAX_BODY)
        arguments = {"context": self._context, "head": head, "scope": scope}
        return self.get_handler_delegate(request, ServiceHandler, arguments)

    async def drain(self, seconds: float) -> None:
        """Let services answer what they hold, and wait until all their requests have answers, or for some seconds.

        A request that comes meanwhile by an open connection counts, too. Requests to S3 do not.
        """
        for service in self._context.services.values():
            service.release()
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while open_requests := {one for one in self._context.open_requests if not one.done()}:
            if clock() >= end:
                return
            await asyncio.wait(open_requests, timeout=end - clock())

    def _find_key_refusal(self, head: RequestHead) -> AwsError | None:
        """Return the error of a request whose key is none of this server, so that its body is not collected."""
        try:
            find_secret(read_credential(head), self._context.secrets)
        except AwsError as error:
            return error
        return None


def _is_by_socket(request: HTTPServerRequest) -> bool:
    """Return True if a request came by the unix socket for jobs in containers and on other machines."""
    return getattr(getattr(request.connection, "context", None), "address_family", None) == socket.AF_UNIX


def make_front(
    services: Iterable[Service],
    secrets: Mapping[str, str],
    s3: S3Route,
    *,
    port: int,
    clock: Callable[[], float],
    new_id: Callable[[], str],
) -> Front:
    """Return the application of a front that listens on ``port``."""
    context = FrontContext({service.name: service for service in services}, secrets, clock, new_id)
    return Front(context, s3, port)


class _PlainHandler(QueryFreeLog):
    """A handler that reveals no version and makes no ETag."""

    def set_default_headers(self) -> None:
        """Replace the name and version of tornado."""
        self.set_header("Server", "jupyter_smx")

    def compute_etag(self) -> None:
        """Make no ETag."""


@stream_request_body
class RefusalHandler(_PlainHandler):
    """Answers with an error and keeps nothing of the body.

    The body is dropped before the answer, since a client that still sends would see a reset connection instead.
    """

    def initialize(self, error: AwsError, scope: str, request_id: str) -> None:
        """Take the error, and the service that the credential names."""
        self._error = error
        self._scope = scope
        self._request_id = request_id

    def data_received(self, chunk: bytes) -> None:
        """Drop a piece of the body."""

    async def prepare(self) -> None:
        """Send the error at once if the body is too large to be dropped first."""
        length = self.request.headers.get("Content-Length", "0")
        if length.isascii() and length.isdigit() and int(length) > MAX_DROPPED:
            await self._refuse()

    async def _refuse(self) -> None:
        answer = write_error(self._target(), self._error, self._request_id)
        self.set_status(answer.status)
        for name, value in answer.headers.items():
            self.set_header(name, value)
        await self.finish(answer.body)

    def _target(self) -> RequestTarget:
        """Return the target by the head alone, for the form of the answer."""
        try:
            return find_target(self.request.path, self.request.headers, b"", self._scope)
        except AwsError:
            return RequestTarget("", "", "rest-json", "")

    get = head = post = put = patch = delete = options = _refuse


class ServiceHandler(_PlainHandler):
    """One request to a service other than S3."""

    _task: asyncio.Future[dict[str, Any]] | None = None

    def initialize(self, context: FrontContext, head: RequestHead, scope: str) -> None:
        """Take what the handlers share, the head of this request, and the service that its credential names."""
        self._context = context
        self._head = head
        self._scope = scope

    def on_connection_close(self) -> None:
        """End a call that only this client waits for."""
        if self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        self._note_open()
        request_id = self._context.new_id()
        target = RequestTarget("", "", "rest-json", "")
        try:
            target = find_target(self.request.path, self.request.headers, self.request.body, self._scope)
            digest = hashlib.sha256(self.request.body).hexdigest()
            credential = check_signature(self._head, digest, self._context.secrets, self._context.clock())
            _check_scope(target, credential)
            members = await self._perform(target, credential, digest)
            answer = write_answer(target, members, request_id)
        except AwsError as error:
            answer = write_error(target, error, request_id)
        except SmxError as error:
            answer = write_error(target, _aws_error(error), request_id)
        except asyncio.CancelledError:
            return  # the client is gone
        except Exception as error:  # noqa: BLE001 - a service may have any fault, and each request has an answer
            answer = write_error(target, _internal_failure(target, error), request_id)
        self.set_status(answer.status)
        for name, value in answer.headers.items():
            self.set_header(name, value)
        self.finish(answer.body)

    def _note_open(self) -> None:
        """Let the end of the front wait for this request."""
        task = asyncio.current_task()
        if task is not None:
            self._context.open_requests.add(task)
            task.add_done_callback(self._context.open_requests.discard)

    async def _perform(self, target: RequestTarget, credential: Credential, digest: str) -> dict[str, Any]:
        service = self._context.services.get(target.service)
        operation = None if service is None else service.operations.get(target.operation)
        if operation is None:
            raise unavailable_error(target.label)
        headers = self.request.headers
        caller = Caller(
            credential.access_key,
            credential.region,
            headers.get("User-Agent", ""),
            headers.get("amz-sdk-invocation-id", ""),
            read_attempt(headers.get("amz-sdk-request", "")),
        )
        call = partial(operation, read_members(target, self.request.body), caller)
        is_read = target.operation.startswith(_READS)
        if is_read:
            self._task = asyncio.ensure_future(call())
            return await self._task
        return await self._change(call, caller, f"{target.label} {digest}")

    async def _change(
        self, call: Callable[[], Awaitable[dict[str, Any]]], caller: Caller, digest: str
    ) -> dict[str, Any]:
        """Run what changes something to its end, once for all attempts of a call."""
        invocation = caller.invocation_id or self._context.new_id()
        return await self._context.answers.run((caller.access_key, invocation, digest), call)

    get = head = post = put = patch = delete = _serve


def read_attempt(header: str) -> int:
    """Return which attempt of its call a request is, by its header ``amz-sdk-request``; 1 where that does not say."""
    found = _ATTEMPT.search(header)
    return int(found["number"]) if found else 1


def _head(request: HTTPServerRequest) -> RequestHead:
    headers = {name.lower(): value for name, value in request.headers.items()}
    path, _, query = (request.uri or "").partition("?")
    return RequestHead(request.method or "", path, query, headers)


def _scope_service(head: RequestHead) -> str:
    """Return the service that a request's credential names, unchecked; "" without one."""
    try:
        return read_credential(head).service
    except AwsError:
        return ""


def _check_scope(target: RequestTarget, credential: Credential) -> None:
    expected = SIGNING_NAMES.get(target.service)
    if expected is not None and credential.service != expected:
        raise AwsError(
            "SignatureDoesNotMatch",
            f"Credential should be scoped to correct service: '{expected}'.",
            HTTPStatus.FORBIDDEN,
        )


def _aws_error(error: SmxError) -> AwsError:
    """Return an error of this package in AWS's form; clients retry those that pass."""
    if error.status >= _SERVER_ERROR:
        return AwsError("ServiceUnavailable", str(error), HTTPStatus.SERVICE_UNAVAILABLE)
    return AwsError("ValidationException", str(error))


def _internal_failure(target: RequestTarget, error: Exception) -> AwsError:
    # The error's own text may quote what the client sent, as variables with a secret.
    trace = "".join(traceback.format_tb(error.__traceback__))
    _log.error("%s failed by an error of this program: %s\n%s", target.label, type(error).__name__, trace)
    return AwsError(
        "InternalFailure",
        f"{target.label} failed by an error of jupyter_smx ({type(error).__name__}); its log aws.log has the place.",
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )
