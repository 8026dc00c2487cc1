"""``--after``: convert the names and handles of jobs to the ids in a job request."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError
from jupyter_smx.model.options.run_options import HasJobId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.model.options.run_options import After


def dependency_ids(after: After, namespace: Mapping[str, Any], client: Client) -> tuple[str, ...]:
    """Return the ids of jobs given as handles, notebook variables with handles, names, ids or prefixes.

    :raises ResourceNotFoundError: there is no such job, or several.
    :raises ValidationError: a value is neither a handle nor a name.
    """
    several = after if isinstance(after, Iterable) and not isinstance(after, (str, HasJobId)) else (after,)
    return tuple(dict.fromkeys(_dependency_id(each, namespace, client) for each in several))


def _dependency_id(each: object, namespace: Mapping[str, Any], client: Client) -> str:
    found = namespace.get(each, each) if isinstance(each, str) else each
    if isinstance(found, HasJobId):
        return found.id
    if isinstance(each, str):
        return _id_by_name(each, client)
    raise ValidationError(
        f"--after: a value of type {type(each).__name__} is not a job.",
        field="after",
        value=each,
        rule="Use job handles, names, IDs, or the start of a name or ID.",
        cure="`%smx jobs` lists them.",
    )


def _id_by_name(ref: str, client: Client) -> str:
    try:
        return client.job(ref).id
    except ResourceNotFoundError as error:
        with suppress(ResourceNotFoundError):
            return client.array(ref, tasks=False).id
        said = f"--after: {error.message[:1].lower()}{error.message[1:]}"
        raise ResourceNotFoundError(said, field="after", value=ref, rule=error.rule, cure=error.cure) from None
