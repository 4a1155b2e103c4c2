from django.db import migrations
from django.db.models import Exists, OuterRef, Subquery


def share_policies(apps, schema_editor):
    """Give the tokens without a spending policy that of their family: first rules were once those of one token."""
    tokens = apps.get_model("tokens", "AccessToken").objects.using(schema_editor.connection.alias)
    relatives = tokens.filter(family=OuterRef("family"), spending__isnull=False).order_by("-pk")
    without = tokens.exclude(family="").filter(Exists(relatives), spending=None)
    without.update(spending=Subquery(relatives.values("spending")[:1]))


class Migration(migrations.Migration):

    dependencies = [
        ('tokens', '0006_rotation_families'),
    ]

    operations = [migrations.RunPython(share_policies, migrations.RunPython.noop)]
