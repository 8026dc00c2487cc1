"""The routes of the controller and of the Jupyter server: one table, from which handlers, clients and pages follow.

``ROUTES`` are the controller's, below ``/v1/``; those with a ``proxy`` are also the Jupyter server's, below
``/jupyter-smx/``, which passes them on. ``SERVER_ROUTES`` exist at the Jupyter server only.
"""

from __future__ import annotations

import re
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

_T = TypeVar("_T", bool, int, float, str)
_A = TypeVar("_A", bound=str)

CONTROLLER_PREFIX = "/v1/"
SERVER_PREFIX = "/jupyter-smx/"

MAX_WAIT = 3_600.0
"""Seconds that the controller delays an answer at most."""
SERVER_MAX_WAIT = 60.0
"""Seconds that a browser may hold one request; proxies in between end longer ones."""
MAX_OFFSET = 2.0**62
"""Larger than any file, in bytes, and than any moment, in seconds."""

PATH_PARAMETER = r"\{(?P<name>\w+)(?P<slashes>:path)?\}"
"""Compiled where it is used, since the kernel's client imports this module and never uses it."""

Method = Literal["GET", "POST", "PATCH", "DELETE"]

Action = Literal[
    "describe_controller",
    "list_jobs",
    "submit_job",
    "plan_job",
    "get_job",
    "delete_job",
    "stop_job",
    "interrupt_job",
    "update_job",
    "rerun_job",
    "get_job_shell",
    "read_log",
    "read_log_lines",
    "search_log",
    "download_log",
    "get_metrics",
    "get_usage",
    "get_advice",
    "compare_jobs",
    "download_artifact",
    "list_arrays",
    "submit_array",
    "get_array",
    "stop_array",
    "list_pools",
    "extend_pool",
    "release_pool",
    "get_pool_shell",
    "list_instance_types",
    "list_engine_names",
    "get_engine",
    "list_changes",
    "diagnose",
    "fix",
]
"""Actions of the controller; the literals let mypy find a name that is no action."""

ServerAction = Literal["get_controller_state", "start_controller", "locate_job_files"]
"""Actions of the Jupyter server alone."""


class QueryParameter(Struct, Generic[_T], frozen=True):
    """A parameter of a query: its name, its default, which also defines its type, and the largest number that counts.

    A larger number counts as ``maximum``. A ``bool`` is written as 0 or 1.
    """

    name: str
    default: _T
    help: str
    maximum: float = MAX_OFFSET
    strip: bool = True
    """True if spaces at the ends are removed."""


class Proxy(Struct, frozen=True):
    """How the Jupyter server forwards a route to the controller."""

    query: tuple[str, ...] | None = None
    """Parameters that it passes on; None means all of the route."""
    starts_controller: bool = False
    """True if it starts a controller first, unless one runs."""
    marks_read: bool = False
    """True if the request proves that a page shows the current state, so that no message about it is due."""
    help: str = ""
    """What the Jupyter server's route does, if it does more than forward the request."""
    answer: str = ""
    """Its answer, if that is another one."""
    post_path: str = ""
    """A path where POST does the same, for networks that block other methods than GET and POST."""


class Route(Struct, Generic[_A], frozen=True):
    """A method and a path, the action that answers, and its parameters and result.

    A parameter of the path is ``{ref}``, one segment, or ``{name:path}``, which may have slashes.
    """

    method: Method
    path: str
    """Below the prefix of the process that answers."""
    action: _A
    help: str
    """What the route does, as one or more sentences for its reference page."""
    answer: str
    """The answer, and the cases in which it has another status."""
    query: tuple[QueryParameter[Any], ...] = ()
    body: str = ""
    """The fields of the JSON body; "" where the route takes none."""
    status: int = 200
    """The HTTP status of a successful answer, unless the action sets another one."""
    proxy: Proxy | None = None
    """None where only processes of the same user reach the route."""
    unrepeatable: str = ""
    """Why a client must not send the request again where the answer to the first one was lost; "" where it may."""

    def proxy_query(self) -> tuple[QueryParameter[Any], ...]:
        """Return the parameters that the Jupyter server forwards."""
        allowed = None if self.proxy is None else self.proxy.query
        return self.query if allowed is None else tuple(each for each in self.query if each.name in allowed)


# Parameters of a query

LIMIT_JOBS = QueryParameter("limit", 100, "rows at most", 1_000)
LIMIT_ARRAYS = QueryParameter("limit", 20, "rows at most", 200)
BEFORE_JOB = QueryParameter("before", "", "only jobs that are older than the job with this id")
STATUS = QueryParameter("status", "", "only jobs with this status")
WITH_TASKS = QueryParameter("tasks", True, "0 leaves tasks out")
WAIT = QueryParameter("wait", 0.0, "seconds that the answer may be delayed until there is something new", MAX_WAIT)
UNTIL = QueryParameter("until", "final", "the event that ends `wait`: the `final` status or the `first_line` of output")
ENDED = QueryParameter("ended", 0, "`wait` ends when more than this number of tasks have ended", 2.0**31)
HOST = QueryParameter("host", "", "the name of a host; the first one by default")
USAGE_HOST = QueryParameter("host", "", "the name of a host; all hosts by default")
ATTEMPT = QueryParameter("attempt", 0, "the number of a run of the job; the newest by default")
OFFSET = QueryParameter("offset", 0, "the first byte")
LAST = QueryParameter("last", 0, "instead of `offset`: the number of bytes at the end")
END_BYTE = QueryParameter("before", -1, "instead of `offset`: where the bytes end")
LIMIT_BYTES = QueryParameter("limit", 262_144, "bytes at most", 4 * 2**20)
TEXT = QueryParameter("text", "", "the words to find", strip=False)
MATCH_CASE = QueryParameter("case", False, "1 distinguishes upper case from lower case")
AFTER_BYTE = QueryParameter("after", 0, "only lines that begin at this byte or later")
BEFORE_BYTE = QueryParameter("before", -1, "only lines that begin before this byte; by default all")
LIMIT_LINES = QueryParameter("limit", 10_000, "lines at most", 10_000)
SINCE_MS = QueryParameter("since", 0, "only lines of this moment or later, in milliseconds since the epoch")
UNTIL_MS = QueryParameter("until", -1, "only lines before this moment, in milliseconds since the epoch")
FROM_END = QueryParameter("from_end", False, "1 gives the last lines of the selection instead of the first")
SINCE = QueryParameter("since", 0.0, "only what is newer than this moment, in seconds since the epoch")
SINCE_EVENT = QueryParameter("since", 0, "the number of the last event that is known")
ABANDON = QueryParameter("abandon", False, "1 waits for no host that cannot be reached: the job ends now")
ENGINE = QueryParameter("engine", "", "the name of one engine, also with a machine as `ssh:NAME`; all by default")
NAMES_OF = QueryParameter("engine", "", "the engine whose names are listed, also with a machine as `ssh:NAME`")
FROM_JOB = QueryParameter("from", "", "the earlier job; by default the run of the same base name before this one")

_RECORD = "Job, with its `summary`, `status`, `secondary_status`, `queue_position`, `cost` and `bill` as of now"
_SHELL = '`{"command": [word], "hosts": [name]}`'

ROUTES: tuple[Route[Action], ...] = (
    # A router tries the rows in their order, so those of the warm path come first.
    Route(
        "GET",
        "",
        "describe_controller",
        "Say which controller runs, and the number of the newest event.",
        "`{version, protocol, pid, epoch, seq, data_dir}`",
    ),
    Route(
        "POST",
        "jobs",
        "submit_job",
        "Submit a job. The same id and spec give the same job. On a warm pool the job starts before the answer.",
        "Job; 200 if the same id and spec were submitted before, 409 if the id has another spec",
        body='{"id", "spec"}',
        status=201,
        proxy=Proxy(starts_controller=True),
    ),
    Route(
        "GET",
        "jobs",
        "list_jobs",
        "List one page of jobs, newest first. With `tasks=0`: the newest that are no tasks, of any status.",
        '`{"jobs": [JobSummary]}`',
        query=(LIMIT_JOBS, BEFORE_JOB, STATUS, WITH_TASKS),
        proxy=Proxy(query=("limit", "before", "status"), marks_read=True, help="List one page of jobs, newest first."),
    ),
    Route(
        "POST",
        "plan",
        "plan_job",
        "Say where a job would run and why. Nothing is created.",
        "`{sentence, why, engine_request, sent: [PlannedFiles]}`; `sent` is empty where hosts see the same files",
        body='{"spec"}',
    ),
    Route(
        "GET",
        "jobs/{ref}",
        "get_job",
        "Give the record of a job; with `wait`, when the job gets as far as `until`.",
        _RECORD,
        query=(WAIT, UNTIL),
        proxy=Proxy(),
    ),
    Route(
        "DELETE",
        "jobs/{ref}",
        "delete_job",
        "Delete a finished job and its files.",
        "no body; 409 while the job runs, jobs wait for it, or it retains a warm pool",
        status=204,
        proxy=Proxy(post_path="jobs/{ref}/delete"),
        unrepeatable="a job that is deleted is unknown to a second request",
    ),
    Route(
        "POST",
        "jobs/{ref}/stop",
        "stop_job",
        "Stop a job. A finished job is returned unchanged.",
        "Job",
        query=(ABANDON,),
        proxy=Proxy(),
    ),
    Route(
        "POST",
        "jobs/{ref}/interrupt",
        "interrupt_job",
        "Simulate a spot interruption, so that the job restarts.",
        "Job; 400 if it is not a spot job, 409 if it has no hosts",
        proxy=Proxy(),
        unrepeatable="a second one may interrupt the next attempt",
    ),
    Route(
        "PATCH",
        "jobs/{ref}",
        "update_job",
        "Set the keep-alive of a job: it counts after the job or, once it has ended, from now for the pool it retains.",
        "Job; 409 if it has ended and retains no pool",
        body='{"keep_alive"}',
        unrepeatable="a pool that is released by 0 is retained no more for a second request",
    ),
    Route(
        "POST",
        "jobs/{ref}/rerun",
        "rerun_job",
        "Submit the spec of a job again under a new id. The same request again gives the same job.",
        "Job; 200 and 409 as for `POST jobs`, 404 if its variables or its source folder were deleted",
        body='{"id", "submitted_at"}',
        status=201,
        proxy=Proxy(starts_controller=True),
    ),
    Route(
        "GET",
        "jobs/{ref}/shell",
        "get_job_shell",
        "Give the command that opens a shell where the job runs, while its hosts exist and have no other job.",
        _SHELL,
        query=(HOST,),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "jobs/{ref}/logs",
        "read_log",
        "Read the bytes of a log from `offset` on, the `last` so many, or those that end at `before`. An earlier "
        "attempt is final. Bytes that a limit on disk left out are passed over.",
        "bytes; the headers `X-Smx-Offset` (where to continue), `X-Smx-Total`, `X-Smx-Final` (0 or 1), `X-Smx-Host`, "
        "`X-Smx-Hosts`, `X-Smx-Attempt`, `X-Smx-Attempts`",
        query=(HOST, ATTEMPT, OFFSET, LAST, END_BYTE, LIMIT_BYTES, WAIT),
        proxy=Proxy(
            help="Read the bytes of a log from `offset` on, the `last` so many, or those that end at `before`. With "
            "`cursor=body` the answer begins with a line of JSON that has the values of the headers "
            "(LogResponseCursor), for proxies that remove headers."
        ),
    ),
    Route(
        "GET",
        "jobs/{ref}/logs/lines",
        "read_log_lines",
        "Read whole lines of a log with their times. A line has the time of the piece that completed it, which never "
        "changes. Continue after `end`, or before `begin`. With `limit=0` the answer has `first_at` and `last_at`, "
        "the times of the first and last byte.",
        "LogLines, with lines as `[offset, milliseconds, text]`; at most 1 MiB",
        query=(HOST, ATTEMPT, AFTER_BYTE, BEFORE_BYTE, SINCE_MS, UNTIL_MS, LIMIT_LINES, FROM_END),
    ),
    Route(
        "GET",
        "jobs/{ref}/logs/search",
        "search_log",
        "Find the lines of a log that contain `text`, the last first. One answer covers at most 32 MiB.",
        "`{places, reached, total}` in bytes; `reached` is the `before` of the next request, until it is `after`",
        query=(HOST, ATTEMPT, TEXT, MATCH_CASE, AFTER_BYTE, BEFORE_BYTE),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "jobs/{ref}/logs/whole",
        "download_log",
        "Stream a log; of one that still grows, what it contains now. Bytes that were left out are not in it.",
        "bytes",
        query=(HOST, ATTEMPT),
        proxy=Proxy(help="Stream a log as an attachment with the file name `name`, never as a page."),
    ),
    Route(
        "GET",
        "jobs/{ref}/metrics",
        "get_metrics",
        "Give the progress of a job and the points of its metrics by host, with notes on what could not be read.",
        "`{job, progress, series, notes, attempt, attempts, is_final}`",
        query=(ATTEMPT, SINCE),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "jobs/{ref}/usage",
        "get_usage",
        "Return the resource use of a job over time.",
        "`{job, hosts, peak, attempt, attempts, is_final}`, in columns",
        query=(USAGE_HOST, ATTEMPT, SINCE),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "jobs/{ref}/advice",
        "get_advice",
        "Apply the rules of SageMaker's profiler to the job's resource use, with predictions.",
        "`{job, advice, is_final}`",
        query=(ATTEMPT,),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "jobs/{ref}/diff",
        "compare_jobs",
        "Compare a job with an earlier one.",
        'Comparison; `before` is "" if there was no earlier run',
        query=(FROM_JOB,),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "jobs/{ref}/artifacts/{name:path}",
        "download_artifact",
        "Stream a file of a job.",
        "bytes",
        proxy=Proxy(help="Stream a file of a job as an attachment, never as a page."),
    ),
    Route(
        "POST",
        "arrays",
        "submit_array",
        "Submit an array: all of its tasks or none. The same id and request give the same array.",
        "ArraySummary; 200 and 409 as for `POST jobs`",
        body='{"id", "spec", "tasks": [TaskOverrides], "title", "max_concurrent"}',
        status=201,
    ),
    Route(
        "GET",
        "arrays",
        "list_arrays",
        "List the newest arrays, newest first.",
        '`{"arrays": [ArraySummary]}`',
        query=(LIMIT_ARRAYS,),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "arrays/{ref}",
        "get_array",
        "Give an array and its tasks.",
        "ArraySummary, and `tasks`: [JobSummary]",
        query=(WAIT, ENDED, WITH_TASKS),
        proxy=Proxy(),
    ),
    Route(
        "POST",
        "arrays/{ref}/stop",
        "stop_array",
        "Ask every task of an array to stop.",
        "ArraySummary",
        query=(ABANDON,),
        proxy=Proxy(),
    ),
    Route("GET", "pools", "list_pools", "List the live pools.", '`{"pools": [PoolSummary]}`', proxy=Proxy()),
    Route(
        "PATCH",
        "pools/{ref}",
        "extend_pool",
        "Keep an available pool for this number of seconds from now; 0 releases it.",
        "PoolSummary",
        body='{"keep_alive"}',
        proxy=Proxy(post_path="pools/{ref}/extend"),
        unrepeatable="a pool that is released by 0 is unknown to a second request",
    ),
    Route(
        "DELETE",
        "pools/{ref}",
        "release_pool",
        "Release an available pool.",
        "PoolSummary",
        status=202,
        proxy=Proxy(post_path="pools/{ref}/release"),
        unrepeatable="a pool that is released is unknown to a second request",
    ),
    Route(
        "GET",
        "pools/{ref}/shell",
        "get_pool_shell",
        "Give the command that opens a shell on a host of a pool, whichever job has it now.",
        _SHELL,
        query=(HOST,),
        proxy=Proxy(),
    ),
    Route(
        "GET",
        "instance_types",
        "list_instance_types",
        "List the instance types that jobs may ask for, the file of the administrator, and what engines add.",
        '`{"instance_types": [InstanceType], "file", "engines": {name: [InstanceType]}}`',
    ),
    Route(
        "GET",
        "engines",
        "list_engine_names",
        "List the names of engines; with `engine` also its machines, environments and instance types. They are read "
        "from configuration, and no machine is asked.",
        "EngineNames",
        query=(NAMES_OF,),
    ),
    Route(
        "GET",
        "engines/{ref}",
        "get_engine",
        "Describe an engine for a submitter: whether `--python` names an interpreter of its hosts.",
        "EngineInfo",
    ),
    Route(
        "GET",
        "changes",
        "list_changes",
        "Give the events after `since`; with `wait`, as soon as there is one.",
        "Changes",
        query=(SINCE_EVENT, WAIT),
        proxy=Proxy(
            marks_read=True,
            help="Give the events after `since`; without a controller the answer says `reset`: list everything again. "
            "The header `X-Smx-Aws` has `aws_url`, as `GET controller`.",
        ),
    ),
    Route(
        "GET",
        "doctor",
        "diagnose",
        "Return the doctor's report on the controller and on every engine.",
        "the controller's part of the doctor's page; with `engine` only `{engines}`, which may take 15 s",
        query=(ENGINE,),
        proxy=Proxy(
            query=(),
            help="Return the reports of the Jupyter server and the controller. A missing controller is no error.",
            answer="`{server, controller, problem}`",
        ),
    ),
    Route(
        "POST",
        "doctor",
        "fix",
        "Remove hosts of clusters without a record, and what ended clusters left on other machines.",
        "what was removed, by engine",
        query=(ENGINE,),
        unrepeatable="a second one does not say what the first removed",
    ),
)

SERVER_ROUTES: tuple[Route[ServerAction], ...] = (
    Route(
        "GET",
        "controller",
        "get_controller_state",
        "Report whether a controller runs, its version and newest event number. A missing controller is no error.",
        '`{"running": true, version, seq, ...}`, or `{"running": false}` with `problem: ErrorBody` of the last start; '
        "each with `records_note`, `records_id`, `aws_url` (of the front for clients of AWS, or empty), and `now` and "
        "`server_version`, as in the headers, for proxies that remove headers",
    ),
    Route(
        "POST",
        "controller",
        "start_controller",
        "Start a controller unless one runs.",
        "as for `GET controller`",
    ),
    Route(
        "GET",
        "jobs/{ref}/places",
        "locate_job_files",
        "Say of each path in a job's record whether it exists, and its name in JupyterLab's file browser.",
        "JobFileLocations",
    ),
)

METHODS: dict[Action, Method] = {route.action: route.method for route in ROUTES}
UNREPEATABLE: dict[Action, str] = {route.action: route.unrepeatable for route in ROUTES if route.unrepeatable}
"""Requests that are not sent again where their answer was lost, and why. All others are safe to repeat."""
_PATHS = {route.action: route.path for route in ROUTES}


def controller_path(action: Action, ref: str = "") -> str:
    """Return the path of an action at the controller; ``ref`` is one quoted segment."""
    return CONTROLLER_PREFIX + _PATHS[action].replace("{ref}", ref)


def served_routes() -> tuple[Route[Any], ...]:
    """Return the routes of the Jupyter server: forwarded ones, and its own."""
    return (*(route for route in ROUTES if route.proxy is not None), *SERVER_ROUTES)


def url_pattern(prefix: str, path: str) -> str:
    """Return the regular expression of a path for tornado, with a group for each parameter."""
    return prefix + re.sub(PATH_PARAMETER, lambda found: "(.+)" if found["slashes"] else "([^/]+)", path)
