from tests.notifications.clock import clock
from tests.notifications.test_tls import refused_tls

__all__ = ["clock", "refused_tls"]
