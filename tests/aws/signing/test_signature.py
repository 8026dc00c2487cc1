"""Signature Version 4: requests that botocore's own signer signs pass, and each change of them is refused."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from http import HTTPStatus
from typing import Any
from unittest import mock
from urllib.parse import quote, urlsplit

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.aws.service import AwsError
from jupyter_smx.aws.signature import Credential, RequestHead, check_signature, is_presigned, read_credential
from jupyter_smx.aws.signing import canonical

KEY, SECRET = "SMXAAAAAAAAAAAAAAAAA", "s" * 40
SECRETS = {KEY: SECRET}
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=timezone.utc)
BODY = b'{"TrainingJobName": "a"}'
DIGEST = hashlib.sha256(BODY).hexdigest()
TARGET = {"X-Amz-Target": "SageMaker.DescribeTrainingJob", "Content-Type": "application/x-amz-json-1.1"}


def signed(
    signer: type[auth.BaseSigner] = auth.SigV4Auth,
    url: str = "http://127.0.0.1:9000/",
    service: str = "sagemaker",
    headers: dict[str, str] | None = None,
    **options: Any,
) -> RequestHead:
    """Return the head of a request as botocore signs it at NOW."""
    request = AWSRequest("POST", url, headers=TARGET if headers is None else headers, data=BODY)
    credentials = Credentials(options.pop("key", KEY), options.pop("secret", SECRET))
    with mock.patch("botocore.auth.get_current_datetime", return_value=options.pop("at", NOW).replace(tzinfo=None)):
        signer(credentials, service, "eu-central-1", **options).add_auth(request)
    parts = urlsplit(request.prepare().url)
    lowered = {name.lower(): value for name, value in request.headers.items()}
    return RequestHead("POST", parts.path, parts.query, {"host": parts.netloc, **lowered})


def check(head: RequestHead, digest: str = DIGEST, at: float = 0) -> Credential:
    return check_signature(head, digest, SECRETS, NOW.timestamp() + at)


def refusal(head: RequestHead, digest: str = DIGEST, at: float = 0) -> AwsError:
    with pytest.raises(AwsError) as error:
        check(head, digest, at)
    return error.value


def with_headers(head: RequestHead, **headers: str) -> RequestHead:
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    return RequestHead(head.method, head.path, head.query, {**head.headers, **changed})


def test_a_request_of_botocore_passes_and_names_its_scope() -> None:
    assert check(signed()) == Credential(KEY, "20260131", "eu-central-1", "sagemaker")
    assert read_credential(signed()).service == "sagemaker"


@pytest.mark.parametrize("at", [-14 * 60, 14 * 60])
def test_clocks_may_differ_by_fifteen_minutes(at: float) -> None:
    assert check(signed(), at=at).access_key == KEY


@pytest.mark.parametrize("at", [-20 * 60, 20 * 60])
def test_a_clock_that_is_twenty_minutes_off_is_refused_with_both_times(at: float) -> None:
    error = refusal(signed(), at=at)
    assert (error.code, error.status) == ("RequestTimeTooSkewed", HTTPStatus.FORBIDDEN)
    assert "2026-01-31T12:00:00Z" in error.message
    assert ("2026-01-31T11:40:00Z" if at < 0 else "2026-01-31T12:20:00Z") in error.message


def test_a_request_without_a_signature_is_refused() -> None:
    error = refusal(RequestHead("POST", "/", "", {"host": "127.0.0.1:9000"}))
    assert (error.code, error.status) == ("MissingAuthenticationToken", HTTPStatus.FORBIDDEN)


def test_a_wrong_secret_is_refused() -> None:
    error = refusal(signed(secret="x" * 40))
    assert (error.code, error.status) == ("SignatureDoesNotMatch", HTTPStatus.FORBIDDEN)


@pytest.mark.parametrize(
    ("service", "code"),
    [("s3", "InvalidAccessKeyId"), ("sts", "InvalidClientTokenId"), ("logs", "UnrecognizedClientException")],
)
def test_an_unknown_key_is_refused_by_the_code_of_its_service(service: str, code: str) -> None:
    error = refusal(signed(service=service, key="AKIAIOSFODNN7EXAMPLE"))
    assert (error.code, error.status) == (code, HTTPStatus.FORBIDDEN)
    assert "jupyter smx aws env" in error.message


def test_a_changed_body_is_refused() -> None:
    assert refusal(signed(), hashlib.sha256(b"other").hexdigest()).status == HTTPStatus.FORBIDDEN


def test_an_unsigned_amz_header_is_refused() -> None:
    error = refusal(with_headers(signed(), x_amz_acl="public-read"))
    assert (error.code, error.status) == ("AccessDenied", HTTPStatus.FORBIDDEN)
    assert "x-amz-acl" in error.message


@pytest.mark.parametrize("change", [{"x_amz_target": "SageMaker.StopTrainingJob"}, {"host": "evil.example:9000"}])
def test_another_target_or_host_is_refused(change: dict[str, str]) -> None:
    assert refusal(with_headers(signed(), **change)).code == "SignatureDoesNotMatch"


def test_another_method_path_or_query_is_refused() -> None:
    head = signed()
    for changed in (("GET", "/", ""), ("POST", "/x", ""), ("POST", "/", "a=1")):
        assert refusal(RequestHead(*changed, head.headers)).code == "SignatureDoesNotMatch"


def test_a_signature_without_host_is_refused() -> None:
    head = signed()
    shortened = head.headers["Authorization".lower()].replace("host;", "")
    assert "host" in refusal(with_headers(head, authorization=shortened)).message


@pytest.mark.parametrize("header", ["", "Bearer x", "AWS4-HMAC-SHA256 Credential=a", "AWS4-HMAC-SHA256 ,,=", "AWS x:y"])
def test_a_malformed_header_is_refused(header: str) -> None:
    assert refusal(with_headers(signed(), authorization=header)).status == HTTPStatus.FORBIDDEN


def test_a_credential_of_another_day_is_refused() -> None:
    head = signed()
    changed = head.headers["authorization"].replace("/20260131/", "/20260130/")
    assert refusal(with_headers(head, authorization=changed)).status == HTTPStatus.FORBIDDEN


def presigned(expires: int = 60) -> RequestHead:
    url = "http://127.0.0.1:9000/bucket/a%20b?response-content-type=text%2Fplain"
    return signed(auth.S3SigV4QueryAuth, url, "s3", {}, expires=expires)


def test_a_presigned_url_passes_until_its_time_is_over() -> None:
    assert is_presigned(presigned())
    assert check(presigned(), "UNSIGNED-PAYLOAD", at=59).service == "s3"
    error = refusal(presigned(), "UNSIGNED-PAYLOAD", at=61)
    assert (error.code, error.status) == ("AccessDenied", HTTPStatus.FORBIDDEN)
    assert "expired" in error.message


def test_a_presigned_url_of_more_than_seven_days_is_refused() -> None:
    assert check(presigned(7 * 24 * 3600), "UNSIGNED-PAYLOAD").access_key == KEY
    for digit in ("1", "1" * 5000):
        head = presigned(7 * 24 * 3600)
        query = head.query.replace("X-Amz-Expires=604800", f"X-Amz-Expires=604800{digit}")
        assert "seven days" in refusal(RequestHead("GET", head.path, query, head.headers), "UNSIGNED-PAYLOAD").message


def test_a_presigned_url_with_another_parameter_is_refused() -> None:
    head = presigned()
    changed = RequestHead("POST", head.path, head.query.replace("plain", "html"), head.headers)
    assert refusal(changed, "UNSIGNED-PAYLOAD").code == "SignatureDoesNotMatch"


def test_a_url_of_signature_version_2_is_refused_with_the_cure() -> None:
    head = RequestHead("GET", "/bucket/a", "AWSAccessKeyId=x&Signature=y&Expires=1", {"host": "127.0.0.1:9000"})
    error = refusal(head)
    assert error.code == "InvalidRequest"
    assert "s3v4" in error.message


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.text(st.sampled_from("ab +&=%/ü~"), max_size=9)
)
def test_any_key_and_parameter_of_s3_pass(key: str, value: str) -> None:
    url = f"http://127.0.0.1:9000/bucket/k{quote(key, safe='/~')}?prefix={quote(value, safe='-._~')}&list-type=2"
    head = signed(auth.S3SigV4Auth, url, "s3", {"X-Amz-Content-SHA256": DIGEST})
    assert check(head, head.headers["x-amz-content-sha256"]).service == "s3"


def test_a_client_that_encodes_less_on_the_wire_passes() -> None:
    head = signed(auth.S3SigV4Auth, "http://127.0.0.1:9000/bucket/a%2Bb", "s3", {"X-Amz-Content-SHA256": DIGEST})
    assert check(RequestHead("POST", "/bucket/a+b", "", head.headers)).service == "s3"


def test_a_query_is_sorted_and_encoded() -> None:
    assert canonical.format_query("b=2&a=x%20y&acl&X-Amz-Signature=s&a=%C3%BC") == "a=%C3%BC&a=x%20y&acl=&b=2"
