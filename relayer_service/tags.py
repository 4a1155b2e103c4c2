"""Tags of relayers, and the entries `tag:NAME` of `allowed_relayers`, which stand for the relayers with a tag."""

import re
from collections.abc import Iterable

from django.core.exceptions import ValidationError

PREFIX = "tag:"
MAX_TAGS = 16
MAX_TAG_LENGTH = 32
TAG = re.compile(r"[a-z0-9][a-z0-9_-]*")


def validate_tag(name: str) -> None:
    if not TAG.fullmatch(name) or len(name) > MAX_TAG_LENGTH:
        raise ValidationError(
            f"a tag has at most {MAX_TAG_LENGTH} of the characters a-z, 0-9, - and _, and does not start with - or _"
        )


def validate_tags(names: Iterable[str]) -> None:
    for name in (found := [*names]):
        validate_tag(name)
    if len(found) > MAX_TAGS:
        raise ValidationError(f"at most {MAX_TAGS} tags are allowed")


def tags_in(entries: Iterable[str]) -> list[str]:
    """Return the tags that entries of `allowed_relayers` name."""
    return [each.removeprefix(PREFIX) for each in entries if each.startswith(PREFIX)]
