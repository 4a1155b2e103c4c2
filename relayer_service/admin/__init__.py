"""The admin site: base classes shared by all apps, and the pages of this one."""

from relayer_service.admin import accounts, audit_log, jobs  # noqa: F401  # registers their pages
