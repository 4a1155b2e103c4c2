from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RelayerServiceConfig(AppConfig):
    name = "relayer_service"
    verbose_name = "Operations"
    admin_panels = {"relayer_service.Job": ["relayer_service.admin.jobs.Progress"]}
    attention_subjects = {10: "relayer_service.admin.attention.service"}
    dashboard_cards = {
        60: "relayer_service.admin.dashboard.readiness",
        70: "relayer_service.admin.dashboard.periodic_work",
        90: "relayer_service.admin.dashboard.own_changes",
    }

    def ready(self) -> None:
        from relayer_service.configuration import checks  # noqa: F401  # registers the checks
        from relayer_service.storage import counting, nul  # noqa: F401  # registers the lookups

        post_migrate.connect(counting.after_migrate, sender=self)
