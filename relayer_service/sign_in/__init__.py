"""Signing in to the admin: limits on failures, addresses of past sign-ins, and the second factor."""
