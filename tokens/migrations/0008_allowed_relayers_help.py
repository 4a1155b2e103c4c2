
import tokens.scopes
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tokens', '0007_policies_of_families'),
    ]

    operations = [
        migrations.AlterField(
            model_name='accesstoken',
            name='allowed_relayers',
            field=models.JSONField(blank=True, db_default=[], default=list, help_text='IDs of relayers that it can send and sign with, and change. If empty, all relayers.', validators=[tokens.scopes.validate_relayer_ids]),
        ),
    ]
