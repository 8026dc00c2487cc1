"""Slurm's reasons, states and messages: which ones a job can wait for, and what a person does about others; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.engines.remote.account import EXIT_FOLDER
from jupyter_smx.engines.remote.machine import NoAnswerError, NotStartedError
from jupyter_smx.engines.slurm import submission
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.engines.remote.machine import Completed
    from jupyter_smx.engines.slurm.parsers import QueueRow
    from jupyter_smx.model.errors import SmxError

PENDING = ("PENDING", "CONFIGURING", "REQUEUED", "RESV_DEL_HOLD", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
RUNNING = ("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT")
COMPLETING = ("COMPLETING",)
"""States in which Slurm still ends processes of a job."""

TIME_CURE = (
    "Ask for less time: a shorter --engine-option time= if the job has one, else a shorter --max-run or --keep-alive, "
    "or c.SlurmEngine.max_allocation."
)

NEVER_WORDS = (
    (
        r"PartitionTimeLimit|AssocMaxWallDurationPerJobLimit|QOSMaxWallDurationPerJobLimit|QOSTimeLimit",
        TIME_CURE,
    ),
    (
        r"BadConstraints|PartitionConfig|NodeNotAvail$",
        "Correct constraint= or gres= of --engine-option, or of the instance type.",
    ),
    (r"InvalidAccount|AccountNotAllowed|AssocNotFound", "Use one of your accounts."),
    (r"InvalidQOS|QOSNotAllowed", "Use a QOS of your account: `sacctmgr show associations user=$USER`."),
    (r"ReservationInvalid|ReservationDeleted", "Use a reservation that exists: `scontrol show reservations`."),
    (
        r"(Assoc|QOS)Max[A-Za-z]*PerJob\w*|(Assoc|QOS)Max\w*PerNode\w*",
        "Use a smaller instance type, or fewer hosts.",
    ),
    (r"QOSMin\w+", "Use a larger instance type, or more hosts: the QOS has a least size of a job."),
    (r"DependencyNeverSatisfied|JobHoldMaxRequeue|JobLaunchFailure|Deadline", "Submit the job again."),
)
"""Reasons of a pending job that no waiting changes, and the cure of each."""
NODE_LIMIT = re.compile(r"PartitionNodeLimit|ReqNodeNotAvail.*|Nodes required for job are DOWN.*")
"""Reasons that may be about more nodes than there are, or about nodes that are down now."""

_PARTITION_CONFIG = "PartitionConfig"

PYTHON_CURE = "Set c.SlurmEngine.python to the path of Python 3.8 or newer on the nodes."

EARLY_NOTICE = 60.0
"""Seconds by which Slurm may send a signal earlier than ``--signal`` says."""

_SENTENCES = {
    "": "Slurm gives no reason yet",
    "Resources": "Resources: the nodes are in use",
    "Priority": "Priority: other jobs come first",
    "JobHeldUser": "JobHeldUser: the job is held; `scontrol release` continues it",
    "JobHeldAdmin": "JobHeldAdmin: an administrator holds the job",
    "ReqNodeNotAvail": "ReqNodeNotAvail: the nodes are down, drained or reserved",
    "PartitionDown": "PartitionDown: the partition starts no jobs now",
    "PartitionInactive": "PartitionInactive: the partition starts no jobs now",
    "BeginTime": "BeginTime: the job has a time before which it does not start",
    "Licenses": "Licenses: a license is in use",
    "Reservation": "Reservation: the reservation has not begun",
}
"""Frequent reasons with the words of Slurm's documentation in short; another one is shown as it is."""

_ENDS = {
    "COMPLETING": "Slurm ends the job: it was cancelled, it ran out of time, or a node failed.",
    "TIMEOUT": "The time limit of the allocation was reached.",
    "PREEMPTED": "Slurm took the nodes away for a job of higher priority.",
    "NODE_FAIL": "A node of the allocation failed.",
    "OUT_OF_MEMORY": "A process used more memory than the allocation has, and Slurm ended the job.",
    "BOOT_FAIL": "A node of the allocation did not boot.",
    "DEADLINE": "The deadline of the job passed before it could start.",
    "REVOKED": "The job was moved to another cluster of the federation.",
}


class PilotEnd(NamedTuple):
    """Why the batch script or the pilot of an allocation ended, and what to do; no ``cure`` if it passes by itself."""

    sentence: str
    cure: str = ""


_PILOT_ENDS = {
    str(submission.EXIT_NO_PYTHON): PilotEnd("The first node does not have the configured Python.", PYTHON_CURE),
    str(submission.EXIT_OLD_PYTHON): PilotEnd("The Python of the first node is older than 3.8.", PYTHON_CURE),
    str(submission.EXIT_OLDER_JOB): PilotEnd("An older Slurm job of the same cluster is queued or runs."),
    str(EXIT_FOLDER): PilotEnd(
        "The folder of hosts on a node is a link, cannot be created, or is not this user's alone.",
        "Remove it there, or set c.SlurmEngine.folder to another one.",
    ),
}
"""Ends by the exit code of the batch job."""


class Rule(NamedTuple):
    """One message of a program of Slurm; ``error`` is what it means for a launch."""

    pattern: str
    error: type[SmxError]
    field: str
    cure: str


SUBMIT_RULES = (
    Rule(
        r"maximum job count|temporarily unable|MaxSubmit|standby mode|shutting down|I/O error|Too many|[Rr]ate limit",
        UnavailableError,
        "",
        "",
    ),
    Rule(r"Invalid account or account/partition", RefusedError, "account", "Use one of your accounts."),
    Rule(r"[Ii]nvalid partition", RefusedError, "partition", "`sinfo` lists the partitions."),
    Rule(r"Invalid qos|Invalid QOS", RefusedError, "qos", "Use a QOS of your account."),
    Rule(
        r"Invalid generic resource|Invalid GRES|Invalid Trackable RESource",
        RefusedError,
        "gres",
        "`sinfo -o %G` lists generic resources.",
    ),
    Rule(r"Invalid feature|constraint", RefusedError, "constraint", "`sinfo -o %f` lists the features of nodes."),
    Rule(r"reservation", RefusedError, "reservation", "`scontrol show reservations` lists them."),
    Rule(
        r"time limit is invalid",
        RefusedError,
        "max_run",
        TIME_CURE,
    ),
    Rule(
        r"Requested node configuration is not available|Node count specification invalid|More processors requested",
        RefusedError,
        "instance_type",
        "Use a smaller instance type, or fewer hosts.",
    ),
    Rule(r"Memory (required|specification)", RefusedError, "instance_type", "Use an instance type with less memory."),
    Rule(
        r"violates accounting/QOS policy",
        RefusedError,
        "instance_count",
        "Ask for less: a limit of your account or QOS forbids a job of this size.",
    ),
    Rule(
        r"unrecognized option|invalid option|Invalid .* specification|invalid number",
        RefusedError,
        "submit_words",
        "Correct --engine-option words=, or words of c.SlurmEngine.node_types or c.SlurmEngine.submit_words.",
    ),
    Rule(
        r"(sbatch|squeue|srun|scancel|sinfo|scontrol): (command )?not found|not found: sbatch",
        RefusedError,
        "engine",
        "Set c.SlurmEngine.programs to the folder that has sbatch.",
    ),
    Rule(
        r"Could not establish a configuration source|DNS SRV lookup failed|fatal: .*slurm\.conf",
        RefusedError,
        "engine",
        "Set c.SlurmEngine.variables = {'SLURM_CONF': '/PATH/slurm.conf'}.",
    ),
    Rule(
        r"Access/permission denied|User not permitted|User's group not permitted",
        RefusedError,
        "partition",
        "Use a partition that lets your account in.",
    ),
    Rule(
        r"Socket timed out|Unable to contact|Connection (refused|timed out)|connect failure|Zero Bytes|munge|"
        r"send/recv|[Mm]essage (send|receive)|Unexpected message|[Aa]uthentication",
        NoAnswerError,
        "",
        "",
    ),
)
"""Messages of ``sbatch`` and the others; the first that matches counts."""

_NO_STEP = re.compile(
    r"Unable to create step|Unable to confirm allocation|Invalid job id|Job/step already complet|"
    r"Requested nodes? (are|is) busy|Requested node configuration is not available|Memory required by task"
)
_LOST = re.compile(r"Socket timed out|Unable to contact slurm controller|[Cc]onnect|Zero Bytes|launch failed|Aborting")

_NO_HETEROGENEOUS = re.compile(
    r"operation (is )?not supported on this system|"
    r"([Hh]eterogen(e)?ous|[Hh]et) ?jobs?\b.*\b(not|no|disabled|forbidden|prohibited|rejected|refused)\b|"
    r"\b([Nn]o|[Nn]ot|[Dd]isabled?) .*([Hh]eterogen(e)?ous|\b[Hh]et) ?jobs?\b"
)
"""Without backfill scheduling slurmctld says the first one; the others are words of a site's plug-in."""
_REFUSED = re.compile(r"(Batch job|Job) submission failed: \S")
"""Begins the answer of slurmctld; texts about a lost connection are in the rules before."""


def can_pass(reason: str) -> bool:
    """Return True if a pending job may start later although nothing about it changes."""
    return not _cure_of(reason)


def _cure_of(reason: str) -> str:
    word = reason.partition(",")[0].strip()
    return next((cure for pattern, cure in NEVER_WORDS if re.fullmatch(pattern, word)), "")


def never_error(reason: str, job: str, *, has_too_many_hosts: bool = False) -> RefusedError:
    """Return the refusal of a request that waits for what cannot come, with Slurm's reason.

    ``has_too_many_hosts`` says that its partition has fewer nodes, which Slurm may call ``PartitionConfig``.
    """
    cure = "" if has_too_many_hosts and reason == _PARTITION_CONFIG else _cure_of(reason)
    return RefusedError(
        f"Slurm cannot run this: job {job} would wait without end ({reason}).",
        field="engine",
        value="slurm",
        rule="The job was cancelled.",
        cure=cure or "Use fewer hosts, or another partition.",
    )


def format_reason(row: QueueRow) -> str:
    """Return Slurm's reason of a pending job for people, with the job's id: ``Resources … (Slurm job 12)``."""
    if row.state == "CONFIGURING":
        return f"Slurm starts the nodes (Slurm job {row.job})"
    word, _, rest = row.reason.partition(",")
    known = _SENTENCES.get(word, word)
    return f"{known}{f',{rest}' if rest else ''} (Slurm job {row.job})"


def format_jobs_of_groups(waiting: Sequence[QueueRow], granted: Sequence[QueueRow], now: float) -> str:
    """Return why a cluster with a batch job for each instance group waits, and what it holds meanwhile; pure.

    ``now`` and the starts of rows are seconds since the epoch. Node hours are rounded down, as a text that changes is
    written each time.
    """
    count = len(waiting) + len(granted)
    shown = format_reason(next((row for row in waiting if row.reason), waiting[0]))
    words = f"{shown}, one of {count} batch jobs, one for each instance group"
    if not granted:
        return words
    nodes = sum(len(row.nodes) for row in granted)
    seconds = sum(len(row.nodes) * max(0.0, now - row.start) for row in granted if row.start is not None)
    ids = ", ".join(row.job for row in granted)
    hours = int(seconds / 360.0) / 10
    held = f"{nodes} node{'s' if nodes > 1 else ''} of Slurm job{'s' if len(granted) > 1 else ''} {ids}"
    return f"{words}. {held} wait{'' if nodes > 1 else 's'} for it: {hours:g} node hours so far"


def end_sentence(state: str, record: dict[str, str]) -> str:
    """Return how an allocation ended; ``record`` is what ``scontrol`` shows of the job, empty if it shows none."""
    word = state.split(maxsplit=1)[0] if state else ""
    if is_requeued(record):
        return "Slurm queued the job again, which ended its hosts."
    if word == "CANCELLED":
        by = re.search(r"by (\S+)", state)
        return f"The Slurm job was cancelled{f' by user {by[1]}' if by else ''}."
    if word in COMPLETING and record.get("PreemptTime", "").isdigit():
        word = "PREEMPTED"
    if word in _ENDS:
        return _ENDS[word]
    code = record.get("ExitCode", "").partition(":")[0]
    known = pilot_end(record)
    if word and known is not None:
        return f"{known.sentence} {known.cure}".strip()
    if word == "FAILED":
        return f"The Slurm job failed{f' with exit code {code}' if code else ''}."
    return "The Slurm job has ended." if word else "Slurm has no such job any more."


def is_final(state: str) -> bool:
    """Return True if a state of the accounting, such as ``CANCELLED by 1000``, is the end of a job."""
    return bool(state) and state not in (*PENDING, *RUNNING, *COMPLETING)


def is_requeued(record: dict[str, str]) -> bool:
    """Return True if Slurm started a job more than once; ``record`` is what ``scontrol`` shows of it."""
    return record.get("Restarts", "0") != "0"


def pilot_end(record: dict[str, str]) -> PilotEnd | None:
    """Return why a pilot ended by what ``scontrol`` shows of its job; None if the exit code has no such meaning."""
    return _PILOT_ENDS.get(record.get("ExitCode", "").partition(":")[0])


def notice_sentence(record: dict[str, str], now: float, notice: float) -> str:
    """Return the reason of the coming end of a job that still runs, "" without a notice by now; pure.

    ``record`` is what ``scontrol`` shows of the job, with moments in seconds since the epoch, as ``now``. ``notice`` is
    how many seconds before its end a job gets its notice.
    """
    if record.get("PreemptTime", "").isdigit():
        return _ENDS["PREEMPTED"]
    end = record.get("EndTime", "")
    return _ENDS["TIMEOUT"] if end.isdigit() and int(end) - now <= notice + EARLY_NOTICE else ""


def forbids_heterogeneous(errors: str) -> bool:
    """Return True if ``sbatch`` was refused because the site takes no heterogeneous jobs."""
    return _NO_HETEROGENEOUS.search(errors) is not None


def submit_error(done: Completed, accounts: Sequence[str] = ()) -> SmxError:
    """Turn the messages of a program of Slurm that failed into an error; ``accounts`` are those of the user."""
    text = _sbatch_messages(done.errors) or _last_message(done.errors) or f"exit code {done.code}"
    for rule in SUBMIT_RULES:
        if re.search(rule.pattern, done.errors):
            return _rule_error(rule, text, accounts)
    if _REFUSED.search(done.errors):  # slurmctld answered, as it would each time
        cure = "Correct what the message names: options of the instance type or of the configuration."
        return RefusedError(f"Slurm refused the job: {text}.", field="engine", value="slurm", rule=text, cure=cure)
    # What is not known may have been accepted, so it is looked up by name.
    return NoAnswerError(f"Slurm gave no job id ({text}).", transient=True)


def _rule_error(rule: Rule, text: str, accounts: Sequence[str]) -> SmxError:
    if issubclass(rule.error, UnavailableError):
        return rule.error(f"Slurm does not accept jobs now ({text}).", transient=True)
    named = f"Your accounts are {', '.join(accounts)}." if accounts and rule.field == "account" else ""
    return rule.error(f"Slurm refused the job: {text}.", field=rule.field, value=text, rule=named, cure=rule.cure)


def ask_error(program: str, done: Completed) -> SmxError:
    """Turn the failure of a question to Slurm into an error: nothing is known then."""
    text = _last_message(done.errors) or f"exit code {done.code}"
    match = next((rule for rule in SUBMIT_RULES if re.search(rule.pattern, done.errors)), None)
    if match is not None and match.field == "engine":
        return UnavailableError(f"{program} cannot be used: {text}.", cure=match.cure, transient=True)
    return NoAnswerError(f"Slurm does not answer ({program}: {text}).", transient=True)


def step_error(machine: str, done: Completed) -> UnavailableError | None:
    """Return the error of a step that Slurm did not run, or None if the command itself ended so."""
    if done.code == 0:
        return None
    lines = [line for line in done.errors.splitlines() if re.match(r"(srun|slurmstepd): (error|fatal)", line)]
    text = _last_message("\n".join(lines))
    if any(_NO_STEP.search(line) for line in lines):
        return NotStartedError(f"Slurm starts no step on {machine} ({text}).", transient=True)
    if any(_LOST.search(line) for line in lines):
        return NoAnswerError(f"{machine} gave no answer ({text}).", transient=True)
    return None


def _sbatch_messages(errors: str) -> str:
    """Join all errors that ``sbatch`` printed, as a site's plug-in explains its refusal in lines of its own."""
    lines = [line for line in errors.splitlines() if re.match(r"\s*sbatch: (error|fatal): ", line)]
    return "; ".join(dict.fromkeys(text for line in lines if (text := _last_message(line))))


def _last_message(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    text = (lines or [""])[-1]
    return re.sub(r"^(\w+: )?(error: |fatal: )?(Batch job submission failed: )?", "", text).rstrip(".")
