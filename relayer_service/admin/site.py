"""Admin pages of periodic work, and the themed pages of Django's own users and groups."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from relayer_service.admin.base import ReadOnlyAdmin
from relayer_service.admin.dashboard import ago
from relayer_service.models import PeriodicRun

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]  # Django cannot subscript it
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    pass


@admin.register(PeriodicRun)
class PeriodicRunAdmin(ReadOnlyAdmin):
    list_display = ["name", "state", "started", "finished", "took"]
    ordering = ["name"]

    @display(description="state", label={"ok": "success", "failed": "danger"})
    def state(self, run: PeriodicRun) -> str:
        return "failed" if run.failed else "ok"

    @display(description="last start", ordering="started_at")
    def started(self, run: PeriodicRun) -> str:
        return ago(run.started_at)

    @display(description="last good end", ordering="finished_at")
    def finished(self, run: PeriodicRun) -> str:
        return ago(run.finished_at)

    @display(description="took", ordering="seconds")
    def took(self, run: PeriodicRun) -> str:
        return "-" if run.seconds is None else f"{run.seconds:.2f} s"
