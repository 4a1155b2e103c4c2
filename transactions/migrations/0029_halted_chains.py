from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0028_external_ids_and_metadata'),
    ]

    operations = [
        migrations.AddField(
            model_name='chainwatch',
            name='halted_since',
            field=models.DateTimeField(help_text='The time of its last block, if that is too old although nodes answer.', null=True),
        ),
    ]
