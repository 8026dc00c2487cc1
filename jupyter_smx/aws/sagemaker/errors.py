"""Errors of the operations, with the codes and texts that clients compare."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

from jupyter_smx.aws.sagemaker.api_words import to_api_words
from jupyter_smx.aws.service import AwsError
from jupyter_smx.model.errors import (
    ResourceInUseError,
    ResourceLimitError,
    SmxError,
    UnavailableError,
)

VALIDATION = "ValidationException"


def validation_error(message: str) -> AwsError:
    """Return the error of an invalid request."""
    return AwsError(VALIDATION, message)


def unsupported_error(field: str, reason: str, cure: str) -> AwsError:
    """Return the refusal of a field that no job here can have; names the field, the reason and the cure."""
    return validation_error(f"{field} is not supported: {reason} {cure}".rstrip())


def unknown_training_job_error() -> AwsError:
    """Return the error of a training job that does not exist; clients compare its beginning."""
    return validation_error("Requested resource not found.")


def unknown_processing_job_error(name: str, arn: str) -> AwsError:
    """Return the error of a processing job that does not exist; clients compare its beginning."""
    return validation_error(f"Could not find requested job with name: {name} ({arn})")


def unknown_update_error(name: str) -> AwsError:
    """Return the error of a stop of a processing job that does not exist."""
    return validation_error(f"Could not find job to update with name {name}.")


def ended_job_error(what: str, status: str) -> AwsError:
    """Return the refusal to stop a job that has ended; ``what`` is ``training`` or ``processing``."""
    return validation_error(
        f"The request was rejected because the {what} job is in status {status}. "
        f"Only jobs that are in progress can be stopped."
    )


def name_taken_error(what: str, holder: str, arn: str) -> AwsError:
    """Return the error of a name that another job has; both kinds are ``Training`` or ``Processing``."""
    return AwsError(
        "ResourceInUse",
        f"{what} job names must be unique within an AWS account and region, "
        f"and a {holder.lower()} job with this name already exists ({arn})",
    )


def aws_error(error: SmxError, kind: Literal["train", "process"] = "train") -> AwsError:
    """Return an error of the controller as a client of AWS reads it, about a request for a kind of job."""
    text = to_api_words(str(error), kind)
    if isinstance(error, UnavailableError):
        return AwsError("ServiceUnavailable", text, HTTPStatus.SERVICE_UNAVAILABLE)
    if isinstance(error, ResourceLimitError):
        return AwsError("ResourceLimitExceeded", text)
    if isinstance(error, ResourceInUseError):
        return AwsError("ResourceInUse", text)
    return validation_error(text)
