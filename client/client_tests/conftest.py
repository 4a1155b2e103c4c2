import pytest

from client_tests.bench import Bench, FakeBench


@pytest.fixture
def bench() -> Bench:
    return FakeBench()
