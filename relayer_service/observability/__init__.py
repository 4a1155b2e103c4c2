"""What operators watch: logs, metrics, health."""
