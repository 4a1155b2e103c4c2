from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0031_search_by_parts'),
    ]

    operations = [
        migrations.AddField(
            model_name='relayer',
            name='reserve_text',
            field=models.CharField(editable=False, max_length=78, null=True),
        ),
    ]
