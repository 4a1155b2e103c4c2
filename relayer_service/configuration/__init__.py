"""The environment and what `check` finds wrong with it."""
