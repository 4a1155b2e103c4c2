from django.db import migrations, models

# What the last release counts them as, among the counts of rows.
LIST_NAME = 'notifications:skipped_events'
BATCH_SIZE = 500


def move(rows, create):
    """Create a row for each, and delete them; again until none is left, as a worker may fold them meanwhile."""
    while rows.exists():
        batch = list(rows.select_for_update().order_by('pk')[:BATCH_SIZE])
        create(batch)
        rows.filter(pk__in=[row.pk for row in batch]).delete()


def models_of(apps, schema_editor):
    names = [('relayer_service', 'RowDelta'), ('notifications', 'SkippedEventCount')]
    return [apps.get_model(*name).objects.using(schema_editor.connection.alias) for name in names]


def move_counts(apps, schema_editor):
    deltas, counts = models_of(apps, schema_editor)
    move(
        deltas.filter(list_name=LIST_NAME),
        lambda batch: counts.bulk_create(counts.model(target=row.bucket, events=row.rows) for row in batch),
    )


def move_counts_back(apps, schema_editor):
    deltas, counts = models_of(apps, schema_editor)
    move(
        counts.all(),
        lambda batch: deltas.bulk_create(
            deltas.model(list_name=LIST_NAME, bucket=row.target, rows=row.events) for row in batch
        ),
    )


class Migration(migrations.Migration):

    dependencies = [
        ('relayer_service', '0001_initial'),
        ('notifications', '0003_delivery_request_id'),
    ]

    operations = [
        migrations.CreateModel(
            name='SkippedEventCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('target', models.BigIntegerField(db_index=True, help_text='The key of the notification.')),
                ('events', models.PositiveBigIntegerField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.RunPython(move_counts, move_counts_back),
    ]
