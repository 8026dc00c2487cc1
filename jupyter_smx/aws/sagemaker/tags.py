"""The operations on tags of jobs: ListTags, AddTags and DeleteTags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.contract.platform_variables import ACCOUNT
from jupyter_smx.aws.sagemaker.errors import validation_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.sagemaker.jobs import Kind, NamedJobs
    from jupyter_smx.aws.service import Caller, Operation

MAX_TAGS = 50
_ARN = re.compile(rf"arn:aws[a-z\-]*:sagemaker:[^:]*:{ACCOUNT}:(?P<kind>training|processing)-job/(?P<name>[^/]+)")
_KINDS: dict[str, Kind] = {"training": "train", "processing": "process"}


class Tags:
    """Answers the operations on tags."""

    def __init__(self, jobs: NamedJobs) -> None:
        self._jobs = jobs

    def operations(self) -> Mapping[str, Operation]:
        """Return the operations by their names."""
        return {"ListTags": self.list_tags, "AddTags": self.add, "DeleteTags": self.delete}

    async def list_tags(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """List all tags of a job."""
        del caller
        return {"Tags": _format(self._read(await self._find(request)))}

    async def add(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Add tags to a job; of a key that it has, the value is replaced."""
        del caller
        job = await self._find(request)
        tags = self._read(job) | {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        if len(tags) > MAX_TAGS:
            raise validation_error(f"The resource would have {len(tags)} tags, and it may have {MAX_TAGS}.")
        self._jobs.requests.set_tags(job, tags)
        return {"Tags": _format(tags)}

    async def delete(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Delete tags of a job by their keys."""
        del caller
        job = await self._find(request)
        keys = set(request["TagKeys"])
        self._jobs.requests.set_tags(job, {key: value for key, value in self._read(job).items() if key not in keys})
        return {}

    def _read(self, job: str) -> dict[str, str]:
        return self._jobs.requests.read(job).tags

    async def _find(self, request: Mapping[str, Any]) -> str:
        """Return the id of the job that an ARN names."""
        arn = request["ResourceArn"]
        named = _ARN.fullmatch(arn)
        unknown = validation_error(f"Requested resource not found: {arn} is no training or processing job here.")
        if named is None:
            raise unknown
        return (await self._jobs.find_or_raise(_KINDS[named["kind"]], named["name"], unknown)).job.id


def _format(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
