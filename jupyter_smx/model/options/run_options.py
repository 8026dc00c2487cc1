"""Declare the options about a job's run, limits and order; see :mod:`jupyter_smx.model.options.table`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypedDict, runtime_checkable

from jupyter_smx.model.options.option import Option, SageMakerNames


@runtime_checkable
class HasJobId(Protocol):
    """A handle of a job or an array: anything that has its id."""

    @property
    def id(self) -> str:
        """Return the id."""


After = HasJobId | str | Iterable["HasJobId | str"]

_TRAINING_ONLY = "As on SageMaker, spot, its limit for waiting and checkpoints are for training jobs only."


class RunOptions(TypedDict, total=False):
    """The job's name, its limits, and its order among others."""

    name: Annotated[
        str | None,
        Option(
            spellings=("--name",),
            metavar="NAME",
            example="train-digits",
            help="name of the job; a short ID suffix is added",
            keyword_example="'train-digits'",
            default="",
            field="base_name",
            sagemaker=SageMakerNames(
                training_api="TrainingJobName",
                processing_api="ProcessingJobName",
                estimator="base_job_name",
                processor="base_job_name",
                trainer="base_job_name",
            ),
        ),
    ]
    job_name: Annotated[
        str | None,
        Option(
            spellings=("--job-name",),
            value="text",
            metavar="NAME",
            example="train-digits-2026-05-01",
            help="exact name of the job, without a suffix; refused if a job has it. {job_name} in hyperparameters, "
            "variables, arguments, outputs and --checkpoint is the name of the job, exact or not",
            keyword_help="exact name of the job, without a suffix; refused if a job has it. ``{job_name}`` in texts of "
            "``hyperparameters``, ``environment``, ``arguments``, ``outputs`` and ``checkpoint`` is the name of the "
            "job, exact or not",
            keyword_example="'train-digits-2026-05-01'",
            field="job_name",
        ),
    ]
    role: Annotated[
        str | None,
        Option(
            spellings=("--role",),
            value="text",
            metavar="ROLE",
            example="research",
            help="role that the job runs under; a warm pool is reused by jobs of the same role only",
            keyword_example="'research'",
            field="role",
            target="host",
            label="role",
            configurable=True,
            sagemaker=SageMakerNames(
                training_api="RoleArn", processing_api="RoleArn", estimator="role", processor="role", trainer="role"
            ),
        ),
    ]
    max_run: Annotated[
        int | str | None,
        Option(
            spellings=("--max-run",),
            value="duration",
            metavar="DURATION",
            example="2h",
            help="stop the job after this time",
            keyword_help="stop the job after this time: seconds, or text like ``2h``",
            keyword_example="'2h'",
            field="max_run",
            target="host",
            label="maximum run time",
            configurable=True,
            sagemaker=SageMakerNames(
                training_api="StoppingCondition.MaxRuntimeInSeconds",
                processing_api="StoppingCondition.MaxRuntimeInSeconds",
                estimator="max_run",
                processor="max_runtime_in_seconds",
                trainer="stopping_condition:StoppingCondition.max_runtime_in_seconds",
            ),
        ),
    ]
    metrics: Annotated[
        Mapping[str, str] | None,
        Option(
            spellings=("--metric",),
            metavar="NAME=REGEX",
            example="loss=loss=([0-9.]+)",
            help="metric whose value is the first group of this regular expression in a line of the log; the output "
            "of tqdm, Keras, Lightning, Hugging Face, XGBoost and LightGBM needs none",
            keyword_help="regular expressions by metric; the first group in a line of the log is the value, which "
            "``job.metrics`` gives. The output of tqdm, Keras, Lightning and the like needs none",
            keyword_example="{'loss': 'loss=([0-9.]+)'}",
            repeat=True,
            field="metrics",
            sagemaker=SageMakerNames(
                training_api="AlgorithmSpecification.MetricDefinitions", estimator="metric_definitions"
            ),
        ),
    ]
    retries: Annotated[
        int | None,
        Option(
            spellings=("--retries",),
            value="number",
            metavar="N",
            example="3",
            help="run the job again, up to N times (30 at most), after an infrastructure failure, as a lost host; "
            "a failure of the code is never retried, and --max-run covers all attempts",
            keyword_help="how often to run the job again after an infrastructure failure, as a lost host: 30 at most; "
            "a failure of the code is never retried, and ``max_run`` covers all attempts",
            keyword_example="3",
            maximum=30,
            counts="of retries",
            field="retries",
            label="retries",
            configurable=True,
            sagemaker=SageMakerNames(training_api="RetryStrategy.MaximumRetryAttempts", estimator="max_retry_attempts"),
        ),
    ]
    after: Annotated[
        After | None,
        Option(
            spellings=("--after",),
            metavar="JOB,...",
            example="prepare",
            help="start when these jobs have completed: handles, names or ids; if one does not complete, this job "
            "does not run",
            keyword_example="[prepare]",
            repeat=True,
            comma=True,
            default=(),
            field="after",
        ),
    ]


class TrainOnlyOptions(TypedDict, total=False):
    """Options that SageMaker has for training jobs and not for processing jobs."""

    contract: Annotated[
        str | None,
        Option(
            spellings=("--contract",),
            value="choice",
            metavar="v2|v3",
            example="v3",
            help="what a training script sees: v2 is the environment of the toolkit in SageMaker's images, v3 that of "
            "the drivers of SageMaker's Python SDK 3",
            keyword_example="'v3'",
            choices=("v2", "v3"),
            field="contract",
            target="host",
            kind_rule="A processing script sees the same in both.",
            label="contract",
            configurable=True,
        ),
    ]
    spot: Annotated[
        bool | None,
        Option(
            spellings=("--spot",),
            value="flag",
            help="managed spot: the engine may take the hosts away at any time; the job then restarts from its "
            "checkpoints",
            keyword_example="True",
            field="spot",
            kind_rule=_TRAINING_ONLY,
            label="managed spot",
            sagemaker=SageMakerNames(
                training_api="EnableManagedSpotTraining",
                estimator="use_spot_instances",
                trainer="compute:Compute.enable_managed_spot_training",
            ),
        ),
    ]
    max_wait: Annotated[
        int | str | None,
        Option(
            spellings=("--max-wait",),
            value="duration",
            metavar="DURATION",
            example="4h",
            help="with --spot: stop the job when waiting and running take longer than this; at least --max-run",
            keyword_help="with ``spot``: stop the job when waiting and all attempts together take longer than this: "
            "seconds, or text like ``4h``; at least ``max_run``",
            keyword_example="'4h'",
            field="max_wait",
            kind_rule=_TRAINING_ONLY,
            label="maximum wait time",
            configurable=True,
            sagemaker=SageMakerNames(
                training_api="StoppingCondition.MaxWaitTimeInSeconds",
                estimator="max_wait",
                trainer="stopping_condition:StoppingCondition.max_wait_time_in_seconds",
            ),
        ),
    ]
    checkpoint: Annotated[
        str | Path | None,
        Option(
            spellings=("--checkpoint",),
            value="location",
            metavar="DIR|URL",
            example="checkpoints",
            help="folder, or URL as s3://BUCKET/FOLDER, from which /opt/ml/checkpoints is restored at each start and "
            "to which it is copied while the job runs",
            keyword_help="folder, or URL as ``s3://BUCKET/FOLDER``, from which ``/opt/ml/checkpoints`` is restored at "
            "each start and to which it is copied while the job runs",
            keyword_example="'checkpoints'",
            field="checkpoint",
            target="host",
            kind_rule=_TRAINING_ONLY,
            label="checkpoints",
            sagemaker=SageMakerNames(
                training_api="CheckpointConfig.S3Uri",
                estimator="checkpoint_s3_uri",
                trainer="checkpoint_config:CheckpointConfig.s3_uri",
            ),
        ),
    ]
    checkpoint_local_path: Annotated[
        str | None,
        Option(
            spellings=("--checkpoint-local-path",),
            value="text",
            metavar="FOLDER",
            example="/opt/ml/checkpoints/last",
            help="with --checkpoint: folder of the checkpoints in the job, below /opt/ml",
            keyword_help="with ``checkpoint``: folder of the checkpoints in the job, below ``/opt/ml``",
            keyword_example="'/opt/ml/checkpoints/last'",
            default_text="/opt/ml/checkpoints",
            field="checkpoint_local_path",
            target="host",
            kind_rule=_TRAINING_ONLY,
            label="checkpoints in the job",
            sagemaker=SageMakerNames(
                training_api="CheckpointConfig.LocalPath",
                estimator="checkpoint_local_path",
                trainer="checkpoint_config:CheckpointConfig.local_path",
            ),
        ),
    ]
    disable_output_compression: Annotated[
        bool | None,
        Option(
            spellings=("--disable-output-compression",),
            value="flag",
            help="collect the files of /opt/ml/model as they are, and not as model.tar.gz",
            keyword_help="collect the files of ``/opt/ml/model`` as they are, and not as ``model.tar.gz``",
            keyword_example="True",
            field="disable_output_compression",
            target="host",
            kind_rule="Only a training job has a model; outputs of a processing job are never compressed.",
            label="uncompressed model",
            sagemaker=SageMakerNames(
                training_api="OutputDataConfig.CompressionType",
                estimator="disable_output_compression",
                trainer="output_data_config:OutputDataConfig.compression_type",
                flag_words=("GZIP", "NONE"),
            ),
        ),
    ]


class ProcessOnlyOptions(TypedDict, total=False):
    """Options that SageMaker has for processing jobs and not for training jobs."""

    arguments: Annotated[
        Sequence[str] | None,
        Option(
            spellings=("--arg",),
            metavar="WORD",
            example="0.2",
            help="script argument, passed unchanged, after those of --hp; write --arg=--split if it begins with a "
            "hyphen",
            keyword_help="script arguments, passed unchanged, after those of ``hyperparameters``",
            keyword_example="['--split', '0.2']",
            repeat=True,
            default=(),
            field="arguments",
            target="host",
            kind_rule="SageMaker passes hyperparameters to a training script, and arguments to a processing script.",
            sagemaker=SageMakerNames(processing_api="AppSpecification.ContainerArguments", processor="arguments"),
        ),
    ]


class LineOnlyOptions(TypedDict, total=False):
    """Options of a line only; Python has return values and functions for them."""

    handle: Annotated[
        str,
        Option(
            spellings=("--as",),
            metavar="NAME",
            example="job",
            help="notebook variable for the job handle",
            target="client",
        ),
    ]
    plan: Annotated[
        bool, Option(spellings=("--plan",), help="show what would happen and why, and run nothing", target="client")
    ]
    help: Annotated[bool, Option(spellings=("-h", "--help"), help="show this page", target="client")]
