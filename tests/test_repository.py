"""What is committed: no secret, no path of somebody's machine, no package index, and every setting documented."""

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser, Error
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from relayer_service.configuration import environment
from tests.servers import PROJECT
from tokens import credentials

# Secrets that are none: the tests' own, by their exact value.
TEST_SECRETS = {"rms_0123456789AB_0123456789ABCDEFGHIJ0123456789ABCDEFGHIJ3tMC2E"}
TEST_KEY_BODIES = {"MHcCAQEEIHunter2Hunter2"}

# Put together here, as no file is to name one.
PUBLIC_INDEX_HOSTS = {".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))}
INDEX_SETTINGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "NPM_CONFIG_REGISTRY")
INDEX_OPTION = re.compile(r"(?:--(?:extra-)?index-url|--find-links|--trusted-host|^index-url|^registry)[ =]+\S+", re.M)
HOME = re.compile(r"/home/[A-Za-z][\w.-]*/|/Users/[A-Za-z][\w.-]*/|/root/\w|[A-Z]:\\+Users\\+\w")
PEM_BODY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s*(?:\\n)?([0-9A-Za-z+/=]{16,})")
AWS_KEY = re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")
TOKEN = re.compile(r"rms_[0-9A-Za-z]{12}_[0-9A-Za-z]{46}")


def tracked_files() -> dict[str, str]:
    """Return the text of every committed file."""
    if shutil.which("git") is None or not (PROJECT / ".git").exists():
        pytest.skip("this is no git checkout, so there is no list of committed files")
    command = ["git", "ls-files", "-z", "--cached"]
    names = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout.split("\0")
    files = {name: PROJECT / name for name in names if name and (PROJECT / name).is_file()}
    return {name: path.read_bytes().decode("utf-8", "replace") for name, path in files.items()}


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    found = tracked_files()
    assert "manage.py" in found
    return found


def hits(files: dict[str, str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for name, text in files.items():
        for match in pattern.finditer(text):
            yield name, match[match.re.groups]


def configured_index_hosts() -> set[str]:
    """Return the hosts from which packages are installed on this machine."""
    urls = " ".join(os.environ.get(name, "") for name in INDEX_SETTINGS).split()
    home = Path.home()
    for file in (Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read(file)
        except Error:
            continue
        urls += [value for section in parser.values() for value in section.values() if "://" in value]
    hosts = {urlsplit(url.strip()).hostname or "" for url in urls}
    return hosts - {"", "localhost", "127.0.0.1"}


def test_no_file_names_a_package_index(files: dict[str, str]) -> None:
    assert list(hits(files, INDEX_OPTION)) == []
    for host in configured_index_hosts() | PUBLIC_INDEX_HOSTS:
        assert [name for name, text in files.items() if host in text] == []


def test_no_file_has_a_path_of_somebodys_machine_or_a_secret(files: dict[str, str]) -> None:
    assert list(hits(files, HOME)) == []
    assert [name for name, text in files.items() if f"{PROJECT}/" in text] == []
    tokens = [(name, text) for name, text in hits(files, TOKEN) if credentials.parse(text)]
    assert [(name, text) for name, text in tokens if text not in TEST_SECRETS] == []
    assert [(name, body) for name, body in hits(files, PEM_BODY) if body not in TEST_KEY_BODIES] == []
    # Amazon's own documentation uses keys that end like this, so that scanners know them.
    assert [(name, key) for name, key in hits(files, AWS_KEY) if not key.endswith("EXAMPLE")] == []
    values = dict(re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", files[".env.example"], re.M))
    assert {values.get(name, "") for name in ("SECRET_KEY", "ENCRYPTION_KEYS", "TOKEN_PEPPERS")} == {""}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (HOME, "see /home" + "/alice/notes"),
        (HOME, "C:\\Users" + "\\alice"),
        (INDEX_OPTION, "--index-url" + " https://packages.example.com/simple"),
        (AWS_KEY, "AKIA" + "0123456789ABCDEF"),
        (PEM_BODY, "-----BEGIN PRIVATE" + " KEY-----\nMIIEvQIBADANBgkqhkiG9w0"),
        (TOKEN, "rms_0123456789AB_" + "x" * 46),
    ],
)
def test_each_search_finds_what_it_is_for(pattern: re.Pattern[str], text: str) -> None:
    assert [name for name, _ in hits({"a file": text}, pattern)] == ["a file"]


def variables_read(source: str) -> set[str]:
    """Return the names that a source reads through the helpers of `env`."""
    helpers = {name for name in vars(environment) if not name.startswith("_")}
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        called = node.func
        if isinstance(called.value, ast.Name) and called.value.id == "env" and called.attr in helpers:
            name = node.args[0]
            assert isinstance(name, ast.Constant), "a variable's name must be written out"
            assert isinstance(name.value, str), "a variable's name must be written out"
            found.add(name.value)
    return found


def variables_documented(text: str) -> set[str]:
    """Return the names that a file in the form of `.env` sets, also where the line is commented out."""
    return set(re.findall(r"^#? ?([A-Z][A-Z0-9_]*)=", text, re.M))


def test_every_variable_that_the_settings_read_is_documented() -> None:
    read = variables_read((PROJECT / "relayer_service/settings.py").read_text())
    assert {"SECRET_KEY", "DATABASE_URL", "RATE_LIMIT_RPC"} <= read
    documented = variables_documented((PROJECT / ".env.example").read_text())
    assert read - documented == set()
    assert documented & set(environment.REMOVED) == set()
    assert len(documented) <= 60
