from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RelayerServiceConfig(AppConfig):
    name = "relayer_service"
    verbose_name = "Operations"
    admin_panels = {"relayer_service.Job": ["relayer_service.console.jobs.Progress"]}
    attention_subjects = {10: "relayer_service.console.overview.attention.service"}
    dashboard_cards = {
        60: "relayer_service.console.overview.dashboard.readiness",
        70: "relayer_service.console.overview.dashboard.periodic_work",
        90: "relayer_service.console.overview.dashboard.own_changes",
    }

    def ready(self) -> None:
        from relayer_service.configuration import checks  # noqa: F401  # registers the checks
        from relayer_service.database import nul  # noqa: F401  # registers the lookups
        from relayer_service.storage import counting

        post_migrate.connect(counting.after_migrate, sender=self)
