"""Jobs over REST: a token starts one with a request of another resource, and reads its progress here."""

import json
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.exceptions import NotFound
from relayer_service.api.filters import Rows
from relayer_service.api.operations import operation
from relayer_service.api.resource_serializers import ResourceSerializer
from relayer_service.api.serializers import ChoiceField, IntegerField, LiteralField, StringField, TimestampField
from relayer_service.api.viewsets import ResourceViewSet
from relayer_service.jobs import running
from relayer_service.jobs.models import Job
from relayer_service.storage.selections import MAX_KEY, MAX_SELECTED, Selection

KINDS = ["pause_relayers", "replay_deliveries", "resume_relayers"]
NOT_FOUND = "Job with ID {} not found"
TOO_MANY = f"more than {MAX_SELECTED:,} rows match; narrow it"
MAX_COUNT = 2**31 - 1


class FailureSerializer(serializers.Serializer[Any]):
    """A row that failed."""

    id = StringField()
    error = StringField()


@extend_schema_field(FailureSerializer(many=True))
class FailuresField(LiteralField):
    def to_representation(self, value: str) -> list[dict[str, str]]:
        return [{"id": identifier, "error": error} for identifier, error in json.loads(value)]


class JobSerializer(ResourceSerializer):
    """A bulk action and its progress. Fields without a value are omitted."""

    id = serializers.CharField(source="pk")
    kind = ChoiceField(choices=KINDS)
    state = ChoiceField(
        choices=Job.State.choices, help_text="It is over when it is `stopped`, by staff, or `finished`."
    )
    total = IntegerField(max_value=MAX_COUNT, help_text="The number of rows that matched when it was started.")
    done = IntegerField(max_value=MAX_COUNT)
    skipped = IntegerField(max_value=MAX_COUNT, help_text="Rows that it does not apply to, or that are gone.")
    failed = IntegerField(max_value=MAX_COUNT)
    failures = FailuresField(help_text="The first ten failures.")
    created_at = TimestampField()
    started_at = TimestampField(required=False)
    finished_at = TimestampField(required=False)


JOB_EXAMPLE = OpenApiExample(
    "Job",
    {
        "id": "17",
        "kind": "replay_deliveries",
        "state": "running",
        "total": 1200,
        "done": 500,
        "skipped": 0,
        "failed": 0,
        "failures": [],
        "created_at": "2026-01-01T00:00:00.000000Z",
        "started_at": "2026-01-01T00:00:00.100000Z",
    },
    response_only=True,
)


def started(body: Any, example: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI of an operation that starts a job."""
    return {
        "request": body,
        "responses": {201: OpenApiResponse(JobSerializer, description="The job was started.")},
        "examples": [OpenApiExample("filter", example, request_only=True), JOB_EXAMPLE],
    }


def start(request: Request, kind: str, rows: Rows, reason: str = "") -> dict[str, Any]:
    """Start a job of the request's token with all these rows, and return it for the response."""
    selection = Selection.from_keys(rows.order_by("pk").values_list("pk", flat=True)[: MAX_SELECTED + 1])
    if len(selection) > MAX_SELECTED:
        raise ValidationError({"filter": [TOO_MANY]})
    token: Any = request.auth
    job = running.start(kind, selection, token.name, token_key=token.key, reason=reason)
    return dict(JobSerializer(job).data)


class JobViewSet(ResourceViewSet):
    """The jobs that tokens have started, for 30 days after their end."""

    # Jobs of staff are in the admin: their failures may quote signers.
    queryset = Job.objects.exclude(token_key="").defer("selection")
    lookup_url_kwarg = "job_id"
    lookup_value_regex = "[^/]+"
    serializer_class = JobSerializer
    extension = "lifecycle"
    not_found_message = NOT_FOUND
    tags = ["Jobs"]

    @operation("get_job", "Get a job", {"examples": [JOB_EXAMPLE]}, scope="read")
    def retrieve(self, request: Request, job_id: str) -> Response:
        """Return a job that a token has started, with its progress."""
        job = None
        if job_id.isascii() and job_id.isdecimal() and len(job_id) < len(str(MAX_KEY)):
            job = self.get_queryset().filter(pk=int(job_id)).first()
        if job is None:
            raise NotFound(NOT_FOUND.format(job_id))
        return Response(JobSerializer(job).data)
