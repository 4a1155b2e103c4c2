"""Operations: environment, checks, logs, metrics, health, background work, loops and thread pools."""
