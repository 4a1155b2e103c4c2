from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0032_search_indexes'),
    ]

    operations = [
        migrations.AddField(
            model_name='transaction',
            name='waiting_cost_text',
            field=models.CharField(editable=False, help_text='In wei, while it waits for funds.', max_length=78, null=True, verbose_name='maximum cost'),
        ),
    ]
