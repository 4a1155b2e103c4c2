from tests.notifications.clock import clock

__all__ = ["clock"]
