"""Ask the web process on this machine for /health, and exit with 0 if it answers.

A number as argument is for how many seconds to keep asking. PORT and the first of ALLOWED_HOSTS, which are settings of
the process too, say where and by which name.
"""

import http.client
import os
import sys
import time


def answers() -> bool:
    port = int(os.environ.get("PORT") or 8000)
    host = os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip().lstrip(".") or "localhost"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    try:
        connection.request("GET", "/health", headers={"Host": host})
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: list[str]) -> int:
    deadline = time.monotonic() + int(arguments[0]) if arguments else 0.0
    while not (found := answers()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
