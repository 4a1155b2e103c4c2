"""The database and the shared cache: connections, statements, indexes and migration operations."""
