from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0010_due_transactions'),
    ]

    operations = [
        migrations.AddField(
            model_name='transaction',
            name='corroborated_at',
            field=models.DateTimeField(help_text='When a second node reported the same result.', null=True),
        ),
    ]
