from django.db import migrations

from relayer_service.storage.counting import CountRows


class Migration(migrations.Migration):
    dependencies = [("notifications", "0002_enabled_targets"), ("relayer_service", "0003_lifecycle")]

    operations = [CountRows("Notification")]
