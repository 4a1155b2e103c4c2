"""Deliveries of events: the outbox, the sender that works it off, attempts, retries and retention."""
