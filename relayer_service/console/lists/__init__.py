"""Lists of the admin: sorting, filters and search."""
