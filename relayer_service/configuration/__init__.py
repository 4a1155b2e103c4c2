"""Environment variables, and system checks of the settings."""
