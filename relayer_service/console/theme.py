"""Settings of the admin theme. Not in `admin`, which imports models and so cannot be imported by the settings."""

from typing import Any

from django.templatetags.static import static
from django.urls import reverse, reverse_lazy

from relayer_service import extensions


def link(title: str, icon: str, url_name: str, permission: str = "") -> dict[str, Any]:
    allowed = {"permission": lambda request: request.user.has_perm(permission)} if permission else {}
    return {"title": title, "icon": icon, "link": reverse_lazy(url_name), **allowed}


def model_link(title: str, icon: str, app: str, model: str) -> dict[str, Any]:
    return link(title, icon, f"admin:{app}_{model}_changelist", f"{app}.view_{model}")


def extension_link(title: str, icon: str, app: str, model: str) -> dict[str, Any]:
    """Return the link to a list that only exists for an extension of the same name as its app."""
    permission = f"{app}.view_{model}"
    shown = {"permission": lambda request: extensions.is_enabled(app) and request.user.has_perm(permission)}
    return model_link(title, icon, app, model) | shown


ACCOUNT_PAGES = [
    link("Your account", "account_circle", "admin:account"),
    link("Two-factor authentication", "security", "admin:second_factor"),
    link("Change password", "password", "admin:password_change"),
]
# Pages that the command palette finds besides those of the sidebar.
OTHER_PAGES = [
    extension_link("Gas spent", "local_gas_station", "transactions", "transaction")
    | {"link": reverse_lazy("admin:transactions_transaction_gas")},
    link("Runbooks", "menu_book", "admin:incidents_incident_runbooks", "incidents.view_incident"),
    *ACCOUNT_PAGES,
]


def is_of_relayers(request: Any) -> bool:
    """Return whether a page is below the list of relayers, and not the page of nodes, which has its own link."""
    nodes = reverse("admin:relayers_relayer_nodes")
    return request.path.startswith(reverse("admin:relayers_relayer_changelist")) and not request.path.startswith(nodes)


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Relayer Management",
    "SITE_HEADER": "Relayer Management",
    "SITE_SUBHEADER": "Signers, webhooks, relayers",
    "SITE_SYMBOL": "hub",
    # The theme would link to a public site, which does not exist.
    "SITE_URL": None,
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("relayer_service/favicon.svg")}
    ],
    "STYLES": [lambda request: static("relayer_service/admin.css")],
    "SCRIPTS": [lambda request: static("relayer_service/admin.js")],
    # Brighter than the default, for contrast in dark mode.
    "COLORS": {"primary": {"500": "oklch(76% .17 305.504)"}},
    "DASHBOARD_CALLBACK": "relayer_service.console.overview.dashboard.add_cards",
    "ACCOUNT": {"navigation": ACCOUNT_PAGES},
    "SIDEBAR": {
        "show_search": True,
        # `relayer_service/console/lists/search.py` replaces its backend.
        "command_search": True,
        "navigation": [
            {
                "items": [
                    link("Overview", "dashboard", "admin:index")
                    | {"active": lambda request: request.path == reverse("admin:index")}
                ]
            },
            {
                "title": "Fleet",
                "items": [
                    model_link("Relayers", "rocket_launch", "relayers", "relayer") | {"active": is_of_relayers},
                    link("Networks and nodes", "lan", "admin:relayers_relayer_nodes", "relayers.view_relayer"),
                    extension_link("Transactions", "swap_horiz", "transactions", "transaction"),
                    extension_link("Lanes", "format_list_numbered", "transactions", "lane"),
                    model_link("Fee tokens", "paid", "rpc", "feetoken"),
                    model_link("Signers", "encrypted", "signers", "signer"),
                    model_link("Webhooks", "webhook", "notifications", "notification"),
                    model_link("Deliveries", "outbox", "notifications", "delivery"),
                ],
            },
            {
                "title": "Access",
                "items": [
                    model_link("Access tokens", "key", "tokens", "accesstoken"),
                    model_link("Users", "person", "auth", "user"),
                    model_link("Groups", "group", "auth", "group"),
                ],
            },
            {
                "title": "Operations",
                "items": [
                    model_link("Incidents", "crisis_alert", "incidents", "incident"),
                    model_link("Alert routes", "notifications_active", "incidents", "alertroute"),
                    model_link("Audit log", "history", "relayer_service", "auditentry"),
                    link("Jobs", "checklist", "admin:relayer_service_job_changelist")
                    | {"permission": "relayer_service.console.jobs.may_see_jobs"},
                    model_link("Periodic work", "schedule", "relayer_service", "periodicrun"),
                    link("Readiness", "monitor_heart", "ready"),
                    link("API docs", "menu_book", "docs"),
                    link("API reference", "article", "redoc"),
                ],
            },
        ],
    },
}
