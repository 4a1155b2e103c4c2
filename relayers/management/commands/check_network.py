"""Query the nodes of a network, and compare them with the network's definition."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chain.network_check import COLUMNS, check_nodes
from chain.networks import networks, resolve_alias, unknown
from relayer_service.net.addresses import mask, validate_http_url


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of the network")
        parser.add_argument(
            "--url",
            action="append",
            default=[],
            help="a node to query instead of the network's nodes; can be repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name, urls = resolve_alias(options["name"]), options["url"]
        network = networks().get(name)
        if network is None:
            raise CommandError(f"{name}: {unknown(name, 'add it to NETWORKS_FILE')}")
        for url in urls:
            try:
                validate_http_url(url)
            except ValidationError as error:
                raise CommandError(f"--url: {error.message}") from None
        urls = urls or list(network.rpc_urls)
        if not urls:
            raise CommandError(f"{name} has no RPC URLs: specify a node with --url")
        found = check_nodes(network, urls)
        self.stdout.write(f"{name}: chain {network.chain_id}, kind {network.kind}\n\n")
        for line in table([COLUMNS, *(each.cells for each in found)]):
            self.stdout.write(line)
        hints = [f"{mask(url)}: {hint}" for url, each in zip(urls, found, strict=True) for hint in each.hints]
        if hints:
            self.stdout.write("\n" + "\n".join(hints))
        failed = sum(not each.is_usable for each in found)
        if failed:
            raise CommandError(f"{failed} of {len(found)} nodes cannot be used.")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
