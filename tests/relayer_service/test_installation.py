from itertools import count

from relayer_service.local import installation

# As pip prints them, but for the number of packages.
PRINTED = [
    "Looking in indexes: https://packages.example.com/simple\n",
    "Collecting a==1 (from -r requirements.lock (line 1))\n",
    "  Downloading https://packages.example.com/a-1-py3-none-any.whl (15 kB)\n",
    "Collecting b==1 (from -r requirements.lock (line 5))\n",
    "Requirement already satisfied: c==1 in ./.venv/lib\n",
    "Collecting d==1 (from -r requirements.lock (line 9))\n",
    "Collecting e==1 (from -r requirements.lock (line 13))\n",
    "Collecting f==1 (from -r requirements.lock (line 17))\n",
    "Collecting g==1 (from -r requirements.lock (line 21))\n",
    "Collecting h==1 (from -r requirements.lock (line 25))\n",
    "Installing collected packages: a, b, d, e, f, g, h\n",
    "Successfully installed a-1 b-1\n",
]


def test_an_installation_has_a_line_for_each_step_and_names_no_host() -> None:
    clock = count(10, 10)
    assert list(installation.steps(PRINTED, 8, lambda: next(clock))) == [
        "  10 s  fetched 2 of 8",
        "  20 s  fetched 4 of 8",
        "  30 s  fetched 6 of 8",
        "  40 s  fetched 8 of 8",
        "  50 s  installing them",
    ]
