"""Registers the admin's pages of users, groups, jobs, periodic work and the audit log."""

from relayer_service.console import audit_log, jobs  # noqa: F401  # registers their pages
from relayer_service.console.sign_in import accounts  # noqa: F401  # registers its pages
