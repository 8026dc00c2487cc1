"""Export an array as a self-contained folder: code, differences of its tasks, and a call of SageMaker."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.kernel.client import job_refs
from jupyter_smx.kernel.client.client import ArrayDetail
from jupyter_smx.kernel.request.payload import read_pickles
from jupyter_smx.kernel.sagemaker import model_trainer
from jupyter_smx.kernel.sagemaker.api_limits import api_limit_notes
from jupyter_smx.kernel.sagemaker.estimator_call import decode_hyperparameters, script_arguments
from jupyter_smx.kernel.sagemaker.export import (
    PROGRAM,
    Export,
    export,
    export_summary,
    file_descriptions,
    is_sdk3_job,
    readme,
    redact_job,
)
from jupyter_smx.kernel.sagemaker.export_folder import ExportResult, write_folder
from jupyter_smx.kernel.sagemaker.tuner_call import TASK_VARIABLES, TASKS, program_for_each, tuning_program
from jupyter_smx.kernel.sagemaker.tuning import TuningJob, tuning_job
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.request_texts import PLACEHOLDER, fill_values
from jupyter_smx.model.spec.array import format_counts
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.model.text import format_moment

if TYPE_CHECKING:
    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.model.records.job import JobSummary
    from jupyter_smx.model.spec.job_spec import JobSpec

_FOLDER = "variables"


class Tasks(Struct, frozen=True, kw_only=True):
    """An array with the data for its export: one of its tasks, and the variables of tasks that have their own."""

    array: ArrayDetail
    first: Job
    sent: tuple[Payload, ...] = ()
    """Of each task, in order; none if all tasks were sent the same."""

    def indices(self) -> list[int]:
        """Return the index of each task in its array, from which some may have been deleted."""
        return [task.array.index if task.array else place for place, task in enumerate(self.array.tasks)]

    def points(self) -> list[dict[str, str]]:
        """Return the hyperparameters in which each task differs, also those with its name in them."""
        shared = {name: text for name, text in self.first.spec.hyperparameters.items() if PLACEHOLDER in text}
        own = ((task.array.values if task.array else {}, task.name) for task in self.array.tasks)
        return [fill_values({**shared, **values}, name) for values, name in own]


def export_by_ref(client: Client, ref: str, folder: str) -> tuple[str, ExportResult]:
    """Export the job or the array of a reference to a folder, "" for its name; return its name, too.

    :raises ResourceNotFoundError: there is no such job or array, or a file that it needs was deleted.
    :raises ValidationError: the folder is not empty.
    :raises SmxError: the disk refuses.
    """
    found = job_refs.resolve_job_or_array(client, ref)
    where = Path(folder or found.name)
    if isinstance(found, Job):
        return found.name, export(found, where)
    return found.name, export_array(load_tasks(client, found), where)


def load_tasks(client: Client, array: ArrayDetail) -> Tasks:
    """Read what a list of tasks does not contain.

    :raises ResourceNotFoundError: all of its tasks were deleted.
    """
    if not array.tasks:
        raise ResourceNotFoundError(
            f"{array.name} cannot be exported: all of its tasks were deleted.",
            field="array",
            value=array.name,
            rule="An export contains the code of the tasks.",
            cure="Run it again, and export it before its tasks are deleted.",
        )
    first = _with_packages(client, array, client.job(array.tasks[0].id))
    if first.spec.shared is None:
        return Tasks(array=array, first=first)
    sent = (client.job(task.id).spec.send for task in array.tasks)
    return Tasks(array=array, first=first, sent=tuple(one for one in sent if one is not None))


def _with_packages(client: Client, array: ArrayDetail, first: Job) -> Job:
    """Return the first task with the packages and the image of the first that ran."""
    if first.provenance is not None:
        return first
    ended = (task for task in array.tasks[1:] if task.started_at is not None and task.ended_at is not None)
    ran = next((job for job in (client.job(task.id) for task in ended) if job.provenance is not None), first)
    return replace(first, provenance=ran.provenance, image=ran.image)


def export_array(tasks: Tasks, folder: Path) -> ExportResult:
    """Write an array to ``folder``, which is new or empty. All of it or nothing.

    :raises ValidationError: the folder is not empty.
    :raises ResourceNotFoundError: the tasks' folder of code was deleted.
    :raises SmxError: the disk refuses.
    """
    return write_folder(folder, lambda made: _ArrayExport(tasks, made).write())


def _common_job(tasks: Tasks) -> Job:
    """Return the common part of all tasks as a job with the array's name."""
    spec = tasks.first.spec
    own = {name for point in tasks.points() for name in point}
    hyperparameters = {name: text for name, text in spec.hyperparameters.items() if name not in own}
    send = None if tasks.sent else spec.send
    return replace(
        tasks.first, name=tasks.array.name, spec=replace(spec, hyperparameters=hyperparameters, send=send, array=None)
    )


class _ArrayExport(Export):
    """The files of an array's export."""

    def __init__(self, tasks: Tasks, folder: Path) -> None:
        super().__init__(redact_job(_common_job(tasks)), folder)
        self._example_job = redact_job(tasks.first)
        self._tasks = tasks
        self._task_variables_file = ""
        """In the folder of code: the variables that a task has of its own."""
        self._plan = tuning_job(self._job.spec, tasks.points(), tasks.array.max_concurrent)

    def _variables(self, script: str) -> str:
        started = super()._variables(script)
        if not self._tasks.sent or started == script:
            return started
        try:
            own = [read_pickles(Path(sent.path)) for sent in self._tasks.sent]
        except FileNotFoundError:
            self._notes.append(
                "Each task had its own variables. They were deleted, and the script does not run without them."
            )
            return script
        folder = self._folder / _FOLDER
        folder.mkdir()
        for index, packed in zip(self._tasks.indices(), own, strict=True):
            (folder / f"{index}.pkl").write_bytes(pickle.dumps(packed))
        self._task_variables_file = self._unused_name(TASK_VARIABLES)
        (self._code / self._task_variables_file).write_bytes(pickle.dumps(own[0]))
        self._loader(started, script, self._variables_file, self._task_variables_file)
        self._notes.append(
            f"Those of each task are in `{_FOLDER}`, pickles, too; "
            f"`code/{self._task_variables_file}` has those of the first, and "
            f"`{PROGRAM}` puts those of each task in its place."
        )
        return started

    def _write_job_json(self) -> None:
        left_out = {"status", "files", "variables_received"}
        said = {name: value for name, value in export_summary(self._job).items() if name not in left_out}
        rows = self._tasks.array.tasks
        tasks = [{"name": task.name, "status": task.status.value, "metrics": task.metrics} for task in rows]
        self._json("job.json", {**said, "tasks": tasks})
        self._json(TASKS, list(map(self._task, self._tasks.indices(), rows, self._tasks.points())))

    def _task(self, index: int, task: JobSummary, point: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = {"index": index, "name": task.name, "hyperparameters": decode_hyperparameters(point)}
        if self._job.spec.kind == "process":
            found["arguments"] = script_arguments(self._spec_at(point))
        return found | ({"variables": f"{_FOLDER}/{index}.pkl"} if self._task_variables_file else {})

    def _spec_at(self, point: dict[str, str]) -> JobSpec:
        """Return the spec of one task, without its variables."""
        return replace(self._job.spec, hyperparameters=self._job.spec.hyperparameters | point)

    def _api_notes(self) -> dict[str, None]:
        """Return notes on what SageMaker would refuse of any task, each once."""
        specs = map(self._spec_at, self._tasks.points())
        return dict.fromkeys(sentence for spec in specs for sentence in api_limit_notes(spec))

    def _write_programs(self, script: str, *, alone: bool, requirements: bool) -> None:
        plan = self._plan
        text = (
            tuning_program(self._job, plan, script, requirements=requirements)
            if isinstance(plan, TuningJob)
            else program_for_each(
                self._job, script, alone=alone, requirements=requirements, own=self._task_variables_file
            )
        )
        self._text(PROGRAM, text)

    def _readme(self, by_hand: str) -> str:
        array, plan = self._tasks.array, self._plan
        kind = "processing" if array.kind == "process" else "training"
        when = format_moment(array.created_at)
        ran = (
            f"`{array.name}` is an array of {array.size} {kind} jobs ({array.title}) of {when}; {format_counts(array)}"
        )
        files = file_descriptions(self._job) | {
            "hyperparameters.json": "the hyperparameters that all tasks have",
            TASKS: "the differences between the tasks",
            "job.json": "inputs, outputs, environment and hosts, and how each task ended",
        }
        if isinstance(plan, TuningJob):
            files[PROGRAM] = "the sweep as a tuning job of Amazon SageMaker: set the names at its top, then run it"
            there = [_GRID.format(jobs=plan.max_jobs, metric=plan.metric)]
        else:
            files[PROGRAM] = "one job on Amazon SageMaker for each task: set three names at its top, then run it"
            there = [f"On SageMaker it is not a tuning job. {plan}", _PER_TASK_NOTE]
        if is_sdk3_job(self._job):
            files[model_trainer.NAME] = "its first task by SageMaker's Python SDK 3, with its drivers"
        by_itself = dict.fromkeys([*list(files)[:3], TASKS, *files])
        return readme(
            self._job,
            ran,
            {name: files[name] for name in by_itself},
            by_hand,
            self._sections([*there, *self._api_notes()]),
        )


_GRID = (
    "On SageMaker it is a tuning job of the strategy Grid, which tries each of the {jobs} combinations once. "
    "Its jobs are ranked by `{metric}`. No job is stopped early."
)
_PER_TASK_NOTE = (
    "The program submits all jobs at once. Your quotas limit how many run; SageMaker refuses the others. "
    f"It reports the refused one; `python {PROGRAM} INDEX` continues there."
)
