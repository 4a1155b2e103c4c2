"""Measurements of sending transactions, a question a module; `areas/transactions.py` and `areas/reference.py` ask."""
