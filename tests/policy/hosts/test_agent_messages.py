"""What a host sends is read, and what is none of it counts as nothing."""

from __future__ import annotations

import pytest

from jupyter_smx.policy.hosts.agent_messages import parse_count


@pytest.mark.parametrize(("said", "count"), [(0, 0), (7, 7), (2**53, 2**53), (-1, 0), (10**30, 0), ("7", 0), (None, 0)])
def test_a_number_of_bytes_is_one_or_none(said: object, count: int) -> None:
    assert parse_count(said) == count
