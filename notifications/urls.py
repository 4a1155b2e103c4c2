from django.urls import re_path

from notifications.viewsets import NotificationView

# An id may hold any character, so that all that follows is the id.
urlpatterns = [
    re_path(r"^notifications/(?P<notification_id>[\s\S]+)$", NotificationView.as_view(), name="notification-detail")
]
