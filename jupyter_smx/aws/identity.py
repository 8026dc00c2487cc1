"""Answer with the identity of a client and what it may do: STS and IAM as far as clients of SageMaker ask.

Every ARN of the right form is a role, every action is allowed: the jobs run as the user in any case.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import msgspec

from jupyter_smx.aws.service import Caller, Service

ACCOUNT = "000000000000"
"""As in the ARNs that jobs see (``jupyter_smx.agent.contract.platform_variables``)."""
ROLE = "Smx"
"""Name of the role that ``get_execution_role()`` returns."""
_SESSION = "jupyter-smx"
_CREATED = datetime(2024, 1, 1, tzinfo=timezone.utc)
_ID_DIGITS = 17
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"},
    ],
}


def role_arn(name: str, path: str = "/") -> str:
    """Return the ARN of a role."""
    return f"arn:aws:iam::{ACCOUNT}:role{path}{name}"


def make_sts() -> Service:
    """Return STS: the one question that clients ask."""
    return Service("sts", {"GetCallerIdentity": _get_caller_identity})


def make_iam() -> Service:
    """Return IAM: roles as clients look at them before they train."""
    return Service(
        "iam",
        {"GetRole": _get_role, "ListRoles": _list_roles, "SimulatePrincipalPolicy": _simulate_principal_policy},
    )


async def _get_caller_identity(_: dict[str, Any], __: Caller) -> dict[str, Any]:
    return {
        "UserId": f"{_unique_id('AROA', ROLE)}:{_SESSION}",
        "Account": ACCOUNT,
        "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE}/{_SESSION}",
    }


async def _get_role(members: dict[str, Any], _: Caller) -> dict[str, Any]:
    return {"Role": _describe_role(members["RoleName"])}


async def _list_roles(members: dict[str, Any], _: Caller) -> dict[str, Any]:
    path = members.get("PathPrefix", "/")
    return {"Roles": [_describe_role(ROLE)] if path == "/" else [], "IsTruncated": False}


async def _simulate_principal_policy(members: dict[str, Any], _: Caller) -> dict[str, Any]:
    resources = members.get("ResourceArns") or ["*"]
    results = [
        {
            "EvalActionName": action,
            "EvalResourceName": resource,
            "EvalDecision": "allowed",
            "MatchedStatements": [],
            "MissingContextValues": [],
        }
        for action in members["ActionNames"]
        for resource in resources
    ]
    return {"EvaluationResults": results, "IsTruncated": False}


def _describe_role(name: str) -> dict[str, Any]:
    return {
        "Path": "/",
        "RoleName": name,
        "RoleId": _unique_id("AROA", name),
        "Arn": role_arn(name),
        "CreateDate": _CREATED,
        "AssumeRolePolicyDocument": quote(msgspec.json.encode(_TRUST).decode(), safe=""),
        "MaxSessionDuration": 43_200,
    }


def _unique_id(prefix: str, name: str) -> str:
    """Return an ID as IAM has them, the same one for the same name."""
    return prefix + hashlib.sha256(name.encode()).hexdigest()[:_ID_DIGITS].upper()
