"""Relayers, networks and top-ups in request bodies and responses."""
