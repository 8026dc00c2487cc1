from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.options import option_values as values
from jupyter_smx.kernel.options.distribution_value import parse_distribution
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path("/home/me/nb")
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)


@given(
    NAMES,
    st.sampled_from(["File", "FastFile"]),
    st.sampled_from(["FullyReplicated", "ShardedByS3Key"]),
    st.lists(st.from_regex(r"[a-z]{1,5}", fullmatch=True), max_size=3),
)
def test_a_channel_comes_back_as_it_was_written(name: str, mode: Any, distribution: Any, groups: Any) -> None:
    text = f"{name}=/data/a=b,c.csv,mode={mode},distribution={distribution},groups={'+'.join(groups)}"
    assert values.parse_channel(text, HERE) == Channel(
        name=name, source="/data/a=b,c.csv", mode=mode, distribution=distribution, groups=tuple(groups)
    )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("data/train", "/home/me/nb/data/train"),
        ("/abs", "/abs"),
        ("~nobody-here.csv", "/home/me/nb/~nobody-here.csv"),
        ("s3://bucket/key", "s3://bucket/key"),
        ("zip::s3://b/x.zip", "zip::s3://b/x.zip"),
        ("data/*.csv", "/home/me/nb/data/*.csv"),
    ],
)
def test_paths_start_beside_the_notebook_and_urls_stay(source: str, found: Any) -> None:
    assert values.parse_channel(f"train={source}", HERE).source == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("train", "has no ="),
        ("=x", "no name before the ="),
        ("train=", "the source is missing"),
        ("tr ain=x", "is not a valid channel name"),
        ("train=x,mode=pipe", "mode pipe is not supported"),
        ("train=x,distribution=shard", "Did you mean sharded"),
        ("train=x,groop=a", "groop is not a channel property.*Did you mean groups"),
    ],
)
def test_a_wrong_channel_is_refused_with_its_part(text: str, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        values.parse_channel(text, HERE)


def test_outputs_of_a_processing_job_have_a_folder_in_the_job_and_a_place_here() -> None:
    assert values.parse_output("clean=", "process", HERE) == Output(
        name="clean", path="/opt/ml/processing/output/clean"
    )
    assert values.parse_output("clean=/opt/x:out", "process", HERE) == Output(
        name="clean", path="/opt/x", destination="/home/me/nb/out"
    )
    assert values.parse_output("clean=:s3://b/k", "process", HERE).destination == "s3://b/k"
    with pytest.raises(ValidationError, match=r"--output clean=:data for the default folder"):
        values.parse_output("clean=data", "process", HERE)


def test_outputs_of_a_training_job_are_model_and_data() -> None:
    assert values.parse_output("model=models", "train", HERE) == Output(
        name="model", path="/opt/ml/model", destination="/home/me/nb/models"
    )
    assert values.parse_output("data=", "train", HERE).path == "/opt/ml/output/data"
    for text in ("model=/opt/ml/model:models", "model=:models"):
        assert values.parse_output(text, "train", HERE) == values.parse_output("model=models", "train", HERE)
    assert values.parse_output("data=/opt/ml/output/data:s3://b/k", "train", HERE).destination == "s3://b/k"
    for there in ("/opt/ml/model", "/opt/ml/model/best:models", "/opt/ml"):
        with pytest.raises(ValidationError, match=r"is a folder in the job\. .*For example --output model=results\."):
            values.parse_output(f"model={there}", "train", HERE)
    with pytest.raises(ValidationError, match="Did you mean model"):
        values.parse_output("modl=x", "train", HERE)


def test_a_group_is_a_name_a_type_and_a_count() -> None:
    assert values.parse_group("a:ml.m5.large:2") == InstanceGroup(
        name="a", instance_type="ml.m5.large", instance_count=2
    )
    for text in ("a:ml.m5.large", "a::1", "a:b:c:d", "a:b:0", "a:b:two"):
        with pytest.raises(ValidationError, match="--group"):
            values.parse_group(text)


@pytest.mark.parametrize(
    ("read", "cure"),
    [
        (lambda: values.parse_group("a:local:0"), "For example --group a:local:1."),
        (lambda: values.parse_group("a:local:x,until=b"), "For example --group a:local:1,until=b."),
        (
            lambda: parse_distribution("torchrun,processes=0,groups=a"),
            "For example --distribution torchrun,processes=1,groups=a.",
        ),
        (lambda: parse_number(0, "--instance-count", "of hosts", 1), "For example --instance-count 1."),
        (lambda: values.parse_pair("lr", "--env", "NAME=VALUE"), "For example --env lr=VALUE."),
        (lambda: values.parse_pair("a-b", "--env", "NAME=VALUE"), "For example --env a_b=VALUE."),
        (lambda: values.parse_pair("1", "--env", "NAME=VALUE"), "For example --env NAME=VALUE."),
        (lambda: values.parse_pair("l r", "--hp", "NAME=VALUE"), "For example --hp l_r=VALUE."),
        (lambda: values.parse_pair("my-lr", "--hp", "NAME=VALUE"), "For example --hp my-lr=VALUE."),
        (lambda: values.parse_pair("=1", "--hp", "NAME=VALUE"), "For example --hp NAME=VALUE."),
        (lambda: values.parse_metrics(["x"]), "For example --metric x=REGEX."),
        (lambda: values.parse_channel("train", HERE), "For example --input train=SOURCE."),
        (lambda: values.parse_output("model", "train", HERE), "For example --output model=PATH."),
    ],
)
def test_an_example_is_one_that_can_be_typed(read: Callable[[], object], cure: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        read()
    assert refusal.value.cure == cure
    assert " " not in refusal.value.field


@pytest.mark.parametrize(("text", "data_type"), [("", "S3Prefix"), (",type=manifest", "ManifestFile")])
def test_a_channel_says_what_its_source_is(text: str, data_type: str) -> None:
    found = values.parse_channel(f"train=s3://bucket/list{text}", HERE)
    assert (found.data_type, found.source) == (data_type, "s3://bucket/list")


@pytest.mark.parametrize(
    ("words", "said", "cure"),
    [
        ("mode=Pipe", "mode Pipe", "FastFile"),
        ("mode=pipe,type=manifest", "mode pipe", "FastFile"),
        ("compression=Gzip", "compression", "gzip"),
        ("CompressionType=Gzip", "CompressionType", "gzip"),
        ("mode=FastFile,s3_compression_type=Gzip", "s3_compression_type", "gzip"),
        ("record_wrapping=RecordIO", "record_wrapping", "create the records"),
        ("RecordWrapperType=RecordIO,mode=File", "RecordWrapperType", "create the records"),
        ("shuffle_config=7", "shuffle_config", "--hp"),
        ("type=AugmentedManifestFile", "type AugmentedManifestFile", "as one channel"),
        ("attribute_names=source-ref", "attribute_names", "as one channel"),
    ],
)
def test_what_only_sagemaker_has_is_refused_by_its_name_with_what_to_take_in_its_place(
    words: str, said: str, cure: str
) -> None:
    with pytest.raises(ValidationError) as refusal:
        values.parse_channel(f"train=s3://bucket/x,{words}", HERE)
    assert refusal.value.message == f"--input train: {said} is not supported."
    assert cure in refusal.value.cure
    assert refusal.value.rule


@pytest.mark.parametrize("launcher", ["smdistributed", "smddp", "smdataparallel", "pytorchddp", "pytorchxla"])
def test_a_launcher_of_sagemakers_images_is_refused_with_the_one_to_take(launcher: str) -> None:
    with pytest.raises(ValidationError, match=f"--distribution {launcher} is not supported") as refusal:
        parse_distribution(f"{launcher},processes=2")
    assert refusal.value.cure.startswith("Use --distribution torchrun")


def test_a_url_of_a_file_here_is_its_path() -> None:
    assert values.parse_channel("train=file:///data/x", HERE).source == "/data/x"


def test_a_channel_says_the_kind_of_its_content() -> None:
    found = values.parse_channel("train=s3://bucket/a,content_type=text/csv; charset=utf-8,mode=FastFile", HERE)
    assert (found.content_type, found.mode, found.source) == ("text/csv; charset=utf-8", "FastFile", "s3://bucket/a")
    assert values.parse_channel("raw=data,path=/opt/ml/processing/input", HERE).path == "/opt/ml/processing/input"
    with pytest.raises(ValidationError, match="Did you mean content_type"):
        values.parse_channel("train=s3://bucket/a,content_typ=text/csv", HERE)
