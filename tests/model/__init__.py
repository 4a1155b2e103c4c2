"""Explicit-state models of sending: what was searched is in README.md.

python -m tests.model                    every scenario with its rules
python -m tests.model NAME ...           only these scenarios
python -m tests.model --ablate [NAME]    each scenario with all of its rules but one
python -m tests.model --decided [NAME]   without the rules that are only proposed
"""
