"""Fleet files: the configuration of a whole fleet in one JSON file, applied in one transaction.

An app adds a list to the file with a `Section` in its `fleet.py`, listed in `FLEET_SECTIONS`.
"""
