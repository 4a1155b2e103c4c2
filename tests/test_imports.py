"""Circles of modules, which import-linter's layers do not see within an app: imports inside functions count, too."""

import tomllib
from graphlib import TopologicalSorter

import grimp

from tests.servers import PROJECT


def test_no_modules_import_each_other_in_a_circle() -> None:
    rules = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    graph = grimp.build_graph(*rules["root_packages"], exclude_type_checking_imports=True, cache_dir=None)
    # `CycleError` names them.
    TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()
