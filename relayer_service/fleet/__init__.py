"""Fleet files: the configuration of a whole fleet in one JSON file, which is loaded all or nothing, and dumped.

An app adds a list to the file with a `Section` in its `config.py`, named in `FLEET_SECTIONS`. It may use `sections`,
`files` and `references` for that; the commands use `planning`.
"""
