"""CreateTrainingJob as clients send it, translated: fields, code, channels, images, instance types, notes, refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from calls import BUCKET, model, sdk_parameters, training_request
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.aws.sagemaker.api_words import to_api_words
from jupyter_smx.aws.sagemaker.requests.field_rules import KNOWN
from jupyter_smx.aws.sagemaker.requests.instance_types import add_selection, choose_type
from jupyter_smx.aws.sagemaker.requests.training import model_uri, own_hyperparameters, translate_training
from jupyter_smx.aws.sagemaker.requests.translation import TranslatedRequest, TranslationContext
from jupyter_smx.aws.sagemaker.settings import ImageRule
from jupyter_smx.aws.service import AwsError
from jupyter_smx.model.request_texts import fill
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup, catalogue

if TYPE_CHECKING:
    from pathlib import Path

CODE = f"s3://{BUCKET}/job/source/sourcedir.tar.gz"
TYPES = tuple(catalogue())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bucket = tmp_path / BUCKET
    for key in ("job/source/sourcedir.tar.gz", "data/train/a.csv", "data/train/b.csv", "data/odd[1]/a.csv"):
        (bucket / key).parent.mkdir(parents=True, exist_ok=True)
        (bucket / key).write_text("x")
    (bucket / "empty").mkdir()
    return tmp_path


def translate(request: dict[str, Any], root: Path | None, **here: Any) -> TranslatedRequest:
    return translate_training(request, TranslationContext(s3_root=root, instance_types=TYPES, **here))


def refusal(request: dict[str, Any], root: Path | None, **here: Any) -> str:
    with pytest.raises(AwsError) as caught:
        translate(request, root, **here)
    assert caught.value.code == "ValidationException"
    return caught.value.message


def a_request(**members: Any) -> dict[str, Any]:
    return training_request("job", CODE) | members


def a_channel(uri: str, **members: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    source |= members.pop("S3DataSource", {})
    return {"ChannelName": "train", "DataSource": {"S3DataSource": source}, **members}


def test_an_estimators_request_has_its_fields_its_code_and_a_note_for_its_image(root: Path) -> None:
    found = translate(a_request(RetryStrategy={"MaximumRetryAttempts": 2}), root)
    assert found.fields == {
        "engine": "local",
        "job_name": "job",
        "role": "arn:aws:iam::000000000000:role/Smx",
        "max_run": 86_400,
        "retries": 2,
        "keep_alive": 0,
    }
    assert (found.code.source, found.code.entry_point) == (
        str(root / BUCKET / "job/source/sourcedir.tar.gz"),
        "train.py",
    )
    assert found.hyperparameters == {}
    assert found.metrics == {"accuracy": "accuracy=([0-9.]+);"}
    assert {each.name: each.destination for each in found.outputs} == dict.fromkeys(
        ("model", "data"), str(root / BUCKET / "{job_name}/output")
    )
    (note,) = found.notes
    assert "sagemaker-scikit-learn:1.2-1-cpu-py3: runs this notebook's Python in its place" in note


def test_a_rerun_with_real_buckets_has_a_model_of_its_own() -> None:
    found = translate(a_request(), None)
    assert {each.destination for each in fill(found.outputs, "again")} == {f"s3://{BUCKET}/again/output"}


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_hyperparameters_travel_unchanged_but_for_those_of_the_sdk(own: dict[str, str]) -> None:
    mine = {name: value for name, value in own.items() if not name.startswith("sagemaker_")}
    assert own_hyperparameters({**sdk_parameters("job", CODE), "sagemaker_estimator_module": "x", **mine}) == mine


@pytest.mark.parametrize("quoted", [True, False])
def test_the_code_is_named_with_quotes_and_without(root: Path, quoted: bool) -> None:
    place = json.dumps(CODE) if quoted else CODE
    program = '"src/fit.py"' if quoted else "src/fit.py"
    own = {"sagemaker_submit_directory": place, "sagemaker_program": program}
    assert translate(a_request(HyperParameters=own), root).code.entry_point == "src/fit.py"


def test_with_network_isolation_the_code_is_in_a_channel(root: Path) -> None:
    """What ``enable_network_isolation=True`` makes of it: a channel ``code`` with the archive."""
    place = {"sagemaker_submit_directory": '"/opt/ml/input/data/code/sourcedir.tar.gz"', "sagemaker_program": '"a.py"'}
    channel = {**a_channel(f"s3://{BUCKET}/job/source"), "ChannelName": "code"}
    isolated = a_request(HyperParameters=place, EnableNetworkIsolation=True, InputDataConfig=[channel])
    found = translate(isolated, root)
    assert found.code.source == str(root / BUCKET / "job/source/sourcedir.tar.gz")
    assert found.fields["network_isolation"] is True
    assert "'other'" in refusal(
        a_request(HyperParameters={**place, "sagemaker_submit_directory": "/opt/ml/input/data/other/a"}), root
    )


def test_channels_are_folders_files_and_parts_of_names(root: Path) -> None:
    uris = ["data/train", "data/train/", "data/train/a.csv", "data/tr", "data/odd[", "data/odd[1]"]
    sources = ["data/train", "data/train", "data/train/a.csv", "data/tr*", "data/odd[[]*", "data/odd[1]"]
    for uri, source in zip(uris, sources, strict=True):
        request = a_request(InputDataConfig=[a_channel(f"s3://{BUCKET}/{uri}", InputMode="FastFile")])
        assert translate(request, root).channels == (
            Channel(name="train", source=str(root / BUCKET / source), mode="FastFile"),
        )
        (hybrid,) = translate(a_request(InputDataConfig=[a_channel(f"s3://{BUCKET}/{uri}")]), None).channels
        assert hybrid.source == f"s3://{BUCKET}/{uri}"


@pytest.mark.parametrize("key", ["nothing", "empty", "data/train/a.csv/", "data/none"])
def test_a_channel_without_objects_is_refused_at_the_create(root: Path, key: str) -> None:
    uri = f"s3://{BUCKET}/{key}"
    assert (
        refusal(a_request(InputDataConfig=[a_channel(uri)]), root)
        == f'No S3 objects found under S3 URL "{uri}" given in input data source.'
    )


def test_a_bucket_that_does_not_exist_here_is_named_with_the_way_to_those_of_aws(root: Path) -> None:
    text = refusal(a_request(InputDataConfig=[a_channel("s3://theirs/data/")]), root)
    assert text.startswith('No S3 objects found under S3 URL "s3://theirs/data/" given in input data source. There is')
    assert f"no bucket theirs here: buckets are folders of {root}. To use those of AWS, run" in text


def test_code_that_does_not_exist_is_named_by_its_hyperparameter(root: Path) -> None:
    uri = f"s3://{BUCKET}/job/source/none.tar.gz"
    parameters = sdk_parameters("job", uri)
    assert refusal(a_request(HyperParameters=parameters), root) == (
        f'No S3 objects found under S3 URL "{uri}" given in HyperParameters sagemaker_submit_directory.'
    )


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ({"InstanceType": "ml.m5.large", "InstanceCount": 3}, 3),
        ({"InstanceType": "ml.m5.large"}, 1),
        ({"InstancePreferences": [{"InstanceType": "ml.m5.large", "InstanceCount": 2}]}, 2),
    ],
)
def test_a_count_of_hosts_is_taken_as_it_is(root: Path, resources: dict[str, Any], count: int) -> None:
    (group,) = translate(a_request(ResourceConfig=resources), root).groups
    assert group.instance_count == count


def test_no_hosts_are_refused(root: Path) -> None:
    text = refusal(a_request(ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 0}), root)
    assert text == "ResourceConfig.InstanceCount: 0 is not a number of hosts. It is 1 or more."


def test_of_preferences_the_first_is_described_as_selected() -> None:
    first, second = {"InstanceType": "ml.m5.large", "InstanceCount": 2}, {"InstanceType": "ml.c5.large"}
    found = add_selection({"VolumeSizeInGB": 1, "InstancePreferences": [first, second]})
    assert (found["SelectedInstanceType"], found["SelectedInstanceCount"]) == ("ml.m5.large", 2)
    one = {"InstanceCount": 3, "InstancePreferences": [second]}
    assert add_selection(one) == one | {"SelectedInstanceType": "ml.c5.large", "SelectedInstanceCount": 3}
    assert add_selection(first) == first


def test_a_request_without_an_algorithm_is_refused(root: Path) -> None:
    """The newest API does not require it, since it has jobs without an image."""
    request = a_request()
    del request["AlgorithmSpecification"]
    assert refusal(request, root).startswith("AlgorithmSpecification: it is missing")
    assert refusal(request | {"ServerlessJobConfig": {"JobType": "FineTuning"}}, root).startswith("ServerlessJobConfig")


@pytest.mark.parametrize("uri", ["s3://b/../../etc/passwd", "s3://../x", "/etc/passwd", "s3://b/a/./c", "s3:///x"])
def test_no_uri_leads_out_of_the_buckets(root: Path, uri: str) -> None:
    assert "is not an S3 URI" in refusal(a_request(InputDataConfig=[a_channel(uri)]), root)
    assert "is not an S3 URI" in refusal(a_request(OutputDataConfig={"S3OutputPath": uri}), root)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"InputMode": "Pipe"}, "FastFile"),
        ({"CompressionType": "Gzip"}, "gzip"),
        ({"RecordWrapperType": "RecordIO"}, "records"),
        ({"ShuffleConfig": {"Seed": 1}}, "shuffle"),
        ({"S3DataSource": {"S3DataType": "AugmentedManifestFile"}}, "manifest"),
        ({"S3DataSource": {"S3DataType": "Converse"}}, "S3Prefix"),
        ({"DataSource": {"FileSystemDataSource": {"FileSystemId": "fs-1"}}}, "EFS"),
    ],
)
def test_what_no_channel_here_has_is_refused_with_the_cure(root: Path, members: dict[str, Any], words: str) -> None:
    text = refusal(a_request(InputDataConfig=[a_channel(f"s3://{BUCKET}/data/train", **members)]), root)
    assert words in text
    assert "--input" not in text
    plain = a_channel(f"s3://{BUCKET}/data/train", CompressionType="None", RecordWrapperType="None")
    assert translate(a_request(InputDataConfig=[plain]), root).channels


def test_a_manifest_of_the_real_s3_is_a_channel() -> None:
    channel = a_channel("s3://theirs/list.manifest", S3DataSource={"S3DataType": "ManifestFile"})
    (found,) = translate(a_request(InputDataConfig=[channel]), None).channels
    assert (found.data_type, found.source) == ("ManifestFile", "s3://theirs/list.manifest")


def test_every_instance_type_of_the_api_runs_and_no_other_one() -> None:
    """Cases 17 and 18."""
    named = model().shape_for("TrainingInstanceType").enum
    assert len(named) > 200
    for name in named:
        chosen = choose_type(name, TYPES)
        assert chosen.name in TYPES
        assert bool(chosen.note) == (chosen.name != name)
    assert choose_type("ml.m7i.48xlarge", ("ml.m5.large", "ml.m5.24xlarge", "local")).name == "ml.m5.24xlarge"
    assert choose_type("ml.q9.large", ("ml.m5.large", "local")).name == "local"
    for wrong in ("ml.nonsense", "nonsense", "ml.m5", "m5.large"):
        with pytest.raises(AwsError, match="instanceType"):
            choose_type(wrong, TYPES)


def test_a_distribution_of_sdk_2_is_that_of_the_job(root: Path) -> None:
    own = sdk_parameters("job", CODE) | {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "2",
        "sagemaker_distribution_instance_groups": '["gpus"]',
    }
    groups = [
        {"InstanceType": "ml.m5.large", "InstanceCount": 2, "InstanceGroupName": name} for name in ("gpus", "data")
    ]
    request = a_request(HyperParameters=own, ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 30})
    found = translate(request, root)
    assert found.distribution == Distribution(runner="mpi", processes=2, groups=("gpus",))
    assert found.groups == tuple(
        InstanceGroup(name=name, instance_type="ml.m5.large", instance_count=2) for name in ("gpus", "data")
    )


def test_entry_points_of_containers_are_commands(root: Path) -> None:
    algorithm = {
        "TrainingImage": "smx.local/python:3.11",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/bash", "/opt/ml/input/data/x/job_driver.sh"],
        "ContainerArguments": ["--region", "us-east-1"],
    }
    parameters = {"sagemaker_program": "train.py", "epochs": "3"}
    found = translate(a_request(AlgorithmSpecification=algorithm, HyperParameters=parameters), root)
    assert found.code.command == (*algorithm["ContainerEntrypoint"], *algorithm["ContainerArguments"])
    assert found.hyperparameters == parameters
    assert found.notes == ()


KMEANS = "382416733822.dkr.ecr.us-east-1.amazonaws.com/kmeans:1"


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (KMEANS, "built-in algorithm of SageMaker: there is no script"),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/mxnet-training:1.9.0-cpu-py38", "only in that image"),
        ("123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/own:latest", "is private"),
    ],
)
def test_images_that_nothing_here_stands_for_are_refused(root: Path, image: str, words: str) -> None:
    """Case 74."""
    algorithm = {"TrainingImage": image, "TrainingInputMode": "File"}
    assert words in refusal(a_request(AlgorithmSpecification=algorithm), root)
    without_script = a_request(AlgorithmSpecification=algorithm, HyperParameters={"k": "10"})
    assert "there is no script" in refusal(without_script, root)
    on_docker = translate(without_script, root, engine="docker", has_images=True)
    assert on_docker.fields["image"] == image
    assert on_docker.code.entry_point == ""


def test_the_operator_names_interpreters_of_images(root: Path) -> None:
    rules = (ImageRule(pattern="xgboost", python="a"), ImageRule(pattern=r"scikit-learn:1\.2", python="conda:sk12"))
    found = translate(a_request(), root, images=rules)
    assert found.python == "conda:sk12"
    assert found.notes[0].endswith("runs the Python conda:sk12 in its place.")


def test_an_interpreter_that_stands_for_an_image_without_a_script_runs_its_program(root: Path) -> None:
    algorithm = {"TrainingImage": KMEANS, "TrainingInputMode": "File", "ContainerArguments": ["--fast"]}
    request = a_request(AlgorithmSpecification=algorithm, HyperParameters={"k": "10"})
    found = translate(request, root, images=(ImageRule(pattern="kmeans", python="conda:own"),))
    assert (found.python, found.code.command) == ("conda:own", ("train", "--fast"))
    assert found.hyperparameters == {"k": "10"}
    on_docker = translate(
        request, root, engine="docker", has_images=True, images=(ImageRule(pattern="kmeans", python="conda:own"),)
    )
    assert (on_docker.python, on_docker.code.command) == ("", ())


REGISTRY = "683313688378.dkr.ecr.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    "image",
    [
        f"{REGISTRY}/sagemaker-xgboost:1.7-1",
        "811284229777.dkr.ecr.us-east-1.amazonaws.com/xgboost:latest",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/own:latest",
        "own:1",
    ],
)
def test_images_with_a_program_of_their_own_run_it_by_the_operators_interpreter(root: Path, image: str) -> None:
    algorithm = {"TrainingImage": image, "TrainingInputMode": "File"}
    request = a_request(AlgorithmSpecification=algorithm, HyperParameters={})
    assert translate(request, root, images=(ImageRule(pattern=".*", python="a"),)).code.command == ("train",)
    assert "(c.SmxAws.images)" in refusal(request, root)


@pytest.mark.parametrize(
    "image",
    [
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-cpu-py311",
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/mxnet-training:1.9.0-cpu-py38",
        f"{REGISTRY}/sagemaker-scikit-learn:1.2-1-cpu-py3",
        "smx.local/python:3.11",
        "",
    ],
)
def test_a_forgotten_entry_point_is_refused_also_with_a_rule_for_the_image(root: Path, image: str) -> None:
    algorithm = {"TrainingInputMode": "File"} | ({"TrainingImage": image} if image else {})
    request = a_request(AlgorithmSpecification=algorithm, HyperParameters={})
    text = refusal(request, root, images=(ImageRule(pattern=".*", python="a"),))
    assert "there is no script" in text
    assert "c.SmxAws.images" not in text


def test_the_built_in_xgboost_without_a_rule_is_named_as_such(root: Path) -> None:
    algorithm = {"TrainingImage": "811284229777.dkr.ecr.us-east-1.amazonaws.com/xgboost:1", "TrainingInputMode": "File"}
    assert "built-in algorithm of SageMaker" in refusal(a_request(AlgorithmSpecification=algorithm), root)


@pytest.mark.parametrize(
    ("image", "packages"),
    [
        ("sagemaker-scikit-learn:1.2-1-cpu-py3", "scikit-learn==1.2.*,pandas,joblib,numpy<2"),
        ("sagemaker-xgboost:3.0-5", "xgboost==3.0.*,pandas,scikit-learn"),
        ("pytorch-training:2.8.0-gpu-py312-cu129", "torch==2.8.*,torchvision"),
        ("pytorch-training:1.13-cpu-py39", "torch==1.13.*,torchvision,numpy<2"),
        (
            "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04",
            "torch==2.1.*,transformers==4.36.*,datasets,accelerate,numpy<2",
        ),
        ("tensorflow-training@sha256:00", ""),
        ("sagemaker-distribution:3.0.0-cpu", ""),
    ],
)
def test_a_matching_environment_has_the_version_of_the_image(root: Path, image: str, packages: str) -> None:
    uri = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{image}"
    algorithm = {"TrainingImage": uri, "TrainingInputMode": "File"}
    found = translate(a_request(AlgorithmSpecification=algorithm), root, match_images=True)
    assert found.python == (f"uv:{packages}" if packages else "")
    assert uri in found.notes[0]
    assert translate(a_request(AlgorithmSpecification=algorithm), root).python == ""


def test_fields_without_an_effect_are_noted_and_others_refused(root: Path) -> None:
    """Case 76; what every SDK sends has no note."""
    assert len(translate(a_request(ExperimentConfig={"RunName": "x"}), root).notes) == 1
    many = {
        "VpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]},
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/", "KmsKeyId": "key"},
        "RemoteDebugConfig": {"EnableRemoteDebug": False},
        "EnableInterContainerTrafficEncryption": True,
        "NewOfNextYear": {"On": True},
    }
    notes = translate(a_request(**many), root).notes[1:]
    assert [note.partition(":")[0] for note in notes] == [
        "EnableInterContainerTrafficEncryption",
        "OutputDataConfig.KmsKeyId",
        "VpcConfig",
        "NewOfNextYear",
    ]
    algorithm = {"AlgorithmName": "arn:aws:sagemaker:us-east-1:1:algorithm/x", "TrainingInputMode": "File"}
    assert "AlgorithmSpecification.AlgorithmName is not supported" in refusal(
        a_request(AlgorithmSpecification=algorithm), root
    )


def test_members_of_a_newer_api_are_noted_at_any_depth(root: Path) -> None:
    channel = a_channel(f"s3://{BUCKET}/data/train", Newer=1, S3DataSource={"Newest": "x"})
    request = a_request(InputDataConfig=[channel, channel], DebugHookConfig={"S3OutputPath": "s3://a/b", "Newer": True})
    request["ResourceConfig"] = {**request["ResourceConfig"], "Newer": {"Depth": 1}}
    notes = [note for note in translate(request, root).notes if "does not know it" in note]
    assert [note.partition(":")[0] for note in notes] == [
        "InputDataConfig.Newer",
        "InputDataConfig.DataSource.S3DataSource.Newest",
        "ResourceConfig.Newer",
    ]


@pytest.mark.parametrize(
    ("structure", "shape"),
    [
        ("AlgorithmSpecification", "AlgorithmSpecification"),
        ("AppSpecification", "AppSpecification"),
        ("CheckpointConfig", "CheckpointConfig"),
        ("InputDataConfig", "Channel"),
        ("InputDataConfig.DataSource", "DataSource"),
        ("InputDataConfig.DataSource.S3DataSource", "S3DataSource"),
        ("NetworkConfig", "NetworkConfig"),
        ("OutputDataConfig", "OutputDataConfig"),
        ("ProcessingInputs", "ProcessingInput"),
        ("ProcessingInputs.S3Input", "ProcessingS3Input"),
        ("ProcessingOutputConfig.Outputs.S3Output", "ProcessingS3Output"),
        ("ProcessingResources.ClusterConfig", "ProcessingClusterConfig"),
        ("ResourceConfig", "ResourceConfig"),
        ("RetryStrategy", "RetryStrategy"),
        ("StoppingCondition", "StoppingCondition"),
    ],
)
def test_no_member_of_the_present_api_is_noted_as_unknown(structure: str, shape: str) -> None:
    answered = {"SelectedInstanceType", "SelectedInstanceCount"}
    assert {*model().shape_for(shape).members} - answered <= {*KNOWN[structure]}


@pytest.mark.parametrize(("wanted", "kept", "notes"), [(None, 0, 0), (0, 0, 0), (3_600, 3_600, 0), (21_600, 3_600, 1)])
def test_a_keep_alive_is_that_of_the_request_up_to_the_limit(
    root: Path, wanted: int | None, kept: int, notes: int
) -> None:
    """Case 16. A job without a keep-alive ends its pool, as on SageMaker."""
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
    resources |= {} if wanted is None else {"KeepAlivePeriodInSeconds": wanted}
    found = translate(a_request(ResourceConfig=resources), root, keep_alive_cap=3_600)
    assert (found.fields["keep_alive"], len(found.notes) - 1) == (kept, notes)


def test_spot_checkpoints_and_an_uncompressed_model(root: Path) -> None:
    request = a_request(
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 120},
        CheckpointConfig={"S3Uri": f"s3://{BUCKET}/cp/", "LocalPath": "/opt/ml/cp"},
        OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out/", "CompressionType": "NONE"},
    )
    found = translate(request, root)
    expected = {"spot": True, "max_run": 60, "max_wait": 120, "disable_output_compression": True}
    expected |= {"checkpoint": str(root / BUCKET / "cp"), "checkpoint_local_path": "/opt/ml/cp"}
    assert expected.items() <= found.fields.items()
    assert found.outputs[0].destination == str(root / BUCKET / "out/{job_name}/output/model")
    assert model_uri(request) == f"s3://{BUCKET}/out/job/output/model/"


def test_errors_name_members_of_the_api_and_no_options() -> None:
    text = "--instance-count: 9 hosts of --job-name x, not --spot; see a--b and --all."
    words = (
        "ResourceConfig.InstanceCount: 9 hosts of TrainingJobName x, not EnableManagedSpotTraining; see a--b and --all."
    )
    assert to_api_words(text, "train") == words
    assert to_api_words("DURATION: 6 h of DURATION", "train") == (
        "ResourceConfig.KeepAlivePeriodInSeconds: 6 h of DURATION"
    )
    assert to_api_words("--job-name, --arg", "process") == "ProcessingJobName, AppSpecification.ContainerArguments"
