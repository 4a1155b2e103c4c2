from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0033_waiting_costs'),
    ]

    operations = [
        migrations.AddField(
            model_name='transaction',
            name='recipient',
            field=models.CharField(editable=False, help_text='Who gets the ERC-20 tokens, or may spend them.', max_length=42, null=True),
        ),
    ]
