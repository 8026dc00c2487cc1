"""Export an array as a program for SageMaker: a tuning job, or one job for each task. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.kernel.sagemaker.estimator_call import (
    HYPERPARAMETERS,
    MAIN,
    PLACEHOLDER_INSTANCE_TYPE,
    UPLOAD,
    channels_of,
    checkpoint_uri,
    estimator_of,
    format_call,
    has_uploads,
    head_of,
    is_local,
    join_program,
    metrics_of,
    processing_imports,
    processor_of,
    quote,
    run_of,
    training_imports,
    used_modules,
)

if TYPE_CHECKING:
    from jupyter_smx.kernel.sagemaker.estimator_call import Arguments
    from jupyter_smx.kernel.sagemaker.tuning import TuningJob
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec

TASKS = "tasks.json"
TASK_VARIABLES = "task.pkl"
"""In ``code/``, if that is free there: the variables of the task whose turn it is."""

_INDEX = "{task['index']}/"
"""In a place where all tasks would put the same, as they have no names of their own yet."""

_OBJECTIVE = 'OBJECTIVE_TYPE = "{objective}"  # or "{other}": which value of {metric} is the better one\n'

_START = """

def start(session: Session, task: dict) -> None:
    \"\"\"Ask for the job of one task, and wait for nothing.\"\"\"
{body}
"""

_EACH = f"""\
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    for task in json.loads((HERE / "{TASKS}").read_text(encoding="utf-8")):
        if task["index"] < first:
            continue
        try:
            start(session, task)
        except Exception:
            print(f"Task {{task['index']}} was refused. Go on with: python {{Path(__file__).name}} {{task['index']}}")
            raise"""


def tuning_program(job: Job, tuner: TuningJob, script: str, *, requirements: bool) -> str:
    """Write the program of a tuning job; ``job`` has what all tasks have in common, and the array's name."""
    # A tuning job keeps its hosts from one job to the next by itself.
    spec = replace(job.spec, keep_alive=None)
    classes = [*training_imports(spec), "from sagemaker.tuner import CategoricalParameter, HyperparameterTuner"]
    title = f"The sweep {spec.base_name} as a tuning job of the SageMaker Python SDK."
    head = head_of(job, title, used_modules(spec, alone=True, json=True), sorted(classes))
    other = "Maximize" if tuner.objective == "Minimize" else "Minimize"
    head += _OBJECTIVE.format(objective=tuner.objective, other=other, metric=_comment_text(tuner.metric))
    categories = "".join(
        f"            {quote(name)}: CategoricalParameter({quote(values)}),\n" for name, values in tuner.ranges.items()
    )
    asked: Arguments = [
        ("estimator", "estimator"),
        ("objective_metric_name", quote(tuner.metric)),
        ("objective_type", "OBJECTIVE_TYPE"),
        *metrics_of(spec),
        ("hyperparameter_ranges", f"{{\n{''.join(categories)}        }}"),
        ("strategy", '"Grid"'),
        ("max_jobs", str(tuner.max_jobs)),
        ("max_parallel_jobs", str(tuner.parallel)),
        ("early_stopping_type", '"Off"'),
        ("base_tuning_job_name", quote(tuner.base_name)),
    ]
    estimator = estimator_of(spec, script, requirements=requirements)
    body = [estimator, format_call("tuner = HyperparameterTuner", asked), f"    tuner.fit({channels_of(spec)})"]
    return join_program(spec, head, "\n".join(body))


def program_for_each(job: Job, script: str, *, alone: bool, requirements: bool, own: str) -> str:
    """Write the program that submits one job after the other.

    ``own`` is the file in ``code/`` for the variables of each task, "" if none has variables. An argument of the
    program is the index of the first task to submit.
    """
    spec = job.spec
    training = spec.kind == "train"
    plain = {**used_modules(spec, alone=alone, json=True)}
    plain |= {"shutil": plain["shutil"] or bool(own), "sys": True}
    classes = training_imports(spec) if training else processing_imports(spec, alone=alone)
    if has_uploads(spec):
        plain = {"functools": True, **plain}
    title = f"The jobs of the array {spec.base_name} as calls of the SageMaker Python SDK."
    head = head_of(job, title, dict(sorted(plain.items())), classes)
    body = _training(spec, script, requirements=requirements) if training else _processing(spec, script, alone=alone)
    if own:
        body = f'    shutil.copyfile(HERE / task["variables"], Path(CODE, {quote(own)}))\n{body}'
    if is_local(spec):
        head += f'INSTANCE_TYPE = "{PLACEHOLDER_INSTANCE_TYPE}"  # the jobs ran on the machine of their notebook\n'
    # The same inputs for all: they are copied there once.
    upload = UPLOAD.replace("def uploaded", "@functools.cache\ndef uploaded") if has_uploads(spec) else ""
    return head + upload + _START.format(body=body).rstrip("\n") + "\n" + MAIN.format(body=_EACH)


def _training(spec: JobSpec, script: str, *, requirements: bool) -> str:
    both = f'{{\n            **{HYPERPARAMETERS},\n            **task["hyperparameters"],\n        }}'
    # Joined by plus, because the user's path may contain braces.
    kept = f'{checkpoint_uri(spec.checkpoint.rstrip("/"))} + f"/{_INDEX.rstrip("/")}"'
    estimator = estimator_of(spec, script, requirements=requirements, hyperparameters=both, checkpoint=kept)
    channels = channels_of(spec)
    return f"{estimator}\n    estimator.fit({f'{channels}, ' if channels else ''}wait=False)"


def _processing(spec: JobSpec, script: str, *, alone: bool) -> str:
    asked: Arguments = [("arguments", 'task["arguments"] or None'), ("wait", "False"), ("logs", "False")]
    return f"{processor_of(spec, alone=alone)}\n{run_of(spec, script, asked, alone=alone, below=_INDEX)}"


def _comment_text(name: str) -> str:
    return " ".join(name.split())
