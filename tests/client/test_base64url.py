"""Base64url: one spelling for the same bytes."""

import base64

import pytest
from hypothesis import given, strategies as st

from everbrook.client.jwks import format_base64url, parse_base64url
from tests.protocol.generated import generated


@generated
@given(st.binary())
def test_what_is_written_is_read_back(data: bytes) -> None:
    text = format_base64url(data)
    assert parse_base64url(text) == data
    assert base64.urlsafe_b64decode(text + "==") == data


@pytest.mark.parametrize("text", ["A", "AB", "AA==", "AA=", "A A", "+/+/", "AAA\n", "ä", "=", "AA\x00A", "A" * 5])
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be unpadded base64url"):
        parse_base64url(text)
