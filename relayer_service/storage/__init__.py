"""Rows: base models, encrypted columns, leases, exact counts and the options of databases and caches."""
