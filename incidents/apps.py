from django.apps import AppConfig


class IncidentsConfig(AppConfig):
    name = "incidents"
    attention_subjects = {60: "incidents.console.overview.attention"}
    incident_urls = {10: "incidents.console.overview.urls"}
    admin_panels = {
        "incidents.Incident": ["incidents.console.panels.IncidentPanel"],
        "incidents.AlertRoute": ["incidents.console.panels.RoutePanel"],
        "relayers.Relayer": ["incidents.console.panels.RelayerIncidents"],
    }
