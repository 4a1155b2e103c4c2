from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User


class SecondFactorBackend(ModelBackend):
    """Django's backend, which reads the second factor and time zone of a session's user in the same query."""

    def get_user(self, user_id: Any) -> Any:
        user = User.objects.select_related("second_factor", "preference").filter(pk=user_id).first()
        return user if user and self.user_can_authenticate(user) else None
