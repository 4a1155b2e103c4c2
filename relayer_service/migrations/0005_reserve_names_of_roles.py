from django.db import migrations

NAMES = ['Viewer', 'Operator', 'Manager', 'Owner']


def rename_groups(apps, schema_editor):
    """Rename groups with the name of a role: the role is another group, with its own permissions."""
    groups = apps.get_model('auth', 'Group').objects.using(schema_editor.connection.alias)
    for name in NAMES:
        taken = set(groups.filter(name__startswith=name).values_list('name', flat=True))
        choices = [f'{name} (own)', *(f'{name} (own {number})' for number in range(2, 100))]
        groups.filter(name=name).update(name=next(each for each in choices if each not in taken))


class Migration(migrations.Migration):

    dependencies = [('auth', '0012_alter_user_first_name_max_length'), ('relayer_service', '0004_jobs_of_tokens')]

    operations = [migrations.RunPython(rename_groups, migrations.RunPython.noop)]
