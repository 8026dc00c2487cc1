"""Declare the options about hosts and data; see :mod:`jupyter_smx.model.options.table`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from jupyter_smx.model.options.option import Option, SageMakerNames
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup

Inputs = Mapping[str, str | Path | Channel]
Outputs = Mapping[str, str | Path | Output] | Sequence[str | Path | Output]


class HostOptions(TypedDict, total=False):
    """Which hosts run the job, and how long they stay warm."""

    instance_type: Annotated[
        str | None,
        Option(
            spellings=("-t", "--instance-type"),
            metavar="TYPE",
            example="ml.m5.xlarge",
            help="instance type of the hosts",
            completion="instance_type",
            keyword_example="'ml.m5.xlarge'",
            default_text="local",
            target="engine",
            configurable=True,
            sagemaker=SageMakerNames(
                training_api="ResourceConfig.InstanceType",
                processing_api="ProcessingResources.ClusterConfig.InstanceType",
                estimator="instance_type",
                processor="instance_type",
                trainer="compute:Compute.instance_type",
            ),
        ),
    ]
    instance_count: Annotated[
        int | None,
        Option(
            spellings=("-n", "--instance-count"),
            metavar="N",
            example="1",
            help="number of hosts",
            keyword_example="2",
            default_text="1",
            minimum=1,
            counts="of hosts",
            target="engine",
            sagemaker=SageMakerNames(
                training_api="ResourceConfig.InstanceCount",
                processing_api="ProcessingResources.ClusterConfig.InstanceCount",
                estimator="instance_count",
                processor="instance_count",
                trainer="compute:Compute.instance_count",
            ),
        ),
    ]
    instance_groups: Annotated[
        Sequence[InstanceGroup] | None,
        Option(
            spellings=("-g", "--group"),
            metavar="NAME:TYPE:COUNT[,until=LEADER]",
            example="data:ml.c5.xlarge:2",
            help="instance group, instead of -t and -n; with until it is a helper: its hosts get SIGTERM when those "
            "of LEADER have ended",
            keyword_help="instance groups, instead of ``instance_type`` and ``instance_count``",
            keyword_example="[smx.InstanceGroup(name='data', instance_type='ml.c5.xlarge', instance_count=2)]",
            repeat=True,
            default=(),
            field="instance_groups",
            target="engine",
            sagemaker=SageMakerNames(
                training_api="ResourceConfig.InstanceGroups",
                estimator="instance_groups",
                trainer="compute:Compute.instance_groups",
            ),
        ),
    ]
    engine: Annotated[
        str | None,
        Option(
            spellings=("-e", "--engine"),
            value="text",
            metavar="NAME[:MACHINE]",
            example="docker",
            help="engine that provides the hosts: local, docker, ssh:MACHINE for another machine, or another installed "
            "one",
            completion="engine",
            keyword_example="'local'",
            field="engine",
            target="engine",
            label="engine",
            configurable=True,
        ),
    ]
    engine_options: Annotated[
        Mapping[str, Any] | None,
        Option(
            spellings=("--engine-option",),
            metavar="NAME=VALUE",
            example="partition=gpu",
            help="option of the engine for the hosts of this job, on an engine that has options, as slurm; it replaces "
            "that of the instance type and of the configuration",
            keyword_help="options of the engine for the hosts of this job by name, on an engine that has options, as "
            "slurm; they replace those of the instance type and of the configuration",
            keyword_example="{'partition': 'gpu'}",
            repeat=True,
            field="engine_options",
            target="engine",
        ),
    ]
    image: Annotated[
        str | None,
        Option(
            spellings=("--image",),
            value="text",
            metavar="IMAGE",
            example="python:3.11-slim",
            help="image of the hosts, by name or digest, on an engine that has images, as docker; the job runs the "
            "image's Python with the image's packages",
            keyword_example="'python:3.11-slim'",
            field="image",
            target="engine",
            configurable=True,
            sagemaker=SageMakerNames(
                training_api="AlgorithmSpecification.TrainingImage",
                processing_api="AppSpecification.ImageUri",
                estimator="image_uri",
                processor="image_uri",
                trainer="training_image",
            ),
        ),
    ]
    user: Annotated[
        str | None,
        Option(
            spellings=("--user",),
            value="choice",
            metavar="image|default",
            example="image",
            help="user of the job in its container: the USER of the image, or the engine's own",
            keyword_example="'image'",
            default_text="as the engine is configured",
            choices=("image", "default"),
            field="image_user",
            target="engine",
            label="user",
        ),
    ]
    entrypoint: Annotated[
        str | None,
        Option(
            spellings=("--entrypoint",),
            value="choice",
            metavar="image|default",
            example="image",
            help="with image, the hosts start through the ENTRYPOINT of the image, so that the job has the variables "
            "that it sets",
            keyword_example="'image'",
            default_text="as the engine is configured",
            choices=("image", "default"),
            field="image_entrypoint",
            target="engine",
            label="entry point of the image",
        ),
    ]
    workdir: Annotated[
        str | None,
        Option(
            spellings=("--workdir",),
            value="choice",
            metavar="image|default",
            example="image",
            help="folder in which the job starts: the WORKDIR of the image, or SageMaker's",
            keyword_example="'image'",
            default_text="as the engine is configured",
            choices=("image", "default"),
            field="image_workdir",
            target="engine",
            label="working folder",
        ),
    ]
    keep_alive: Annotated[
        int | str | None,
        Option(
            spellings=("-k", "--keep-alive"),
            value="duration",
            metavar="DURATION",
            example="10m",
            help="how long to keep the hosts warm after the job: 600, 10m, 1h; 0 ends them and the pool they come from",
            keyword_help="how long to keep the hosts warm after the job: seconds, or text like ``10m``; 0 ends them "
            "and the pool they come from",
            keyword_example="'10m'",
            default_text="as the pool that it takes",
            field="keep_alive",
            target="host",
            label="kept warm for",
            configurable=True,
            sagemaker=SageMakerNames(
                training_api="ResourceConfig.KeepAlivePeriodInSeconds",
                estimator="keep_alive_period_in_seconds",
                trainer="compute:Compute.keep_alive_period_in_seconds",
            ),
        ),
    ]
    network_isolation: Annotated[
        bool | None,
        Option(
            spellings=("--network-isolation",),
            value="flag",
            help="allow the hosts to reach only each other, on an engine that supports it",
            keyword_example="True",
            field="network_isolation",
            target="engine",
            label="network isolation",
            sagemaker=SageMakerNames(
                training_api="EnableNetworkIsolation",
                processing_api="NetworkConfig.EnableNetworkIsolation",
                estimator="enable_network_isolation",
                processor="network_config",
                trainer="networking:Networking.enable_network_isolation",
            ),
        ),
    ]


class DataOptions(TypedDict, total=False):
    """Inputs and outputs of the job."""

    inputs: Annotated[
        Inputs | None,
        Option(
            spellings=("-i", "--input"),
            metavar=""
            ""
            "CHANNEL=SOURCE[,mode=File|FastFile][,distribution=replicated|sharded][,groups=a+b][,type=manifest][,content_type=TYPE][,path=FOLDER]",
            example="train=data/train",
            help="input channel from a path, a glob or a URL; path is the folder where a processing job finds it",
            keyword_help="sources by channel: a path, a glob or a URL, where text may have properties as on a line "
            "(``'data,distribution=sharded'``), or a :class:`Channel`",
            keyword_example="{'train': 'data/train'}",
            repeat=True,
            field="channels",
            target="host",
            sagemaker=SageMakerNames(
                training_api="InputDataConfig", processing_api="ProcessingInputs", processor="inputs"
            ),
        ),
    ]
    outputs: Annotated[
        Outputs | None,
        Option(
            spellings=("-o", "--output"),
            metavar="[NAME=]PATH[:DESTINATION][,mode=EndOfJob|Continuous]",
            example="report=/opt/ml/processing/output/report",
            help="output of a processing job: its folder in the job and its destination, copied at the end or while "
            "the job runs; without NAME it is output-1, output-2, ... by its place; for %%train NAME is model or data, "
            "and PATH is the folder that its archive is copied to",
            keyword_help="destinations by output: of a training job the folders that the archives ``model`` and "
            "``data`` are copied to, of a processing job ``PATH[:DESTINATION]`` by any name, or a list of them, which "
            "are ``output-1``, ``output-2`` and so on",
            keyword_example="{'model': 'models'}",
            repeat=True,
            field="outputs",
            target="host",
            sagemaker=SageMakerNames(
                training_api="OutputDataConfig", processing_api="ProcessingOutputConfig.Outputs", processor="outputs"
            ),
        ),
    ]
