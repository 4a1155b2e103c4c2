import sys
from pathlib import Path

# `relayer_client` is a distribution of its own, which is not installed with the service.
sys.path.append(str(Path(__file__).parents[2] / "client"))
