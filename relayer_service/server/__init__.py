"""The web server: `python -m relayer_service.server`."""
