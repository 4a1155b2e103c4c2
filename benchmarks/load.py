"""The load generator: several connections, each with one request at a time, from one thread."""

import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.report import Failed

CONNECTIONS = 8
TIMEOUT_SECONDS = 30

# Sends another body each time: NNN becomes a unique number.
WRK_SCRIPT = """
local body, mark, number = [==[{body}]==], "{mark}", 0
wrk.method = "{method}"
wrk.headers["Content-Type"] = "application/json"
function request()
  number = number + 1
  return wrk.format(nil, nil, nil, (body:gsub("NNN", mark .. number)))
end
"""
STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")

# A number for each measurement, so that no two of them create the same thing.
marks = count(1)


@dataclass(frozen=True)
class Request:
    """A request, and the status of its answer; `NNN` in the body becomes another number each time."""

    path: str
    authorization: str
    method: str = "GET"
    body: str = ""
    status: int = 200

    def encoded(self, number: str = "") -> bytes:
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {self.authorization}\r\n"
        if not self.body:
            return f"{head}\r\n".encode()
        body = self.body.replace("NNN", number).encode()
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


Message = tuple[bytes, Request]


@dataclass(frozen=True)
class Load:
    """How long all requests took together, and each of them."""

    seconds: float
    waits: list[float]

    @property
    def rate(self) -> float:
        return len(self.waits) / self.seconds

    def percentile(self, percent: int) -> float:
        return sorted(self.waits)[min(len(self.waits) - 1, len(self.waits) * percent // 100)]


def generator_name() -> str:
    return "wrk" if shutil.which("wrk") else "python"


def rate(port: int, request: Request, seconds: float) -> float:
    """Return the requests answered in a second: by wrk where there is one, which costs the server the least."""
    if generator_name() == "wrk":
        return with_wrk(port, request, seconds)
    return drive(port, for_seconds(request, seconds)).rate


def with_wrk(port: int, request: Request, seconds: float) -> float:
    """Return the requests answered in a second; wrk runs for whole seconds."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--timeout", f"{TIMEOUT_SECONDS}s"]
    command += ["-H", f"Authorization: {request.authorization}"]
    with tempfile.TemporaryDirectory() as folder:
        if request.body:
            script = Path(folder) / "request.lua"
            script.write_text(WRK_SCRIPT.format(body=request.body, mark=f"{next(marks)}-", method=request.method))
            command += ["-s", str(script)]
        url = f"http://127.0.0.1:{port}{request.path}"
        output = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout
    if trouble := re.search(r"Non-2xx.*|Socket errors.*", output):
        raise Failed(f"{request.method} {request.path}: {trouble[0]}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if found is None:
        raise Failed(f"wrk did not say how many requests it made: {output}")
    return float(found[1])


def for_seconds(request: Request, seconds: float) -> Iterator[Message]:
    mark, end = next(marks), time.perf_counter() + seconds
    message = request.encoded()
    for number in count():
        if time.perf_counter() > end:
            return
        yield request.encoded(f"{mark}-{number}") if request.body else message, request


def until(messages: Iterable[Message], seconds: float) -> Iterator[Message]:
    """Yield messages for some seconds."""
    end = time.perf_counter() + seconds
    for message in messages:
        if time.perf_counter() > end:
            return
        yield message


class Connection:
    """A connection with at most one request in flight."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Message) -> None:
        text, self.request = message
        self.received, self.expected = b"", -1
        self.sent_at = time.perf_counter()
        self.socket.sendall(text)

    def receive(self) -> float | None:
        """Read what has come; return the seconds since the request once its answer is whole."""
        part = self.socket.recv(262_144)
        if not part:
            raise Failed(f"{self.request.method} {self.request.path}: the server closed the connection")
        self.received += part
        if self.expected < 0:
            self.expected = self._length()
        if self.expected < 0 or len(self.received) < self.expected:
            return None
        return time.perf_counter() - self.sent_at

    def _length(self) -> int:
        """Return the length of the answer with its head, or -1 while the head is not whole."""
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return -1
        status, length = STATUS.match(self.received), LENGTH.search(self.received, 0, end)
        if status is None or int(status[1]) != self.request.status or length is None:
            raise Failed(f"{self.request.method} {self.request.path}: unexpected answer {self.received[:400]!r}")
        return end + 4 + int(length[1])


def drive(port: int, messages: Iterable[Message], connections: int = CONNECTIONS) -> Load:
    """Send the messages, each connection its next one as soon as it has its answer."""
    source, waits = iter(messages), []
    opened = [Connection(port) for _ in range(connections)]
    by_number = {connection.socket.fileno(): connection for connection in opened}
    poll = select.poll()
    started, in_flight = time.perf_counter(), 0
    try:
        for connection in opened:
            poll.register(connection.socket, select.POLLIN)
            if message := next(source, None):
                connection.send(message)
                in_flight += 1
        while in_flight:
            ready = poll.poll(TIMEOUT_SECONDS * 1000)
            if not ready:
                raise Failed(f"no answer within {TIMEOUT_SECONDS} s")
            for number, _ in ready:
                connection = by_number[number]
                wait = connection.receive()
                if wait is None:
                    continue
                waits.append(wait)
                if message := next(source, None):
                    connection.send(message)
                else:
                    poll.unregister(number)
                    in_flight -= 1
        return Load(time.perf_counter() - started, waits)
    finally:
        for connection in opened:
            connection.socket.close()
