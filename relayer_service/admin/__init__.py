"""The console for staff: what every admin page shares."""

from relayer_service.admin import site  # noqa: F401  # registers its pages
