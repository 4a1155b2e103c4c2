"""Who requested a transaction, in the text that it has of a token: its name and the public part."""

import re
from typing import Any

from django.db.models import Q
from django.db.models.functions import Left, Right
from django.db.models.lookups import In

# How the text of a token ends.
END = "_…)"
PUBLIC_PART = re.compile(r"\(rms_(\w+)_…\)\Z")
TOP_UP = "Top-up of relayer "
# Of an earlier release, which stored the text of a token alone. A top-up has the ID of a relayer there.
HAS_TEXT_ALONE = Q(requester="", requested_by__endswith=END) & ~Q(requested_by__startswith=TOP_UP)


def requested_with(keys: Any, length: int) -> In:
    """Return the condition that the text ends with one of these public parts, which have a length."""
    return In(Left(Right("requested_by", length + len(END)), length), keys)
