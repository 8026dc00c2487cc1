"""Fields of the API that have no effect here, each with a note, and those that are refused. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.sagemaker.errors import unsupported_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_DEBUGGER = "no rule of the debugger or profiler runs here."
NOTES = {
    "AlgorithmSpecification.TrainingImageConfig": "images are pulled as the engine is configured.",
    "DebugRuleConfigurations": _DEBUGGER,
    "EnableInterContainerTrafficEncryption": "traffic between hosts is not encrypted.",
    "InfraCheckConfig.EnableInfraCheck": "the health of instances is not checked.",
    "MlflowConfig": "no MLflow server is connected; set MLFLOW_TRACKING_URI in Environment.",
    "NetworkConfig.EnableInterContainerTrafficEncryption": "traffic between hosts is not encrypted.",
    "NetworkConfig.VpcConfig": "jobs run in no VPC.",
    "OutputDataConfig.KmsKeyId": "outputs are not encrypted with a key of KMS.",
    "ProcessingOutputConfig.KmsKeyId": "outputs are not encrypted with a key of KMS.",
    "ProcessingResources.ClusterConfig.VolumeKmsKeyId": "volumes are not encrypted with a key of KMS.",
    "ProfilerRuleConfigurations": _DEBUGGER,
    "RemoteDebugConfig.EnableRemoteDebug": "use `%smx shell` to open a shell on a host.",
    "ResourceConfig.InstancePlacementConfig": "hosts are placed by the engine.",
    "ResourceConfig.VolumeKmsKeyId": "volumes are not encrypted with a key of KMS.",
    "SessionChainingConfig.EnableSessionTagChaining": "session tags have no effect.",
    "TensorBoardOutputConfig": "files of TensorBoard are not uploaded; write them to the model or to an output.",
    "VpcConfig": "jobs run in no VPC.",
}
"""Fields that are accepted and have no effect, by their path."""
_S3_SOURCE = ("S3DataType", "S3Uri", "S3DataDistributionType", "InstanceGroupNames", "AttributeNames")
_S3_INPUT = ("S3Uri", "LocalPath", "S3DataType", "S3InputMode", "S3DataDistributionType", "S3CompressionType")
_HOSTS = ("InstanceType", "InstanceCount", "InstancePreferences", "VolumeSizeInGB", "VolumeKmsKeyId")
KNOWN = {
    "AlgorithmSpecification": (
        *("TrainingImage", "AlgorithmName", "TrainingInputMode", "MetricDefinitions", "ContainerEntrypoint"),
        *("ContainerArguments", "TrainingImageConfig", "EnableSageMakerMetricsTimeSeries"),
    ),
    "AlgorithmSpecification.MetricDefinitions": ("Name", "Regex"),
    "AppSpecification": ("ImageUri", "ContainerEntrypoint", "ContainerArguments"),
    "CheckpointConfig": ("S3Uri", "LocalPath"),
    "InputDataConfig": (
        *("ChannelName", "DataSource", "ContentType", "CompressionType", "RecordWrapperType", "InputMode"),
        "ShuffleConfig",
    ),
    "InputDataConfig.DataSource": ("S3DataSource", "FileSystemDataSource", "DatasetSource"),
    "InputDataConfig.DataSource.S3DataSource": (*_S3_SOURCE, "ModelAccessConfig", "HubAccessConfig"),
    "NetworkConfig": ("EnableInterContainerTrafficEncryption", "EnableNetworkIsolation", "VpcConfig"),
    "OutputDataConfig": ("S3OutputPath", "KmsKeyId", "CompressionType"),
    "ProcessingInputs": ("InputName", "AppManaged", "S3Input", "DatasetDefinition"),
    "ProcessingInputs.S3Input": _S3_INPUT,
    "ProcessingOutputConfig": ("Outputs", "KmsKeyId"),
    "ProcessingOutputConfig.Outputs": ("OutputName", "AppManaged", "S3Output", "FeatureStoreOutput"),
    "ProcessingOutputConfig.Outputs.S3Output": ("S3Uri", "LocalPath", "S3UploadMode"),
    "ProcessingResources": ("ClusterConfig",),
    "ProcessingResources.ClusterConfig": _HOSTS,
    "ProcessingResources.ClusterConfig.InstancePreferences": ("InstanceType", "InstanceCount"),
    "ResourceConfig": (
        *_HOSTS,
        *("InstanceGroups", "KeepAlivePeriodInSeconds", "TrainingPlanArn", "InstancePlacementConfig"),
    ),
    "ResourceConfig.InstanceGroups": ("InstanceGroupName", "InstanceType", "InstanceCount"),
    "ResourceConfig.InstancePreferences": ("InstanceType", "InstanceCount"),
    "RetryStrategy": ("MaximumRetryAttempts",),
    "StoppingCondition": ("MaxRuntimeInSeconds", "MaxWaitTimeInSeconds", "MaxPendingTimeInSeconds"),
}
"""Members of structures that this version translates, notes or refuses; what clients only read back has none here."""
_BACK = "Go back to AWS with `%smx aws off`."
REFUSED = {
    "AlgorithmSpecification.AlgorithmName": ("algorithms of a marketplace exist only on AWS.", _BACK),
    "ModelPackageConfig": ("there is no model registry here.", _BACK),
    "ResourceConfig.TrainingPlanArn": ("training plans reserve capacity of AWS.", "Leave it out."),
    "ServerlessJobConfig": ("a serverless job has no script.", _BACK),
}
"""Fields that no job here can have, by their path: the reason and the cure."""


def value_at(request: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of members, None if one of them is absent."""
    found: Any = request
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def check_refused(request: Mapping[str, Any]) -> None:
    """Refuse a request with a field that no job here can have.

    :raises AwsError: names the field, the reason and the cure.
    """
    for path, (reason, cure) in REFUSED.items():
        if is_set(value_at(request, path)):
            raise unsupported_error(path, reason, cure)


def notes_of(request: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each field that is set and has no effect."""
    for path, sentence in NOTES.items():
        if is_set(value_at(request, path)):
            yield f"{path}: {sentence}"


def unknown_members(request: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    """Yield a sentence for each member of a newer version of the API, at any depth."""
    found = sorted(request.keys() - known)
    for path, names in KNOWN.items():
        others = {name for each in _structures(request, path.split(".")) for name in each} - {*names}
        found += sorted(f"{path}.{name}" for name in others)
    for name in found:
        yield f"{name}: this version does not know it, and it has no effect."


def _structures(value: Any, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the structures at a path of members, of lists each item."""
    if isinstance(value, list):
        for item in value:
            yield from _structures(item, names)
    elif isinstance(value, dict):
        if names:
            yield from _structures(value.get(names[0]), names[1:])
        else:
            yield value


def is_set(value: Any) -> bool:
    """Return True if a member asks for something: it is not empty, False, or a structure of such members."""
    if isinstance(value, dict):
        return any(map(is_set, value.values()))
    return bool(value)
