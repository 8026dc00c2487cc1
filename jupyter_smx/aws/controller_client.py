"""Typed requests to the controller for the front, which is asynchronous: no thread waits for an answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from jupyter_smx.model.errors import ErrorBody, UnavailableError, from_body
from jupyter_smx.model.http_routes import METHODS, UNREPEATABLE, controller_path
from jupyter_smx.model.records.event import PoolSummary
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.results.reports import Bill, EngineInfo
from jupyter_smx.model.spec.instance import TypesListing
from jupyter_smx.server.connection import ControllerConnection, OnLost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tornado.httpclient import HTTPResponse

    from jupyter_smx.model.http_routes import Action
    from jupyter_smx.model.spec.job_spec import JobSpec
    from jupyter_smx.model.status import Status

WAIT_STEP = 5.0
"""Seconds of one long poll. A caller that is cancelled leaves no request behind for longer than that."""
_PAGE = 1_000
"""Jobs of one request for all of them."""
_Model = TypeVar("_Model")


class _Jobs(msgspec.Struct, frozen=True):
    jobs: tuple[JobSummary, ...]


class _Pools(msgspec.Struct, frozen=True):
    pools: tuple[PoolSummary, ...]


class _Bill(msgspec.Struct, frozen=True):
    bill: Bill


class BilledJob(msgspec.Struct, frozen=True):
    """A job, and its bill until now."""

    job: Job
    bill: Bill


class ControllerClient:
    """Sends requests to this user's controller; a submission starts one if none listens."""

    def __init__(self, connection: ControllerConnection | None = None) -> None:
        self.connection = connection or ControllerConnection()
        # Configuration, which changes only with another controller: until the front is started again it may be old.
        self._engine_infos: dict[str, EngineInfo] = {}
        self._instance_types: dict[str, tuple[str, ...]] = {}

    async def submit(self, job_id: str, spec: JobSpec) -> Job:
        """Submit a job; a repeated id and request return the same job.

        :raises SmxError: the controller refuses the request, or cannot be reached.
        """
        return await self.request("submit_job", Job, body={"id": job_id, "spec": spec})

    async def job(self, ref: str, wait: float = 0.0) -> BilledJob:
        """Read a job by id or name when it has ended, or as it is after ``wait`` seconds.

        :raises ResourceNotFoundError: there is no such job.
        """
        query = {"wait": f"{wait:g}", "until": "final"} if wait else None
        answer = await self._send("get_job", ref, query=query, wait=wait)
        return BilledJob(_decode(answer, Job), _decode(answer, _Bill).bill)

    async def summaries(self, limit: int, before: str = "", status: Status | None = None) -> tuple[JobSummary, ...]:
        """List a page of jobs, newest first; ``before`` is the id of the last job of the page before it."""
        query = {"limit": str(limit)} | ({"before": before} if before else {})
        query |= {"status": status.value} if status else {}
        return (await self.request("list_jobs", _Jobs, query=query)).jobs

    async def all_summaries(self) -> list[JobSummary]:
        """List all jobs, newest first."""
        found: list[JobSummary] = []
        while page := await self.summaries(_PAGE, found[-1].id if found else ""):
            found += page
            if len(page) < _PAGE:
                break
        return found

    async def stop(self, ref: str) -> Job:
        """Request a job's stop; a finished job is returned unchanged."""
        return await self.request("stop_job", Job, ref)

    async def delete(self, ref: str) -> None:
        """Delete a finished job and its files.

        :raises ResourceInUseError: it is not finished, or retains a warm pool.
        """
        await self._send("delete_job", ref)

    async def pools(self) -> tuple[PoolSummary, ...]:
        """List live pools."""
        return (await self.request("list_pools", _Pools)).pools

    async def set_keep_alive(self, ref: str, seconds: int) -> Job:
        """Keep the pool of a job for ``seconds`` after it or, once it has ended, from now; 0 releases the pool.

        :raises ResourceInUseError: it has ended, and retains no pool.
        """
        return await self.request("update_job", Job, ref, body={"keep_alive": seconds})

    async def engine_info(self, engine: str) -> EngineInfo:
        """Return the facts of an engine; one request for each, unless its controller is older than the front."""
        if engine in self._engine_infos:
            return self._engine_infos[engine]
        found = await self.request("get_engine", EngineInfo, engine)
        if found.aws_front:
            self._engine_infos[engine] = found
        return found

    async def instance_types(self, engine: str) -> tuple[str, ...]:
        """Name the instance types that jobs of an engine may request; one request for each engine."""
        if engine not in self._instance_types:
            listing = await self.request("list_instance_types", TypesListing)
            kinds = (*listing.instance_types, *listing.engines.get(engine, ()))
            self._instance_types[engine] = tuple(dict.fromkeys(kind.name for kind in kinds))
        return self._instance_types[engine]

    def close(self) -> None:
        """Close the connection; requests under way end as unavailable."""
        self.connection.close()

    async def request(
        self,
        action: Action,
        kind: type[_Model],
        ref: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> _Model:
        """Send a request of a route, and return its answer.

        :raises SmxError: the controller refuses the request, cannot be reached, or has another version.
        """
        return _decode(await self._send(action, ref, query=query, body=body), kind)

    async def _send(
        self,
        action: Action,
        ref: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        wait: float = 0.0,
    ) -> HTTPResponse:
        on_lost: OnLost = "raise" if action in UNREPEATABLE else "start"
        answer = await self.connection.request(
            METHODS[action],
            controller_path(action, quote(ref, safe="")),
            query=query,
            body=None if body is None else msgspec.json.encode(body),
            wait=wait,
            on_lost=on_lost,
        )
        if answer.code >= HTTPStatus.BAD_REQUEST:
            raise from_body(_decode(answer, ErrorBody))
        return answer


def _decode(answer: HTTPResponse, kind: type[_Model]) -> _Model:
    try:
        found: Any = msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise UnavailableError(
            f"The controller gave an invalid {kind.__name__}: {error}.",
            cure="It may have another version. Check it with `jupyter smx doctor`.",
        ) from error
    return found  # type: ignore[no-any-return]
