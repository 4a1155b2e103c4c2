"""Spending rules in the admin."""
