"""Addresses and HTTP: who calls, and where the service itself may call."""
