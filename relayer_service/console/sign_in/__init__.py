"""Signing in: login, second factor, users and groups."""
