"""The check of the mutation table, without a run."""

from pathlib import Path

import pytest

from tests import mutations
from tests.mutations import Mutation

ROW = Mutation("Two is three.", "product.py", "TWO = 2", "TWO = 3", ("tests/test_product.py",))


MUST = "Mutation 1: product.py must contain the text to change once, and not"


@pytest.mark.parametrize(
    ("source", "test", "output"),
    [
        ("TWO = 2\n", "tests/test_product.py", ""),
        ("TWO = 1 + 1\n", "tests/test_product.py", f"{MUST} 0 times.\n"),
        ("TWO = 2\nTWO = 2\n", "tests/test_product.py", f"{MUST} 2 times.\n"),
        ("TWO = 2\n", "tests/test_moved.py", "Mutation 1: tests/test_product.py does not exist.\n"),
    ],
)
def test_a_row_that_no_longer_fits_fails_the_check(
    source: str,
    test: str,
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(mutations, "MUTATIONS", {1: ROW})
    (tmp_path / "product.py").write_text(source)
    (tmp_path / "tests").mkdir()
    (tmp_path / test).touch()
    code = mutations.main(["--check", "--tree", str(tmp_path)])
    assert (code, capsys.readouterr().out) == (1 if output else 0, output)
