"""Deleting an attempt would read the tables through for each of these constraints, which have no index."""

import django.db.models.deletion
from django.db import migrations, models


class AlterField(migrations.AlterField):
    """Django's, in a transaction of its own: one for all would have to get the locks of three busy tables at once."""

    atomic = True


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('transactions', '0019_transaction_unsuccessful'),
    ]

    operations = [
        AlterField(
            model_name='statuschange',
            name='attempt',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='transactions.attempt'),
        ),
        AlterField(
            model_name='transaction',
            name='last_attempt',
            field=models.ForeignKey(db_constraint=False, db_index=False, help_text='The newest one.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='transactions.attempt'),
        ),
        AlterField(
            model_name='transaction',
            name='mined_attempt',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='transactions.attempt'),
        ),
    ]
