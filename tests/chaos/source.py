"""Forks a process for each case that it reads: loading the service takes longer than running a case."""

import gc
import json
import os
import signal
import sys
import traceback


def main() -> None:
    import django

    django.setup()
    from django.urls import get_resolver
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("tasks")
    # What a request and a turn load when they first need it.
    get_resolver().url_patterns  # noqa: B018
    from tests.chaos import running
    from tests.chaos.children import end_with_parent

    # A worker collects garbage when it starts: without all of this, which it would look through and so copy.
    gc.freeze()
    # Whatever else writes to the standard output of a case goes to its log.
    results = os.dup(1)
    # The system takes the dead away; a case waits for its own children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        end_with_parent()
        order = json.loads(line)
        try:
            result = running.run(order)
        except BaseException:  # the campaign reports it
            result = {"violations": [traceback.format_exc()], "kills": 0}
        os.write(results, (json.dumps({"number": order["number"], **result}) + "\n").encode())
        os._exit(0)


if __name__ == "__main__":
    main()
