"""Copy what one release writes to where the other reads it, while both run.

- A relayer that the last release adds, checks or changes is copied to its health.
- A state that this release finds is copied to the relayer, and so is a change by staff. Other readings are not: of these
  the last release has its own, or those of the last change.

Whoever is copied to loses the lease of a check in progress: a state that changes is reported once.
"""

from typing import Any

from django.db import migrations

COLUMNS = (
    "system_disabled", "disabled_reason_type", "disabled_reason_details", "checked_at", "nonce", "balance_text",
    "balance_at", "balance_is_low", "balance_hours", "minimum_hours", "outflow_days", "runway_is_short",
    "failed_checks", "good_checks", "failing_since", "low_since",
)
STATES = ("system_disabled", "balance_is_low", "runway_is_short")
DIFFERS = {"postgresql": "IS DISTINCT FROM", "sqlite": "IS NOT"}
EARLIER = {"postgresql": "LEAST", "sqlite": "min"}
ADD = """
INSERT INTO relayers_relayerhealth (relayer_id, due_at, network, {columns})
VALUES (NEW.sequence, NEW.due_at, NEW.network, {new_columns}) ON CONFLICT (relayer_id) DO NOTHING;
"""
UPDATE = """
UPDATE relayers_relayerhealth SET lease = NULL, network = NEW.network,
due_at = CASE WHEN NEW.due_at {differs} OLD.due_at THEN {earlier}(due_at, NEW.due_at) ELSE due_at END, {changed}
WHERE relayer_id = NEW.sequence;
"""
COPY = """
UPDATE relayers_relayer SET
lease = NULL, due_at = CASE WHEN NEW.checked_at {differs} OLD.checked_at THEN due_at ELSE NEW.due_at END, {copied}
WHERE sequence = NEW.relayer_id;
"""
DELETE = """
DELETE FROM relayers_relayerhealth WHERE relayer_id = OLD.sequence;
"""
TRIGGERS = [
    ("relayer_added", "INSERT ON relayers_relayer", "TRUE", ADD),
    ("relayer_changed", "UPDATE OF due_at, {columns} ON relayers_relayer", "TRUE", ADD + UPDATE),
    ("relayer_deleted", "DELETE ON relayers_relayer", "TRUE", DELETE),
    # A check sets `checked_at`; what else ends a lease is a change by staff.
    (
        "health_changed",
        "UPDATE OF lease, {states} ON relayers_relayerhealth",
        "{state_differs} OR (NEW.lease IS NULL AND NOT (NEW.checked_at {differs} OLD.checked_at))",
        COPY,
    ),
]
POSTGRESQL = """
CREATE FUNCTION relayers_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$;
CREATE TRIGGER {name} AFTER {event} FOR EACH ROW WHEN (pg_trigger_depth() = 0 AND ({condition}))
EXECUTE FUNCTION relayers_{name}();
"""
SQLITE = "CREATE TRIGGER {name} AFTER {event} WHEN {condition} BEGIN {body} END"


def create_triggers(apps: Any, schema_editor: Any) -> None:
    vendor = schema_editor.connection.vendor
    differs = DIFFERS[vendor]
    names = {
        "columns": ", ".join(COLUMNS),
        "new_columns": ", ".join(f"NEW.{name}" for name in COLUMNS),
        "copied": ", ".join(f"{name} = NEW.{name}" for name in COLUMNS),
        # The other columns of the relayer may be older than those of its health.
        "changed": ", ".join(
            f"{name} = CASE WHEN NEW.{name} {differs} OLD.{name} THEN NEW.{name} ELSE {name} END" for name in COLUMNS
        ),
        "states": ", ".join(STATES),
        "state_differs": " OR ".join(f"NEW.{name} {differs} OLD.{name}" for name in STATES),
        "differs": differs,
        "earlier": EARLIER[vendor],
    }
    for name, *texts in TRIGGERS:
        event, condition, body = (text.format(**names) for text in texts)
        template = POSTGRESQL if vendor == "postgresql" else SQLITE
        schema_editor.execute(template.format(name=name, event=event, condition=condition, body=body), params=None)


def drop_triggers(apps: Any, schema_editor: Any) -> None:
    for name, event, *_ in TRIGGERS:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP FUNCTION relayers_{name} CASCADE")
        else:
            schema_editor.execute(f"DROP TRIGGER {name}")


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0025_defaults'),
    ]

    operations = [
        migrations.RunPython(create_triggers, drop_triggers),
    ]
