"""Tests of the client that need nothing but the fake service: `python -m pytest client_tests`."""
