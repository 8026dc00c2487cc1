"""A ``sagemaker`` package that writes down what it is asked for, and takes no argument that the real one would not."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

PARAMETERS = {
    "Estimator": (
        "image_uri role instance_count instance_type keep_alive_period_in_seconds volume_size volume_kms_key "
        "max_run input_mode output_path output_kms_key base_job_name sagemaker_session hyperparameters tags "
        "subnets security_group_ids model_uri model_channel_name metric_definitions "
        "encrypt_inter_container_traffic use_spot_instances max_wait checkpoint_s3_uri checkpoint_local_path "
        "enable_network_isolation rules debugger_hook_config tensorboard_output_config "
        "enable_sagemaker_metrics profiler_config disable_profiler environment max_retry_attempts source_dir "
        "git_config container_log_level code_location entry_point dependencies instance_groups "
        "training_repository_access_mode training_repository_credentials_provider_arn container_entry_point "
        "container_arguments disable_output_compression enable_infra_check enable_remote_debug "
        "enable_session_tag_chaining training_plan instance_placement_config"
    ),
    "Estimator.fit": "inputs wait logs job_name experiment_config",
    "ScriptProcessor": (
        "role image_uri command instance_count instance_type volume_size_in_gb volume_kms_key output_kms_key "
        "max_runtime_in_seconds base_job_name sagemaker_session env tags network_config"
    ),
    "ScriptProcessor.run": "code inputs outputs arguments wait logs job_name experiment_config kms_key",
    "Processor": (
        "role image_uri instance_count instance_type entrypoint volume_size_in_gb volume_kms_key output_kms_key "
        "max_runtime_in_seconds base_job_name sagemaker_session env tags network_config"
    ),
    "Processor.run": "inputs outputs arguments wait logs job_name experiment_config kms_key",
    "FrameworkProcessor": (
        "estimator_cls framework_version role instance_count instance_type py_version image_uri command "
        "volume_size_in_gb volume_kms_key output_kms_key code_location max_runtime_in_seconds base_job_name "
        "sagemaker_session env tags network_config"
    ),
    "FrameworkProcessor.run": (
        "code source_dir dependencies git_config inputs outputs arguments wait logs job_name "
        "experiment_config kms_key codeartifact_repo_arn"
    ),
    "PySparkProcessor": (
        "role instance_type instance_count framework_version py_version container_version image_uri "
        "volume_size_in_gb volume_kms_key output_kms_key configuration_location dependency_location "
        "max_runtime_in_seconds base_job_name sagemaker_session env tags network_config"
    ),
    "PySparkProcessor.run": (
        "submit_app submit_py_files submit_jars submit_files inputs outputs arguments wait logs job_name "
        "experiment_config configuration spark_event_logs_s3_uri kms_key"
    ),
    "ProcessingInput": (
        "source destination input_name s3_data_type s3_input_mode s3_data_distribution_type "
        "s3_compression_type s3_input dataset_definition app_managed"
    ),
    "ProcessingOutput": "source destination output_name s3_upload_mode app_managed feature_store_output",
    "TrainingInput": (
        "s3_data distribution compression content_type record_wrapping s3_data_type instance_groups "
        "input_mode attribute_names target_attribute_name shuffle_config hub_access_config "
        "model_access_config"
    ),
    "HyperparameterTuner": (
        "estimator objective_metric_name hyperparameter_ranges metric_definitions strategy objective_type max_jobs "
        "max_parallel_jobs max_runtime_in_seconds tags base_tuning_job_name warm_start_config strategy_config "
        "completion_criteria_config early_stopping_type estimator_name random_seed autotune "
        "hyperparameters_to_keep_static"
    ),
    "HyperparameterTuner.fit": "inputs job_name include_cls_metadata estimator_kwargs wait",
    "CategoricalParameter": "values",
    "InstanceGroup": "instance_group_name instance_type instance_count",
    "NetworkConfig": "enable_network_isolation security_group_ids subnets encrypt_inter_container_traffic",
    "Session": (
        "boto_session sagemaker_client sagemaker_runtime_client sagemaker_featurestore_runtime_client "
        "default_bucket settings sagemaker_metrics_client sagemaker_config default_bucket_prefix"
    ),
    "Session.upload_data": "path bucket key_prefix callback extra_args",
}
"""Names of the parameters in sagemaker 2.257.7, as ``inspect.signature`` gives them; ``**kwargs`` is none of them."""

OF_SDK_3 = {
    "ModelTrainer": (
        "training_mode sagemaker_session role base_job_name input_s3_key_prefix source_code distributed compute "
        "networking stopping_condition training_image training_image_config algorithm_name output_data_config "
        "input_data_config checkpoint_config training_input_mode environment hyperparameters tags "
        "local_container_root model_package_config"
    ),
    "ModelTrainer.train": "input_data_config wait logs dry_run",
    "ModelTrainer.with_retry_strategy": "retry_strategy",
    "ModelTrainer.with_metric_definitions": "metric_definitions",
    "Torchrun": "process_count_per_node smp",
    "MPI": "process_count_per_node mpi_additional_options",
    "SourceCode": "source_dir requirements entry_script command ignore_patterns",
    "Compute": (
        "instance_type instance_count volume_size_in_gb volume_kms_key_id keep_alive_period_in_seconds "
        "instance_groups training_plan_arn enable_managed_spot_training"
    ),
    "StoppingCondition": "max_runtime_in_seconds max_wait_time_in_seconds max_pending_time_in_seconds",
    "OutputDataConfig": "s3_output_path kms_key_id compression_type",
    "CheckpointConfig": "s3_uri local_path",
    "Networking": ("security_group_ids subnets enable_network_isolation enable_inter_container_traffic_encryption"),
    "RetryStrategy": "maximum_retry_attempts",
    "MetricDefinition": "name regex",
    "InputData": "channel_name data_source content_type",
    "Channel": "channel_name data_source content_type compression_type record_wrapper_type input_mode shuffle_config",
    "DataSource": "s3_data_source file_system_data_source",
    "S3DataSource": (
        "s3_data_type s3_uri s3_data_distribution_type attribute_names instance_group_names model_access_config "
        "hub_access_config"
    ),
}
"""The same of sagemaker-train 1.27.0 and sagemaker-core 2.27.0; ``test_real_model_trainer`` looks into these."""
PARAMETERS |= OF_SDK_3

_CONFIGS = (
    *("CheckpointConfig", "Channel", "Compute", "DataSource", "InputData", "InstanceGroup", "MetricDefinition"),
    "Networking",
    *("OutputDataConfig", "RetryStrategy", "S3DataSource", "SourceCode", "StoppingCondition"),
)
PLACES = {
    "sagemaker": ("Session",),
    "sagemaker.core": (),
    "sagemaker.core.helper": (),
    "sagemaker.core.helper.session_helper": ("Session",),
    "sagemaker.core.training": (),
    "sagemaker.core.training.configs": _CONFIGS,
    "sagemaker.train": ("ModelTrainer",),
    "sagemaker.train.distributed": ("Torchrun", "MPI"),
    "sagemaker.estimator": ("Estimator",),
    "sagemaker.processing": (
        "Processor",
        "ScriptProcessor",
        "FrameworkProcessor",
        "ProcessingInput",
        "ProcessingOutput",
    ),
    "sagemaker.spark": (),
    "sagemaker.spark.processing": ("PySparkProcessor",),
    "sagemaker.inputs": ("TrainingInput",),
    "sagemaker.instance_group": ("InstanceGroup",),
    "sagemaker.network": ("NetworkConfig",),
    "sagemaker.tuner": ("CategoricalParameter", "HyperparameterTuner"),
    "sagemaker.sklearn": (),
    "sagemaker.sklearn.estimator": ("SKLearn",),
}


class Recorder:
    """What was made and called: pairs of a name, as ``Estimator.fit``, and the arguments by name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def of(self, name: str) -> dict[str, Any]:
        """Give the arguments of the only call of that name."""
        (found,) = [arguments for called, arguments in self.calls if called == name]
        return found

    def take(self, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        kinds = [
            inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
            for word in PARAMETERS[name].split()
        ]
        bound = inspect.Signature(kinds).bind(*positional, **named)  # TypeError, as the real one
        self.calls.append((name, dict(bound.arguments)))
        return dict(bound.arguments)

    def kind(self, name: str) -> type:
        """Make a class that records how it is made and how its methods are called."""
        recorder = self

        def make(self: Any, *positional: Any, **named: Any) -> None:
            self.asked = recorder.take(name, positional, named)

        def method(full: str) -> Any:
            return lambda _self, *positional, **named: recorder.take(full, positional, named) and None

        methods = {full.partition(".")[2]: method(full) for full in PARAMETERS if full.startswith(f"{name}.")}
        return type(name, (), {"__init__": make, **methods})


def install(patch: pytest.MonkeyPatch) -> Recorder:
    """Put the stand-in where ``import sagemaker`` finds it."""
    recorder = Recorder()
    for place, names in PLACES.items():
        module = ModuleType(place)
        module.__path__ = []  # type: ignore[attr-defined]  # a package
        for name in names:
            setattr(module, name, recorder.kind(name) if name in PARAMETERS else type(name, (), {}))
        patch.setitem(sys.modules, place, module)
    return recorder
