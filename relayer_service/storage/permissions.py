"""A migration operation for a permission that takes over actions of another."""

from typing import Any

from django.db.migrations import RunPython

# The migrations that the operation needs.
DEPENDENCIES = [("auth", "0012_alter_user_first_name_max_length"), ("contenttypes", "0002_remove_content_type_name")]


def grant_to_holders(app_label: str, model: str, codename: str, name: str, of: str) -> RunPython:
    """Return the operation that creates a permission, and grants it to all users and groups with another one.

    Django creates permissions after all migrations, and then skips this one.
    """

    def forwards(apps: Any, schema_editor: Any) -> None:
        alias = schema_editor.connection.alias
        permissions = apps.get_model("auth", "Permission").objects.using(alias)
        types = apps.get_model("contenttypes", "ContentType").objects.using(alias)
        of_app, of_codename = of.split(".")
        held = permissions.filter(content_type__app_label=of_app, codename=of_codename).first()
        if held is None:
            # A new database, without users.
            return
        model_type, _ = types.get_or_create(app_label=app_label, model=model)
        new, _ = permissions.get_or_create(content_type=model_type, codename=codename, defaults={"name": name})
        new.user_set.add(*held.user_set.values_list("pk", flat=True))
        new.group_set.add(*held.group_set.values_list("pk", flat=True))

    return RunPython(forwards, RunPython.noop)
