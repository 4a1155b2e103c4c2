"""The linters of the OpenAPI documents; their rulesets explain which rules are off."""

import json
from dataclasses import dataclass

from tests.generators.generators import FOLDER, Failed, run
from tests.servers import PROJECT


@dataclass(frozen=True)
class Linter:
    name: str
    command: tuple[str, ...]

    def check(self, document: str) -> None:
        """Raise `Failed` if it finds anything."""
        run([*self.command, PROJECT / document], FOLDER)


class Redocly(Linter):
    def check(self, document: str) -> None:
        report = json.loads(run([*self.command, PROJECT / document], FOLDER))
        if report["problems"]:
            raise Failed("\n".join(f"{problem['ruleId']}: {problem['message']}" for problem in report["problems"]))


LINTERS = [
    Redocly("Redocly", ("redocly", "lint", "--config=redocly.yaml", "--format=json")),
    Linter("Spectral", ("spectral", "lint", "--ruleset=spectral.yaml", "--fail-severity=hint")),
]
