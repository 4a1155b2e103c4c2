"""Incidents: causes of "Needs attention" from their begin to their end, and the alerts that are sent about them."""
