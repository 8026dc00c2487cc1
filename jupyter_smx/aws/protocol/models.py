"""Load botocore's models of the services that are here: a model costs up to 0.2 s, so each is loaded once."""

from __future__ import annotations

import functools
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader
from botocore.model import OperationNotFoundError, ServiceModel

SIGNING_NAMES = {"sagemaker": "sagemaker", "logs": "logs", "cloudwatch": "monitoring", "sts": "sts", "iam": "iam"}
"""The service in the credential scope of a request, by botocore's name."""
_TARGET_PREFIXES = {"SageMaker": "sagemaker", "Logs_20140328": "logs", "GraniteServiceVersion20100801": "cloudwatch"}
"""Older models of CloudWatch have no prefix, and newer clients send one."""


@functools.cache
def load_model(service: str) -> Any:
    """Return botocore's ``ServiceModel`` of a service.

    :raises ValueError: botocore has no such service.
    """
    try:
        return ServiceModel(Loader().load_service_model(service, "service-2"), service)
    except UnknownServiceError as error:
        raise ValueError(f"botocore has no model of {service}") from error


def service_of_target(prefix: str) -> str:
    """Return the service whose header ``X-Amz-Target`` begins with ``prefix``, "" for another."""
    return _TARGET_PREFIXES.get(prefix, "")


def find_operation(service: str, operation: str) -> Any | None:
    """Return botocore's ``OperationModel``; None if the service has no such operation."""
    try:
        return load_model(service).operation_model(operation)
    except OperationNotFoundError:
        return None


@functools.cache
def service_of_scope(name: str) -> str:
    """Return the service that signs with ``name``, "" for another."""
    return next((service for service, signing in SIGNING_NAMES.items() if signing == name), "")
