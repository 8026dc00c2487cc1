"""What stands for an image on an engine without images: an interpreter with a note, or a refusal that says why. Pure.

The repository in the URI names the framework; account and region do not matter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.aws.sagemaker.errors import validation_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.aws.sagemaker.settings import ImageRule
    from jupyter_smx.aws.service import AwsError

_FRAMEWORKS = {
    "sagemaker-scikit-learn": "scikit-learn",
    "sagemaker-xgboost": "xgboost",
    "pytorch-training": "torch",
    "pytorch-inference": "torch",
    "tensorflow-training": "tensorflow",
    "huggingface-pytorch-training": "torch and transformers",
    "huggingface-tensorflow-training": "tensorflow and transformers",
    "autogluon-training": "autogluon",
    "sagemaker-spark-processing": "pyspark",
    "sagemaker-base-python": "sagemaker",
    "sagemaker-distribution": "the packages of SageMaker Distribution",
}
"""Repositories of AWS whose jobs run a script, and the packages that the interpreter should have."""
_UNUSABLE = re.compile(
    r"mxnet-training|sagemaker-chainer|sagemaker-rl-.*|smdistributed-.*|.*-trcomp-.*|djl-.*|.*-neo-.*|.*-neuronx?"
    r"|sagemaker-clarify-processing|sagemaker-debugger-.*|sagemaker-data-wrangler-container|sagemaker-model-monitor-.*"
)
_BUILT_IN = frozenset(
    {
        "blazingtext",
        "factorization-machines",
        "forecasting-deepar",
        "image-classification",
        "instance-segmentation",
        "ipinsights",
        "kmeans",
        "knn",
        "lda",
        "linear-learner",
        "ntm",
        "object-detection",
        "object2vec",
        "pca",
        "randomcutforest",
        "semantic-segmentation",
        "seq2seq",
    }
)
"""Repositories of the algorithms that are compiled into their images."""
_URI = re.compile(r"(?:(?P<registry>[^/]+\.[^/]+|localhost(?::\d+)?)/)?(?P<name>[^:@]+)(?:[:@].*)?")


class ImageChoice(Struct, frozen=True, kw_only=True):
    """The interpreter as ``--python`` names it ("" is the front's own), and a note for the job."""

    python: str = ""
    note: str = ""


def repository(uri: str) -> str:
    """Return the last part of the repository of an image, as ``sagemaker-scikit-learn``."""
    found = _URI.fullmatch(uri)
    return (found["name"] if found else uri).rsplit("/", 1)[-1]


def is_built_in(uri: str) -> bool:
    """Return True for an algorithm of SageMaker's, whose image has the only program that can run it."""
    return repository(uri) in _BUILT_IN


def choose_interpreter(uri: str, rules: Iterable[ImageRule]) -> ImageChoice:
    """Return what a job with a script runs on an engine without images.

    :raises AwsError: nothing here can stand for the image.
    """
    rule = next((rule for rule in rules if re.search(rule.pattern, uri)), None)
    if rule is not None:
        return ImageChoice(python=rule.python, note=f"Image {uri}: runs the Python {rule.python} in its place.")
    name = repository(uri)
    if is_built_in(uri):
        raise built_in_error(uri)
    if _UNUSABLE.fullmatch(name):
        raise validation_error(
            f"The image {uri} cannot be run here: its program exists only in that image. Use an estimator with a "
            "script, or go back to AWS with `%smx aws off`."
        )
    if packages := _FRAMEWORKS.get(name):
        return ImageChoice(
            note=f"Image {uri}: runs this notebook's Python in its place, with the versions of {packages} that are "
            "installed there."
        )
    if uri.startswith("smx.local/"):
        return ImageChoice()
    raise validation_error(
        f"The image {uri} is private, and the engine of this front runs no images. Choose an engine with images "
        "(c.SmxAws.engine = 'docker'), or an interpreter for it (c.SmxAws.images)."
    )


def built_in_error(uri: str) -> AwsError:
    """Return the refusal of a built-in algorithm."""
    return validation_error(
        f"The image {uri} is a built-in algorithm of SageMaker: there is no script that could run here. Use an "
        "estimator with a script, or go back to AWS with `%smx aws off`."
    )
