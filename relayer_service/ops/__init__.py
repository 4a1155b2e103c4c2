"""Running it: environment, checks, logs, metrics, health and background work."""
