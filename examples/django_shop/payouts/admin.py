from django.contrib import admin

from .models import Payout, pay


@admin.register(Payout)
class PayoutAdmin(admin.ModelAdmin):
    list_display = ["order", "to", "amount", "status"]
    fields = ["order", "to", "amount"]

    def save_model(self, request, payout, form, change):
        payout.pk = pay(payout.order, payout.to, payout.amount).pk

    def has_change_permission(self, request, payout=None):
        return False
