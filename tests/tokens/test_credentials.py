"""The form of a token: fixed vectors, and that a slip of one character is seen without a query."""

import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokens import credentials
from tokens.credentials import ALPHABET, Credential

KEY = "0123456789AB"
SECRET = "0123456789ABCDEFGHIJ0123456789ABCDEFGHIJ"
TEXT = "rms_0123456789AB_0123456789ABCDEFGHIJ0123456789ABCDEFGHIJ3tMC2E"

characters = st.sampled_from(ALPHABET)
issued = st.builds(
    Credential,
    st.text(characters, min_size=12, max_size=12),
    st.text(characters, min_size=40, max_size=40),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # CRC-32 of nothing is 0, of "123456789" the check value 0xCBF43926 = 3421780262.
        ("", "000000"),
        ("123456789", "3jZRME"),
        (TEXT[:-6], "3tMC2E"),
    ],
)
def test_the_checksum_is_the_crc32_in_base_62(text: str, expected: str) -> None:
    assert credentials.checksum(text) == expected


@given(st.text())
def test_the_checksum_reads_back_as_the_crc32(text: str) -> None:
    number = 0
    for digit in credentials.checksum(text):
        number = number * 62 + ALPHABET.index(digit)
    assert number == zlib.crc32(text.encode())


def test_a_token_is_read_into_its_parts() -> None:
    assert credentials.parse(TEXT) == Credential(KEY, SECRET)
    assert Credential(KEY, SECRET).reveal() == TEXT


@given(issued)
def test_what_is_revealed_reads_back(credential: Credential) -> None:
    assert credentials.parse(credential.reveal()) == credential


@given(issued, st.integers(min_value=0, max_value=62), st.characters())
def test_one_wrong_character_anywhere_is_refused(credential: Credential, place: int, character: str) -> None:
    text = credential.reveal()
    if text[place] != character:
        assert credentials.parse(text[:place] + character + text[place + 1 :]) is None


@given(issued, st.integers(min_value=4, max_value=61))
def test_two_characters_that_changed_places_are_refused(credential: Credential, place: int) -> None:
    text = credential.reveal()
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    assert swapped == text or credentials.parse(swapped) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "rms_", TEXT[:-1], TEXT + "0", TEXT + "\n", " " + TEXT, TEXT.lower(), TEXT.replace("rms", "RMS")),
        *("x" * 63, TEXT.replace("0", "\u0660"), TEXT.replace("_", "-"), "é" * 63, "\ud800" * 63),
    ],
)
def test_other_text_is_no_token(text: str) -> None:
    assert credentials.parse(text) is None


def test_generated_credentials_have_the_form_and_differ() -> None:
    made = [credentials.generate() for _ in range(100)]
    assert all(re.fullmatch(r"rms_[0-9A-Za-z]{12}_[0-9A-Za-z]{46}", credential.reveal()) for credential in made)
    assert len({credential.key for credential in made}) == len({credential.secret for credential in made}) == 100


def test_a_credential_shows_only_its_public_part() -> None:
    credential = Credential(KEY, SECRET)
    assert str(credential) == "rms_0123456789AB_***"
    assert repr(credential) == "Credential(key='0123456789AB')"
    assert f"{credential} {credential!r} {[credential]}".count(SECRET) == 0
