"""Notifications: webhook targets, the events they get, and the outbox that delivers them.

Other apps may use `models` and `events`.
"""
