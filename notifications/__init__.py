"""Notifications: webhook targets, the events they receive, and the outbox that delivers them."""
