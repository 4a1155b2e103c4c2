"""The soak of the contract: lists, creations, changes, estimates, admin pages and webhooks."""

from contextlib import ExitStack
from typing import Any

from benchmarks.soak import rows, verdict
from benchmarks.soak.callers import (
    ESTIMATES,
    PAGES,
    REFUSALS,
    RELAYER_LISTS,
    SIGNER_LISTS,
    Caller,
    Creator,
    Patcher,
    Pauser,
    Prober,
    Reader,
)
from benchmarks.soak.client import Client
from benchmarks.soak.preparation import migrated, start_node
from benchmarks.soak.running import Soak


class ServiceSoak(Soak):
    def prepare(self, stack: ExitStack) -> str:
        with migrated():
            self.rows = rows.create(start_node(stack), self.receiver)
        return self.rows.token

    def callers(self) -> list[Caller]:
        self.creators = [Creator(self.site)]
        self.patchers = [Patcher(self.site, target, self.receiver) for target in self.rows.targets]
        self.pausers = [Pauser(self.site, relayer) for relayer in self.rows.relayers[::2]]
        self.probers = [Prober(self.site, target) for target in self.rows.targets[1::2]]
        readers = [Reader(self.site, SIGNER_LISTS) for _ in range(3)]
        readers += [Reader(self.site, RELAYER_LISTS) for _ in range(2)]
        readers += [Reader(self.site, ESTIMATES) for _ in range(3)]
        readers += [Reader(self.site, PAGES, 0.3) for _ in range(2)]
        readers += [Reader(self.site, REFUSALS, 0.1)]
        return [*readers, *self.creators, *self.patchers, *self.pausers, *self.probers]

    def compare(self) -> None:
        client = Client(self.site)
        emitted = verdict.outbox(self.connection)
        self.faults += verdict.lost_signers(client, self.creators)
        self.faults += verdict.lost_patches(self.patchers)
        self.faults += verdict.lost_events(emitted, self.pausers, self.probers)
        self.faults += verdict.lost_webhooks(emitted, self.receiver)
        self.faults += verdict.not_ready(self.fleet.port)

    def figures(self) -> dict[str, Any]:
        return {
            "signers_acknowledged": sum(len(creator.acknowledged) for creator in self.creators),
            "patches_acknowledged": sum(patcher.acknowledged for patcher in self.patchers),
            "events_acknowledged": sum(caller.acknowledged for caller in [*self.pausers, *self.probers]),
        }
