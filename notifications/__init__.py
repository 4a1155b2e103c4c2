"""Notifications: webhooks, the events they receive, and the outbox that delivers them."""
