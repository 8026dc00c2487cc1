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

_FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "sagemaker-scikit-learn": ("scikit-learn", "pandas", "joblib"),
    "sagemaker-xgboost": ("xgboost", "pandas", "scikit-learn"),
    "pytorch-training": ("torch", "torchvision"),
    "pytorch-inference": ("torch", "torchvision"),
    "tensorflow-training": ("tensorflow",),
    "huggingface-pytorch-training": ("torch", "transformers", "datasets", "accelerate"),
    "huggingface-tensorflow-training": ("tensorflow", "transformers", "datasets"),
    "autogluon-training": ("autogluon",),
    "sagemaker-spark-processing": ("pyspark",),
    "sagemaker-base-python": ("sagemaker",),
    "sagemaker-distribution": (),
}
"""Repositories of AWS whose jobs run a script, and packages of their images; the tag has the version of the first."""
_VERSION = re.compile(r"(\d+)\.(\d+)")
_NUMPY_2 = {"scikit-learn": (1, 5), "torch": (2, 3)}
"""First versions that run with numpy 2; earlier ones do not say so in their metadata."""
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
        "xgboost",
    }
)
"""Repositories of the algorithms that are compiled into their images; ``xgboost`` has the versions before 0.90."""
_XGBOOST = "sagemaker-xgboost"
"""Repository of XGBoost from 0.90 on, whose image runs a script, or without one its algorithm."""
_OURS = "smx.local/"
"""Registry of images that are names of this package's own: the front's Python, or that of a job."""
_URI = re.compile(r"(?:(?P<registry>[^/]+\.[^/]+|localhost(?::\d+)?)/)?(?P<name>[^:@]+)(?::(?P<tag>[^@]*))?(?:@.*)?")


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


def has_own_program(uri: str) -> bool:
    """Return True for an image that runs a program without a script: an algorithm of SageMaker's, or a private image.

    Images of frameworks, and those of this package, run scripts alone.
    """
    name = repository(uri)
    if is_built_in(uri) or name == _XGBOOST:
        return True
    runs_scripts = name in _FRAMEWORKS or _UNUSABLE.fullmatch(name) is not None or uri.startswith(_OURS)
    return bool(uri) and not runs_scripts


def matching_packages(uri: str) -> tuple[str, ...]:
    """Return requirements with the framework's version of an image; none for an image without such a version.

    >>> matching_packages("683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3")
    ('scikit-learn==1.2.*', 'pandas', 'joblib', 'numpy<2')
    """
    packages = _FRAMEWORKS.get(repository(uri), ())
    found = _URI.fullmatch(uri)
    tag = (found["tag"] or "") if found else ""
    version = _VERSION.match(tag)
    if not packages or version is None:
        return ()
    first, *others = packages
    words = [f"{first}=={version[0]}.*", *others]
    if own := re.search(rf"transformers{_VERSION.pattern}", tag):
        words = [f"transformers=={own[1]}.{own[2]}.*" if word == "transformers" else word for word in words]
    is_old = (int(version[1]), int(version[2])) < _NUMPY_2.get(first, (0, 0))
    return (*words, *(("numpy<2",) if is_old else ()))


def find_rule(uri: str, rules: Iterable[ImageRule]) -> ImageRule | None:
    """Return the first rule that matches an image; None without one."""
    return next((rule for rule in rules if re.search(rule.pattern, uri)), None)


def choose_interpreter(uri: str, rules: Iterable[ImageRule], *, match: bool = False) -> ImageChoice:
    """Return what a job with a script runs on an engine without images.

    With ``match`` it is an environment with the framework's version of the image, which is built once.

    :raises AwsError: nothing here can stand for the image.
    """
    rule = find_rule(uri, rules)
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
    if name in _FRAMEWORKS:
        return _framework_choice(uri, matching_packages(uri) if match else ())
    if uri.startswith(_OURS):
        return ImageChoice()
    raise validation_error(
        f"The image {uri} is private, and the engine of this front runs no images. Choose an engine with images "
        "(c.SmxAws.engine = 'docker'), or an interpreter for it (c.SmxAws.images)."
    )


def _framework_choice(uri: str, packages: tuple[str, ...]) -> ImageChoice:
    if packages:
        words = ",".join(packages)
        return ImageChoice(python=f"uv:{words}", note=f"Image {uri}: runs an environment of {words} in its place.")
    versions = ", ".join(_FRAMEWORKS[repository(uri)]) or "its packages"
    note = f"Image {uri}: runs this notebook's Python in its place, with the installed versions of {versions}."
    return ImageChoice(note=note)


def built_in_error(uri: str) -> AwsError:
    """Return the refusal of a built-in algorithm."""
    return validation_error(
        f"The image {uri} is a built-in algorithm of SageMaker: there is no script that could run here. Use an "
        "estimator with a script, name a Python whose folder has a program `train` (c.SmxAws.images), or go back to "
        "AWS with `%smx aws off`."
    )
