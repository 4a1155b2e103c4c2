"""What is in the distribution besides the code."""

import tomllib

from relayer_client import __version__
from tests.servers import PROJECT

CLIENT = PROJECT / "client"


def test_the_distribution_has_the_license_and_a_changelog_of_its_version() -> None:
    assert (CLIENT / "LICENSE").read_bytes() == (PROJECT / "LICENSE").read_bytes()
    assert f"\n## {__version__}" in (CLIENT / "CHANGELOG.md").read_text()
    # Links to files of the repository lead nowhere in a package index.
    assert "](../" not in (CLIENT / "README.md").read_text()
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())
    assert project["project"]["license-files"] == ["LICENSE"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "relayer_client._version.__version__"}
