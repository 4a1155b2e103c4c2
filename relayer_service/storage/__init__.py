"""What models use: their base classes, encrypted columns, leases, row counts and selections."""
