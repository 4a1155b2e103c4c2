from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0014_open_charges'),
    ]

    operations = [
        migrations.AddField(
            model_name='lane',
            name='generation',
            field=models.PositiveBigIntegerField(db_default=0, default=0, help_text='+1 with every commit of signed attempts. It falls if a backup is restored.'),
        ),
        migrations.AddField(
            model_name='lane',
            name='witness',
            field=models.CharField(blank=True, db_default='', default='', help_text='Where `witness.py` stores its generation.', max_length=32),
        ),
    ]
