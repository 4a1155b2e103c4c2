"""The service: its fleet of signers, webhooks, relayers, networks and fee tokens."""

import os
from collections.abc import Mapping
from copy import copy
from typing import Any, Self, TypeVar, Unpack

import httpx

from relayer_client._async.pages import AsyncPages
from relayer_client._async.polling import WAIT_SECONDS, deadlines, poll
from relayer_client._async.relayer import AsyncRelayer
from relayer_client._async.transport import AsyncTransport
from relayer_client.checks import check_deletion, key_or_new, list_query, resource_path
from relayer_client.encoding import decode
from relayer_client.errors import JobTimeout
from relayer_client.fields import (
    DeliveryFilter,
    DeliveryJobFields,
    FeeTokenChanges,
    FeeTokenFields,
    NotificationChanges,
    NotificationFields,
    RelayerChanges,
    RelayerFields,
    RelayerFilter,
    RelayerJobFields,
    SignerFields,
)
from relayer_client.pools import AsyncPools, Proxy, Verify
from relayer_client.results import (
    Delivery,
    FeeToken,
    FullDelivery,
    Job,
    ListedRelayer,
    ManagedNotification,
    ManagedRelayer,
    Network,
    Notification,
    Readiness,
    Rotation,
    Signer,
)
from relayer_client.retries import Retries
from relayer_client.tokens import AsyncToken
from relayer_client.wakeups import AsyncWakeup, Wakeups
from relayer_client.webhooks import Event

Result = TypeVar("Result")
DEFAULT_RETRIES = Retries()
NO_HEADERS: Mapping[str, str] = {}


class AsyncClient:
    """A client of the service at a URL, with a token, or a function that returns it whenever a call begins.

    `headers` are sent with each request. `verify` is as in httpx: the TLS context, the file of a CA, or False. `http`
    is an httpx client of your own, which has its own `timeout`, `verify` and `proxy`.

    `create_...` and jobs are sent with an idempotency key, by default a new one, so that a repeated request does
    nothing twice.
    """

    def __init__(
        self,
        url: str,
        token: AsyncToken,
        *,
        timeout: float | None = None,
        retries: Retries = DEFAULT_RETRIES,
        headers: Mapping[str, str] = NO_HEADERS,
        verify: Verify = True,
        proxy: Proxy | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        pools = AsyncPools(httpx.AsyncClient, http, timeout=timeout, verify=verify, proxy=proxy)
        self._transport = AsyncTransport(url, token, pools, retries, headers)
        self.wakeups: Wakeups[AsyncWakeup] = Wakeups()

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """Return a client with RELAYER_URL and RELAYER_TOKEN of the environment; options are those of a client."""
        missing = [name for name in ("RELAYER_URL", "RELAYER_TOKEN") if not os.environ.get(name)]
        if missing:
            raise ValueError(f"Set the environment variable {' and '.join(missing)}.")
        return cls(os.environ["RELAYER_URL"], os.environ["RELAYER_TOKEN"], **options)

    def with_options(
        self,
        *,
        token: AsyncToken | None = None,
        timeout: float | None = None,
        retries: Retries | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Self:
        """Return a copy with other options, and more headers. It shares the connections, and need not be closed."""
        copied = copy(self)
        copied._transport = self._transport.with_options(token, timeout, retries, headers)
        return copied

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        return self._transport.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    def relayer(self, relayer_id: str) -> AsyncRelayer:
        """Return a relayer to send with."""
        return AsyncRelayer(self, relayer_id)

    def notify(self, event: Event) -> None:
        """Make `wait` read the transaction of a verified webhook now. Any thread may call this."""
        if event.type.startswith("transaction.") and "id" in event.data:
            self.wakeups.wake(event.data["id"])

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """Return the JSON of a response, or what `read` finds in it; options are those of `AsyncTransport.call`."""
        return await self._transport.call(method, path, **options)

    async def fetch(self, kind: type[Result], method: str, path: str, **options: Any) -> Result:
        """Return the `data` of a response as a type; options are those of `call`."""
        found: Result = await self.call(method, path, read=lambda body: decode(kind, body["data"]), **options)
        return found

    def pages(self, kind: type[Result], path: str, query: Mapping[str, Any]) -> AsyncPages[Result]:
        return AsyncPages(self._transport, path, kind, query)

    async def _create(self, kind: type[Result], path: str, body: Mapping[str, Any] | None, key: str | None) -> Result:
        return await self.fetch(kind, "POST", path, body=body, key=key_or_new(key))

    async def _delete(self, path: str) -> None:
        await self.call("DELETE", path, read=check_deletion)

    # Signers

    def list_signers(self, *, q: str | None = None, per_page: int = 100) -> AsyncPages[Signer]:
        return self.pages(Signer, "/signers", {"q": q, "per_page": per_page})

    async def create_signer(self, *, idempotency_key: str | None = None, **fields: Unpack[SignerFields]) -> Signer:
        return await self._create(Signer, "/signers", fields, idempotency_key)

    async def get_signer(self, signer_id: str) -> Signer:
        return await self.fetch(Signer, "GET", resource_path("signers", signer_id))

    async def delete_signer(self, signer_id: str) -> None:
        await self._delete(resource_path("signers", signer_id))

    # Notifications: webhooks and their deliveries

    def list_notifications(self, *, q: str | None = None, per_page: int = 100) -> AsyncPages[ManagedNotification]:
        return self.pages(ManagedNotification, "/notifications", {"q": q, "per_page": per_page})

    async def create_notification(
        self, *, idempotency_key: str | None = None, **fields: Unpack[NotificationFields]
    ) -> ManagedNotification:
        return await self._create(ManagedNotification, "/notifications", fields, idempotency_key)

    async def get_notification(self, notification_id: str) -> ManagedNotification:
        return await self.fetch(ManagedNotification, "GET", resource_path("notifications", notification_id))

    async def update_notification(self, notification_id: str, **fields: Unpack[NotificationChanges]) -> Notification:
        return await self.fetch(Notification, "PATCH", resource_path("notifications", notification_id), body=fields)

    async def delete_notification(self, notification_id: str) -> None:
        await self._delete(resource_path("notifications", notification_id))

    async def test_notification(self, notification_id: str, *, idempotency_key: str | None = None) -> Delivery:
        """Send a test event."""
        return await self._create(
            Delivery, resource_path("notifications", notification_id, "test"), None, idempotency_key
        )

    def list_deliveries(
        self, notification_id: str, *, per_page: int = 100, **filters: Unpack[DeliveryFilter]
    ) -> AsyncPages[Delivery]:
        """Return the deliveries of a webhook, newest first."""
        query = list_query(DeliveryFilter, filters, per_page)
        return self.pages(Delivery, resource_path("notifications", notification_id, "deliveries"), query)

    async def get_delivery(self, notification_id: str, delivery_id: str) -> FullDelivery:
        return await self.fetch(
            FullDelivery, "GET", resource_path("notifications", notification_id, "deliveries", delivery_id)
        )

    async def replay_delivery(self, notification_id: str, delivery_id: str) -> Delivery:
        """Send a delivery again."""
        return await self.fetch(
            Delivery, "POST", resource_path("notifications", notification_id, "deliveries", delivery_id, "replay")
        )

    async def replay_deliveries(
        self, notification_id: str, *, idempotency_key: str | None = None, **fields: Unpack[DeliveryJobFields]
    ) -> Job:
        """Start a job that sends the deliveries of a filter again."""
        job_path = resource_path("notifications", notification_id, "deliveries", "replay")
        return await self._create(Job, job_path, fields, idempotency_key)

    # Relayers

    def list_relayers(self, *, per_page: int = 100, **filters: Unpack[RelayerFilter]) -> AsyncPages[ListedRelayer]:
        return self.pages(ListedRelayer, "/relayers", list_query(RelayerFilter, filters, per_page))

    async def create_relayer(
        self, *, idempotency_key: str | None = None, **fields: Unpack[RelayerFields]
    ) -> ManagedRelayer:
        body = {"network_type": "evm", "paused": False, **fields}
        return await self._create(ManagedRelayer, "/relayers", body, idempotency_key)

    async def get_relayer(self, relayer_id: str) -> ManagedRelayer:
        return await self.fetch(ManagedRelayer, "GET", resource_path("relayers", relayer_id))

    async def update_relayer(self, relayer_id: str, **fields: Unpack[RelayerChanges]) -> ManagedRelayer:
        return await self.fetch(ManagedRelayer, "PATCH", resource_path("relayers", relayer_id), body=fields)

    async def delete_relayer(self, relayer_id: str) -> None:
        await self._delete(resource_path("relayers", relayer_id))

    async def pause_relayers(self, *, idempotency_key: str | None = None, **fields: Unpack[RelayerJobFields]) -> Job:
        """Start a job that pauses the relayers of a filter."""
        return await self._create(Job, "/relayers/pause", fields, idempotency_key)

    async def resume_relayers(self, *, idempotency_key: str | None = None, **fields: Unpack[RelayerJobFields]) -> Job:
        """Start a job that resumes the relayers of a filter."""
        return await self._create(Job, "/relayers/resume", fields, idempotency_key)

    async def get_job(self, job_id: str) -> Job:
        return await self.fetch(Job, "GET", resource_path("jobs", job_id))

    async def wait_job(self, job: Job | str, *, timeout: float = WAIT_SECONDS) -> Job:
        """Return a job once it is finished or stopped, or raise `JobTimeout` within these seconds."""
        job_id = job.id if isinstance(job, Job) else job
        path = resource_path("jobs", job_id)
        deadline, last = deadlines(timeout)
        return await poll(
            lambda: self.fetch(Job, "GET", path, deadline=last),
            lambda found: found.has_ended,
            lambda found: JobTimeout(job_id, found),
            AsyncWakeup().pause,
            deadline,
        )

    # Networks and fee tokens

    def list_networks(self, *, q: str | None = None, per_page: int = 100) -> AsyncPages[Network]:
        return self.pages(Network, "/networks", {"q": q, "per_page": per_page})

    async def get_network(self, network_id: str) -> Network:
        """Return a network; an ID is `evm:sepolia`."""
        return await self.fetch(Network, "GET", resource_path("networks", network_id))

    def list_fee_tokens(
        self, *, q: str | None = None, network: str | None = None, per_page: int = 100
    ) -> AsyncPages[FeeToken]:
        return self.pages(FeeToken, "/fee-tokens", {"q": q, "network": network, "per_page": per_page})

    async def create_fee_token(
        self, *, idempotency_key: str | None = None, **fields: Unpack[FeeTokenFields]
    ) -> FeeToken:
        return await self._create(FeeToken, "/fee-tokens", fields, idempotency_key)

    async def get_fee_token(self, fee_token_id: str) -> FeeToken:
        """Return a fee token; an ID is `sepolia:USDC`."""
        return await self.fetch(FeeToken, "GET", resource_path("fee-tokens", fee_token_id))

    async def update_fee_token(self, fee_token_id: str, **fields: Unpack[FeeTokenChanges]) -> FeeToken:
        return await self.fetch(FeeToken, "PATCH", resource_path("fee-tokens", fee_token_id), body=fields)

    async def delete_fee_token(self, fee_token_id: str) -> None:
        await self._delete(resource_path("fee-tokens", fee_token_id))

    # The service itself

    async def rotate_token(self, *, overlap_seconds: int | None = None) -> Rotation:
        """Replace the token. Store the new one: it is returned once.

        This client uses it from now on, unless its token is a function.
        """
        body = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
        rotation = await self.fetch(Rotation, "POST", "/tokens/rotate", body=body)
        self._transport.token.replace(rotation.token)
        return rotation

    async def health(self) -> bool:
        """Return True if the service answers."""
        return bool(await self.call("GET", "/health", read=lambda body: body["status"] == "ok"))

    async def readiness(self) -> Readiness:
        """Return whether the service and what it depends on work."""
        found: Readiness = await self.call("GET", "/ready", accepted=(503,), read=lambda body: decode(Readiness, body))
        return found
