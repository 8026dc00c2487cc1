"""What the keywords of ``smx.train`` mean, once for all who read them: its own docstring, and the reference."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., object]")
_WIDTH = 116

KEYWORDS = {
    "code": (
        'source, the path of a script, or a function without arguments, whose value is ``job["value"]``; '
        "nothing where there is an ``entry_point``."
    ),
    "source_dir": "folder of code that lies beside the script in the job; a ``.gitignore`` in it is heeded.",
    "entry_point": (
        "file to run, in ``source_dir`` if that is given: a Python script, a shell script (``.sh``) or another "
        "program. Where ``source_dir`` has a ``setup.py`` it is installed and the file run as a module of it."
    ),
    "contract": (
        "what the script sees: ``v2``, what the toolkit in SageMaker's images shows it, or ``v3``, what the drivers of "
        "SageMaker's Python SDK 3 do."
    ),
    "distribution": (
        "``torchrun`` or ``mpi``, with ``,processes=N`` on each host and ``,groups=NAME`` where there are several "
        "groups: the script runs in several processes, as torchrun or mpirun starts them. ``parameter_server`` or "
        "``multi_worker_mirrored_strategy``: TensorFlow finds the other hosts in ``TF_CONFIG``. Of a processing job "
        "``pyspark``: it runs once, on a Spark cluster of all hosts."
    ),
    "image": (
        "what the hosts are made of, on an engine that has images: a name, or a digest. The job runs the Python that "
        "is in it, with the packages that are in it."
    ),
    "keep_alive": "seconds, or text like ``10m``: how long the hosts stay warm after the job.",
    "max_run": "seconds, or text like ``2h``: when the job is stopped; default one day.",
    "hyperparameters": "values that are no strings become JSON.",
    "inputs": "source by channel: a path, a glob, a URL, or a :class:`Channel`.",
    "outputs": "``model`` and ``data``: the folder that the archive is copied to.",
    "send": "variables by name, or names of notebook variables.",
    "receive": "names of the job's variables, which ``job.result()`` gives.",
    "python": (
        "an interpreter, the folder of a virtual environment, ``conda:NAME``, or ``uv:REQUIREMENTS`` for "
        "an environment of these alone; default the Python that runs here. With an image it is that of the image."
    ),
    "requirements": (
        "a requirements file, or requirements one by one, that are installed on top of ``python``'s own "
        "packages; equal ones share one environment. With an image its pip installs them, for this job alone. Without "
        "it ``requirements.txt`` of ``source_dir`` is installed, as on SageMaker; ``'none'`` says no."
    ),
    "metrics": (
        "regular expressions by the name of their metric; the first group in a line of the log is its "
        "value, which ``job.metrics`` gives. What tqdm, Keras, Lightning and the like print is understood "
        "without one."
    ),
    "retries": (
        "how often it is run again when it failed by our fault, as when its host was lost: 30 at most. "
        "What the code raises and how it exits is never retried; ``max_run`` covers all attempts."
    ),
    "spot": (
        "the hosts may be taken away at any time, by :meth:`Job.interrupt` or by the engine; then the job begins again "
        "on new ones, with its inputs and checkpoints and nothing else."
    ),
    "max_wait": (
        "seconds, or text like ``4h``, with ``spot``: when the job is stopped, waiting and all attempts together; at "
        "least ``max_run``."
    ),
    "checkpoint": (
        "folder, or URL as ``s3://BUCKET/FOLDER``, that ``/opt/ml/checkpoints`` of the job is restored from at each "
        "start, and kept in while it runs."
    ),
    "checkpoint_local_path": (
        "with ``checkpoint``: folder of the job, below ``/opt/ml``, that has them; default ``/opt/ml/checkpoints``."
    ),
    "disable_output_compression": (
        "bring the files of ``/opt/ml/model`` home as they are, and not as ``model.tar.gz``."
    ),
    "network_isolation": ("its hosts reach each other and nothing else; on an engine that can close their network."),
    "after": (
        "jobs that must have completed before this one begins: handles, names or ids. If one of them does "
        "not complete, this one ends without running."
    ),
    "sweep": (
        "every list among the hyperparameters is one side of a grid, and each point of it a task of one "
        "array, whose handle comes back: a :class:`JobArray`."
    ),
    "max_concurrent": "with ``sweep``: how many tasks may run at a time; default as many as there is room for.",
    "wait": "print the log, and come back when the job has completed.",
}


def with_keyword_docs(function: _Function) -> _Function:
    """Put the keywords into a function's docstring, between its first paragraph and what it raises."""
    head, _, tail = (function.__doc__ or "").partition("    :raises")
    rows = (
        textwrap.fill(f":param {name}: {text}", _WIDTH, initial_indent="    ", subsequent_indent="        ")
        for name, text in KEYWORDS.items()
    )
    function.__doc__ = head + "\n".join(rows) + f"\n    :raises{tail}"
    return function
