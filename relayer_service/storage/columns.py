"""Columns that processes of the last release do not write: their default is in the database too."""

from typing import Any

from django.db import models


def text_column(max_length: int, help_text: str, **options: Any) -> "models.CharField[str, str]":
    """Return a column of text that is empty by default."""
    options |= {"blank": True, "default": "", "db_default": ""}
    return models.CharField(max_length=max_length, help_text=help_text, **options)
