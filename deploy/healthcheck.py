"""Request /health from the web process on this machine, and exit with 0 if it responds.

The optional argument is the number of seconds to keep trying; the process must then respond for long enough that the
proxy uses it again, so that the next process can be stopped. The request goes to PORT, with the first of
ALLOWED_HOSTS as its host: both are settings of the process too.
"""

import http.client
import os
import sys
import time

# Longer than the proxy's `fail_timeout`, for which it sends nothing to a process that it could not reach.
SECONDS_UNTIL_USED = 3
ANSWER_SECONDS = 4


def answers() -> bool:
    port = int(os.environ.get("PORT") or 8000)
    host = os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip().lstrip(".") or "localhost"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/health", headers={"Host": host})
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: list[str]) -> int:
    deadline = time.monotonic() + int(arguments[0]) if arguments else 0.0
    while True:
        if answers():
            if not arguments:
                return 0
            time.sleep(SECONDS_UNTIL_USED)
            if answers():
                return 0
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
