"""Declare the options about code, values and packages; see :mod:`jupyter_smx.model.options.table`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from jupyter_smx.model.options.option import Option, SageMakerNames

Requirements = str | Path | Sequence[str]
Command = str | Sequence[str]
Variables = Mapping[str, Any] | Sequence[str]


class CodeOptions(TypedDict, total=False):
    """Code, values and packages of the job."""

    hyperparameters: Annotated[
        Mapping[str, Any] | None,
        Option(
            spellings=("-p", "--hp"),
            metavar="NAME=VALUE",
            example="epochs=3",
            help="hyperparameter, also passed to the script as an argument; {expr} takes the value of a notebook "
            "variable",
            keyword_help="hyperparameters by name, sent as JSON: text stays text, as ``'1.10'`` or ``'true'``",
            keyword_example="{'epochs': 3}",
            repeat=True,
            field="hyperparameters",
            target="host",
            sagemaker=SageMakerNames(
                training_api="HyperParameters", estimator="hyperparameters", trainer="hyperparameters"
            ),
        ),
    ]
    environment: Annotated[
        Mapping[str, Any] | None,
        Option(
            spellings=("--env",),
            metavar="NAME=VALUE",
            example="OMP_NUM_THREADS=2",
            help="environment variable of the job",
            keyword_help="environment variables of the job by name",
            keyword_example="{'OMP_NUM_THREADS': 2}",
            repeat=True,
            field="environment",
            target="host",
            sagemaker=SageMakerNames(
                training_api="Environment",
                processing_api="Environment",
                estimator="environment",
                processor="env",
                trainer="environment",
            ),
        ),
    ]
    python: Annotated[
        str | Path | None,
        Option(
            spellings=("--python",),
            metavar="PATH|conda:NAME|uv:REQUIREMENTS|remote:PATH|NAME",
            example="conda:torch",
            help="Python of the job: an interpreter, the folder of a virtual environment, a conda environment, or an "
            "environment made of these requirements alone (a file, or names with commas); on another machine "
            "remote:PATH, or an environment of the engine by its name; with --image always the image's own",
            keyword_help="Python of the job: an interpreter, the folder of a virtual environment, ``conda:NAME``, or "
            "``uv:REQUIREMENTS`` for an environment of these requirements alone; on another machine ``remote:PATH``, "
            "or an environment of the engine by its name; with an image always the image's own",
            completion="interpreter",
            keyword_example="'conda:torch'",
            default="",
            default_text="the Python of the kernel",
            field="python",
            target="host",
            configurable=True,
        ),
    ]
    requirements: Annotated[
        Requirements | None,
        Option(
            spellings=("--requirements",),
            metavar="FILE|none",
            example="requirements.txt",
            help="packages to install on top of the job's Python, in an environment that later jobs reuse, or in an "
            "image for this job alone; none installs nothing",
            keyword_help="a requirements file, or requirements one by one, to install on top of ``python``'s own "
            "packages, in an environment that later jobs reuse; with an image its pip installs them for this job "
            "alone; ``'none'`` installs nothing",
            keyword_example="['einops', 'pandas>=2']",
            default="",
            default_text="requirements.txt in the source folder",
            field="requirements",
            target="host",
            configurable=True,
            sagemaker=SageMakerNames(trainer="source_code:SourceCode.requirements"),
        ),
    ]
    source_dir: Annotated[
        str | Path | None,
        Option(
            spellings=("--source-dir",),
            metavar="DIR|ARCHIVE|URL",
            example="src",
            help="folder of code to put beside the script in the job; files that its .gitignore excludes stay behind, "
            "see --source-ignore; or a .tar.gz archive with the code, or the URL of a folder or an archive, as "
            "s3://BUCKET/code.tar.gz",
            keyword_help="folder of code to put beside the script in the job; files that its .gitignore excludes stay "
            "behind, see ``source_ignore``; or a ``.tar.gz`` archive with the code, or the URL of a folder or of an "
            "archive",
            keyword_example="'src'",
            default="",
            field="source_dir",
            target="host",
            sagemaker=SageMakerNames(
                estimator="source_dir", processor="source_dir", trainer="source_code:SourceCode.source_dir"
            ),
        ),
    ]
    source_ignore: Annotated[
        str | None,
        Option(
            spellings=("--source-ignore",),
            value="choice",
            metavar="gitignore|none",
            example="none",
            help="files of --source-dir that stay behind: gitignore are those that a .gitignore excludes, caches, "
            "version control and virtual environments; none sends all files, as SageMaker's SDK does",
            keyword_help="files of ``source_dir`` that stay behind: ``'gitignore'`` are those that a ``.gitignore`` "
            "excludes, caches, version control and virtual environments; ``'none'`` sends all files, as SageMaker's "
            "SDK does",
            keyword_example="'none'",
            choices=("gitignore", "none"),
            field="source_ignore",
            label="source ignore",
            configurable=True,
        ),
    ]

    dependencies: Annotated[
        Sequence[str | Path] | None,
        Option(
            spellings=("--dependency",),
            metavar="PATH",
            example="../common",
            help="folder or file to put beside the script in the job, under its own name; a requirements.txt is "
            "installed",
            keyword_help="folders and files to put beside the script in the job, each under its own name; a "
            "``requirements.txt`` is installed",
            keyword_example="['../common']",
            repeat=True,
            default=(),
            target="host",
            sagemaker=SageMakerNames(estimator="dependencies", processor="dependencies"),
        ),
    ]


class ScriptOptions(TypedDict, total=False):
    """Options of a script and a notebook that a call of a function does not have."""

    entry_point: Annotated[
        str | Path | None,
        Option(
            spellings=("--entry-point",),
            metavar="FILE",
            example="train.py",
            help="file to run instead of the cell, in --source-dir if that is given: a Python script, a shell script "
            "(.sh) or another program; a folder with a setup.py is installed, and the file run as a module of it",
            keyword_help="file to run instead of ``code``, in ``source_dir`` if that is given: a Python script, a "
            "shell script (``.sh``) or another program; a folder with a ``setup.py`` is installed, and the file run "
            "as a module of it",
            keyword_example="'train.py'",
            default="",
            field="entry_point",
            target="host",
            sagemaker=SageMakerNames(
                estimator="entry_point", processor="code", trainer="source_code:SourceCode.entry_script"
            ),
        ),
    ]
    command: Annotated[
        Command | None,
        Option(
            spellings=("--command",),
            metavar="PROGRAM",
            example="Rscript",
            help="program with its words that runs the entry point, as 'Rscript --vanilla'; without an entry point it "
            "is the whole command of the job, as 'python -m package', and gets no hyperparameters as arguments",
            keyword_help="program with its words that runs ``entry_point``, as text or as a list; without an entry "
            "point it is the whole command of the job, and gets no hyperparameters as arguments",
            keyword_example="['Rscript']",
            default=(),
            field="command",
            target="host",
            sagemaker=SageMakerNames(
                estimator="container_entry_point", processor="command", trainer="source_code:SourceCode.command"
            ),
        ),
    ]
    distribution: Annotated[
        str | Mapping[str, Any] | None,
        Option(
            spellings=("-d", "--distribution"),
            metavar="torchrun|mpi[,processes=N][,groups=GROUP]|parameter_server|multi_worker_mirrored_strategy"
            "[,groups=GROUP]|pyspark",
            example="torchrun,processes=2",
            help="run the script in N processes on each host, as torchrun or mpirun start them (one per GPU, or one, "
            "if N is missing); with a strategy of TensorFlow TF_CONFIG lists the hosts; with pyspark a processing "
            "script runs once, on a Spark cluster of all hosts; also the dictionary of SageMaker's "
            "estimators, as JSON or by {expr}",
            keyword_help="``torchrun`` or ``mpi``, with ``,processes=N`` for each host and ``,groups=NAME`` if there "
            "are several groups: run the script in several processes. ``parameter_server`` or "
            "``multi_worker_mirrored_strategy``: ``TF_CONFIG`` lists the hosts for TensorFlow. ``pyspark``: run a "
            "processing script once, on a Spark cluster of all hosts. Also the dictionary of SageMaker's estimators: "
            "``{'mpi': {'enabled': True, 'processes_per_host': 2}}``",
            keyword_example="'torchrun,processes=2'",
            default="",
            field="distribution",
            target="host",
        ),
    ]
    send: Annotated[
        Variables | None,
        Option(
            spellings=("--send",),
            metavar="A,B",
            example="cfg,table",
            help="notebook variables to send to the job",
            keyword_help="variables by name, or names of notebook variables, to send to the job",
            keyword_example="{'cfg': cfg}",
            repeat=True,
            comma=True,
            default=(),
            field="send",
            target="host",
        ),
    ]
    receive: Annotated[
        Sequence[str] | None,
        Option(
            spellings=("--receive",),
            metavar="C,D",
            example="model,scores",
            help="variables of the job to bring back to the notebook",
            keyword_help="names of the job's variables, which ``job.result()`` returns",
            keyword_example="['model', 'scores']",
            repeat=True,
            comma=True,
            default=(),
            field="receive",
            target="host",
        ),
    ]
    sweep: Annotated[
        bool | None,
        Option(
            spellings=("--sweep",),
            help="run one task for each point of the grid of all hyperparameters that are lists: --hp lr=[0.1,0.01]",
            keyword_help="run one task for each point of the grid of all hyperparameters that are lists, and return "
            "the handle of their array: a :class:`JobArray`",
            keyword_example="True",
            default=False,
            target="client",
        ),
    ]
    max_concurrent: Annotated[
        int | None,
        Option(
            spellings=("--max-concurrent",),
            metavar="N",
            example="4",
            help="with --sweep: number of tasks that may run at a time",
            keyword_help="with ``sweep``: number of tasks that may run at a time",
            keyword_example="4",
            default_text="as many as there is capacity for",
            minimum=1,
            counts="of tasks",
        ),
    ]
    wait: Annotated[
        bool | None,
        Option(
            spellings=("--wait",),
            help="wait for the job, show its log, and raise its failure",
            keyword_help="print the log, and return when the job has completed",
            keyword_example="True",
            default=False,
            target="client",
        ),
    ]
