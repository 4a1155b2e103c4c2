"""Base models, encrypted columns, leases, row counts, and the configuration of databases and caches."""
