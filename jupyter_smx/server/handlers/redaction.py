"""Records of jobs as the browser gets them: it shows where files lie and what was asked for, and needs no secret."""

from __future__ import annotations

import msgspec

from jupyter_smx.model import redaction


def redact_body(body: bytes) -> bytes:
    """Give an answer of the controller without a job's secrets and what opens its URLs; what is no record stays.

    The controller itself gives them whole: kernels hand the wish in again for a rerun.
    """
    if b'"spec"' not in body:
        return body
    record = msgspec.json.decode(body)
    if not isinstance(record, dict) or "spec" not in record:
        return body
    return msgspec.json.encode(redaction.redact_record(record))
