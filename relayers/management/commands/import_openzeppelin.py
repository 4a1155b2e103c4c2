"""Convert the configuration of OpenZeppelin Relayer to a fleet file for load_config. The database is not used."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from relayer_service.fleet.files import write_private
from relayer_service.fleet.references import Fault
from relayer_service.storage.resources import CONTROL_CHARACTER
from relayers.openzeppelin.conversion import CONFIG_FILE, Conversion
from relayers.openzeppelin.entries import Unreadable
from signers import type_aliases
from signers.backends.local import Local
from signers.config_shapes import SignerType


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("config_dir", type=Path, help=f"the folder with their {CONFIG_FILE}")
        parser.add_argument("--networks", type=Path, help="the folder with their network files")
        parser.add_argument("--dry-run", action="store_true", help="print what would be imported, and write nothing")
        parser.add_argument(
            "--paused", action="store_true", help="import all relayers as paused, to switch over later"
        )
        parser.add_argument(
            "-o", "--output", type=Path, default=Path("fleet.json"), help="the new fleet file (default: fleet.json)"
        )
        parser.add_argument(
            "--networks-output", type=Path, help="a new NETWORKS_FILE, with the custom networks that relayers use"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder, files = options["config_dir"], [options["output"], options["networks_output"]]
        for file in files:
            if file and not options["dry_run"] and os.path.lexists(file):
                raise CommandError(f"Nothing was written: {file} exists. Remove it, or choose another name.")
        try:
            found = Conversion(folder, options["networks"], os.environ)
        except Unreadable as error:
            raise CommandError(f"Nothing was written. {folder / CONFIG_FILE}: {error}") from None
        if options["paused"]:
            found.pause()
        if found.report.faults:
            text = "\n  ".join(map(printable, lines(found.report.faults)))
            raise CommandError(f"Nothing was written. Errors in {folder}:\n  {text}")
        for line in describe(found, has_networks_file=bool(files[1])):
            self.stdout.write(printable(line))
        if options["dry_run"]:
            self.stdout.write("Dry run, nothing was written.")
            return
        contents = [found.document, {"networks": found.networks.custom}]
        write_all({file: each for file, each in zip(files, contents, strict=True) if file})
        secrets = ", which contains secrets: delete it after it is loaded" if found.report.has_secrets else ""
        if files[1]:
            self.stdout.write(f"Wrote {files[1]}.")
        self.stdout.write(f"Wrote {files[0]}{secrets}.")
        self.stdout.write(f"Next: python manage.py load_config {files[0]} --dry-run")


def describe(found: Conversion, *, has_networks_file: bool) -> Iterator[str]:
    """Yield the lines of a report: what is imported, what is not and why, and what the fleet file needs."""
    report = found.report
    for name, entries in found.document.items():
        yield f"{name}: {len(entries)}"
        yield from (f"  {entry['id']}{details(name, entry)}" for entry in entries)
    if found.networks.custom and not has_networks_file:
        names = ", ".join(found.networks.custom)
        yield f"Custom networks: {names}. Their relayers have the chain ID and RPC URLs."
        yield "  --networks-output writes a NETWORKS_FILE with coin, block time and confirmations."
    for title, found_lines in (("Notes:", lines(report.notes)), ("Not imported:", lines(report.skipped))):
        if found_lines:
            yield title
            yield from (f"  {line}" for line in found_lines)
    if report.variables:
        names = ", ".join(name if os.environ.get(name) else f"{name} (not set)" for name in sorted(report.variables))
        yield f"Environment variables that load_config needs: {names}"


def details(name: str, entry: dict[str, Any]) -> str:
    if name == "relayers":
        return f": {entry['network']}, signer {entry['signer_id']}"
    if name != "signers":
        return ""
    signer_type = SignerType(entry["type"])
    address = f", {Local(entry['config']).address()}" if signer_type == SignerType.PLAIN else ""
    return f": {type_aliases.ALIASES[signer_type]} is {signer_type.value}{address}"


def lines(report: Iterable[Fault]) -> list[str]:
    return [f"{path}: {text}" if path else text for path, text in report]


def printable(text: str) -> str:
    """Return a text without characters that control a terminal."""
    return CONTROL_CHARACTER.sub("?", text)


def write_all(contents: dict[Path, Any]) -> None:
    """Write new files that only their owner can read, all of them or none."""
    written: list[Path] = []
    try:
        for file, content in contents.items():
            # A link never replaces another file.
            write_private(file, f"{json.dumps(content, indent=2, ensure_ascii=False)}\n", place=os.link)
            written.append(file)
    except OSError as error:
        for each in written:
            each.unlink(missing_ok=True)
        raise CommandError(f"Nothing was written. Cannot write {file}: {error.strerror}") from None
