from django.db import migrations, models


class Migration(migrations.Migration):
    """Names the column in code only: processes of the last release read it under its own name."""

    dependencies = [("relayer_service", "0011_worker_processes")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("job", "left_alone", "skipped"),
                migrations.AlterField(
                    "job",
                    "skipped",
                    models.PositiveIntegerField(db_column="left_alone", default=0, editable=False),
                ),
            ]
        )
    ]
