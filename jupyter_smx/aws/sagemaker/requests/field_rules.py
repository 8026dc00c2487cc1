"""Fields of the API that have no effect here, each with a note, and those that are refused. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.sagemaker.errors import unsupported_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """Yield a sentence for each member of a newer version of the API."""
    for name in sorted(request.keys() - known):
        yield f"{name}: this version does not know it, and it has no effect."


def is_set(value: Any) -> bool:
    """Return True if a member asks for something: it is not empty, False, or a structure of such members."""
    if isinstance(value, dict):
        return any(map(is_set, value.values()))
    return bool(value)
