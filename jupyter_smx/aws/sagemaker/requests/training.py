"""Translate ``CreateTrainingJob``: what SDK 2, boto3 and others send becomes fields of a job request.

Hyperparameters travel unchanged, but for those by which the SDK names the code of a script. The only files that are
looked at are those of the input channels.
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.aws.sagemaker.errors import validation_error
from jupyter_smx.aws.sagemaker.requests import field_rules
from jupyter_smx.aws.sagemaker.requests.channels import PIPE, training_channel
from jupyter_smx.aws.sagemaker.requests.images import (
    ImageChoice,
    built_in_error,
    choose_interpreter,
    find_rule,
    has_own_program,
    is_built_in,
)
from jupyter_smx.aws.sagemaker.requests.instance_types import choose_type, requested_hosts
from jupyter_smx.aws.sagemaker.requests.s3_paths import local_path, read_file, split_uri
from jupyter_smx.aws.sagemaker.requests.translation import Code, TranslatedRequest
from jupyter_smx.model.request_texts import PLACEHOLDER, decode_text
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution, Runner
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.sagemaker.requests.translation import TranslationContext

    Groups = tuple[InstanceGroup, ...]

MEMBERS = frozenset(
    {
        *("AlgorithmSpecification", "CheckpointConfig", "DebugHookConfig", "DebugRuleConfigurations"),
        *("EnableInterContainerTrafficEncryption", "EnableManagedSpotTraining", "EnableNetworkIsolation"),
        *("Environment", "ExperimentConfig", "HyperParameters", "InfraCheckConfig", "InputDataConfig"),
        *("MlflowConfig", "ModelPackageConfig", "OutputDataConfig", "ProfilerConfig", "ProfilerRuleConfigurations"),
        *("RemoteDebugConfig", "ResourceConfig", "RetryStrategy", "RoleArn", "ServerlessJobConfig"),
        *("SessionChainingConfig", "StoppingCondition", "Tags", "TensorBoardOutputConfig", "TrainingJobName"),
        "VpcConfig",
    }
)
"""Members of the request that this version translates."""
DIRECTORY, PROGRAM = "sagemaker_submit_directory", "sagemaker_program"
_OF_THE_SDK = frozenset({DIRECTORY, PROGRAM, "sagemaker_container_log_level", "sagemaker_job_name", "sagemaker_region"})
"""Hyperparameters of SDK 2 that the toolkit of the images keeps from the script."""
_ESTIMATOR = "sagemaker_estimator_"
_CHANNELS = "/opt/ml/input/data/"
_IMAGE_PROGRAM = "train"
"""Program of an image without an entry point and a script; that of an interpreter that stands for the image, too."""
_RUNNERS: dict[str, Runner] = {
    "sagemaker_torch_distributed_enabled": "torchrun",
    "sagemaker_mpi_enabled": "mpi",
    "sagemaker_parameter_server_enabled": "parameter_server",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "multi_worker_mirrored_strategy",
}
"""Hyperparameters by which SDK 2 requests a launcher."""
_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_DISTRIBUTED_GROUPS = "sagemaker_distribution_instance_groups"


def translate_training(request: Mapping[str, Any], here: TranslationContext) -> TranslatedRequest:
    """Translate a request that is valid by the API's shapes.

    :raises AwsError: it asks for what no job here can have, or a channel has no files.
    """
    field_rules.check_refused(request)
    if not request.get("AlgorithmSpecification"):
        raise validation_error("AlgorithmSpecification: it is missing, and it names the image of the job.")
    mode = request["AlgorithmSpecification"].get("TrainingInputMode") or "File"
    channels = tuple(training_channel(each, here.s3_root, mode) for each in request.get("InputDataConfig") or ())
    if mode == PIPE and not channels:
        raise validation_error("AlgorithmSpecification.TrainingInputMode: Pipe is not supported. Use FastFile.")
    code = _code(request, channels, here)
    image = _image(request, code, here)
    groups, notes = _groups(request.get("ResourceConfig") or {}, here)
    keep_alive, shortened = choose_keep_alive(request.get("ResourceConfig") or {}, here.keep_alive_cap)
    parameters = request.get("HyperParameters") or {}
    return TranslatedRequest(
        kind="train",
        name=request["TrainingJobName"],
        fields={**_fields(request, here), "keep_alive": keep_alive},
        code=code,
        groups=groups,
        channels=channels,
        outputs=_outputs(request, here),
        distribution=_distribution(parameters),
        hyperparameters=dict(parameters) if code.command else own_hyperparameters(parameters),
        environment=dict(request.get("Environment") or {}),
        metrics={
            each["Name"]: each["Regex"] for each in request["AlgorithmSpecification"].get("MetricDefinitions") or ()
        },
        python=image.python,
        notes=(
            *filter(None, (image.note,)),
            *notes,
            *shortened,
            *field_rules.notes_of(request),
            *field_rules.unknown_members(request, MEMBERS),
        ),
    )


def own_hyperparameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Leave out the hyperparameters by which the SDK names the code and itself."""
    return {
        name: value for name, value in parameters.items() if name not in _OF_THE_SDK and not name.startswith(_ESTIMATOR)
    }


def choose_keep_alive(resources: Mapping[str, Any], cap: int) -> tuple[int, tuple[str, ...]]:
    """Return the keep-alive in seconds, and a note if it is shortened; a job without one ends its pool."""
    wanted = int(resources.get("KeepAlivePeriodInSeconds") or 0)
    if wanted <= cap:
        return wanted, ()
    note = (
        f"KeepAlivePeriodInSeconds {wanted} is above the limit of {cap} seconds here "
        f"(ControllerApp.keep_alive_cap), so hosts are kept for {cap} seconds."
    )
    return cap, (note,)


def model_uri(request: Mapping[str, Any]) -> str:
    """Return the URI of the model: an archive, or a prefix without compression."""
    output = request["OutputDataConfig"]
    top = f"{output['S3OutputPath'].rstrip('/')}/{request['TrainingJobName']}/output"
    return f"{top}/model/" if output.get("CompressionType") == "NONE" else f"{top}/model.tar.gz"


def _fields(request: Mapping[str, Any], here: TranslationContext) -> dict[str, Any]:
    """Return the fields of the job request that are copied."""
    limits = request.get("StoppingCondition") or {}
    checkpoint = request.get("CheckpointConfig") or {}
    found = {
        "engine": here.engine,
        "job_name": request["TrainingJobName"],
        "role": request.get("RoleArn") or "",
        "image": request["AlgorithmSpecification"].get("TrainingImage") if here.has_images else "",
        "max_run": limits.get("MaxRuntimeInSeconds") or DAY,
        "max_wait": limits.get("MaxWaitTimeInSeconds") or 0,
        "spot": bool(request.get("EnableManagedSpotTraining")),
        "network_isolation": bool(request.get("EnableNetworkIsolation")),
        "retries": (request.get("RetryStrategy") or {}).get("MaximumRetryAttempts") or 0,
        "disable_output_compression": request["OutputDataConfig"].get("CompressionType") == "NONE",
        "checkpoint": local_path(checkpoint["S3Uri"], here.s3_root) if checkpoint else "",
        "checkpoint_local_path": checkpoint.get("LocalPath") or "",
    }
    return {name: value for name, value in found.items() if value}


def _code(request: Mapping[str, Any], channels: tuple[Channel, ...], here: TranslationContext) -> Code:
    algorithm = request["AlgorithmSpecification"]
    words = tuple(algorithm.get("ContainerArguments") or ())
    if algorithm.get("ContainerEntrypoint"):
        return Code(command=(*algorithm["ContainerEntrypoint"], *words))
    parameters = request.get("HyperParameters") or {}
    program = decode_text(parameters.get(PROGRAM, ""))
    if not program:
        uri = algorithm.get("TrainingImage") or ""
        # Not for a framework: a job whose entry point was forgotten would run any program `train` of PATH.
        rule = find_rule(uri, here.images) if has_own_program(uri) and not here.has_images else None
        return Code(arguments=words) if rule is None else Code(command=(_IMAGE_PROGRAM, *words))
    place = decode_text(parameters.get(DIRECTORY, ""))
    return Code(source=_source(place, channels, here), entry_point=program)


def _source(place: str, channels: tuple[Channel, ...], here: TranslationContext) -> str:
    """Return the path of the code: in a channel with network isolation, else at its own URI."""
    if not place.startswith(_CHANNELS):
        if not place.startswith("s3://"):
            raise validation_error(
                f"HyperParameters: {DIRECTORY} {place!r} is not an S3 URI, and no folder of a channel."
            )
        split_uri(place)
        return read_file(place, here.s3_root, f"HyperParameters {DIRECTORY}")
    name, _, inner = place.removeprefix(_CHANNELS).partition("/")
    channel = next((channel for channel in channels if channel.name == name), None)
    if channel is None:
        raise validation_error(f"HyperParameters: {DIRECTORY} is in the channel {name!r}, which the job does not have.")
    if posixpath.basename(channel.source) == inner:
        return channel.source
    return posixpath.join(channel.source, inner)


def _image(request: Mapping[str, Any], code: Code, here: TranslationContext) -> ImageChoice:
    """Choose the interpreter that stands for the image, unless hosts are made of the image itself.

    :raises AwsError: no script, or an image that nothing here can stand for.
    """
    uri = request["AlgorithmSpecification"].get("TrainingImage") or ""
    if here.has_images:
        return ImageChoice()
    if not (code.entry_point or code.command):
        if is_built_in(uri):
            raise built_in_error(uri)
        own = "name a Python whose folder has a program `train` (c.SmxAws.images), or " if has_own_program(uri) else ""
        raise validation_error(
            f"AlgorithmSpecification: there is no script. The engine {here.engine} runs no images, so the program of "
            f"{uri or 'the image'} cannot be started. Pass {PROGRAM} and {DIRECTORY} in HyperParameters, as an "
            f"estimator with an entry_point does, or ContainerEntrypoint; or {own}choose the engine docker."
        )
    return choose_interpreter(uri, here.images, match=here.match_images) if uri else ImageChoice()


def _groups(resources: Mapping[str, Any], here: TranslationContext) -> tuple[Groups, tuple[str, ...]]:
    """Return the instance groups, with a note for each type that another one stands for."""
    groups = tuple(
        InstanceGroup(
            name=each["InstanceGroupName"], instance_type=each["InstanceType"], instance_count=each["InstanceCount"]
        )
        for each in resources.get("InstanceGroups") or ()
    )
    if not groups:
        kind, count = requested_hosts(resources, "ResourceConfig")
        groups = (InstanceGroup(instance_type=kind, instance_count=count),)
    chosen = [choose_type(group.instance_type, here.instance_types) for group in groups]
    found = tuple(replace(group, instance_type=choice.name) for group, choice in zip(groups, chosen, strict=True))
    return found, tuple(dict.fromkeys(choice.note for choice in chosen if choice.note))


def _outputs(request: Mapping[str, Any], here: TranslationContext) -> tuple[Output, ...]:
    # Not the name itself: a rerun has another one, and would write over the model of the first job.
    top = f"{request['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{PLACEHOLDER}/output"
    is_plain = request["OutputDataConfig"].get("CompressionType") == "NONE"
    model = local_path(f"{top}/model" if is_plain else top, here.s3_root)
    return (
        Output(name="model", path="/opt/ml/model", destination=model),
        Output(name="data", path="/opt/ml/output/data", destination=local_path(top, here.s3_root)),
    )


def _distribution(parameters: Mapping[str, str]) -> Distribution | None:
    """Read the launcher from the hyperparameters of SDK 2; None for a script that runs once on each host."""
    runner = next((runner for name, runner in _RUNNERS.items() if _decode(parameters.get(name, "false")) is True), None)
    if runner is None:
        return None
    processes = _decode(parameters.get(_PROCESSES, "null"))
    groups = _decode(parameters.get(_DISTRIBUTED_GROUPS, "[]"))
    return Distribution(
        runner=runner,
        processes=processes if isinstance(processes, int) else None,
        groups=tuple(map(str, groups)) if isinstance(groups, list) else (),
    )


def _decode(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
