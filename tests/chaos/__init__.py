"""Kills of workers at every named step of sending, each case in its own database, with its own account.

`source` is a process that has loaded the service and forks for each case a process that runs it (`running`);
`campaign` prepares databases and a chain, and runs many cases side by side. `make chaos` runs all of them.
"""
