"""The load generator: wrk where there is one, else sockets and processes of our own."""

import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

CONNECTIONS = 8

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

# A number for each measurement, so that no two of them create the same thing.
marks = count(1)


class Failed(Exception):
    """Why a measurement is void."""


@dataclass(frozen=True)
class Request:
    port: int
    path: str
    authorization: str
    method: str = "GET"
    body: str = ""


Generator = Callable[[Request, float], float]


def choose(name: str | None) -> tuple[str, Generator]:
    """Return the generator of that name, or the best one available."""
    if name is None:
        name = "wrk" if shutil.which("wrk") else "python"
    return name, {"wrk": with_wrk, "python": with_python}[name]


def with_wrk(request: Request, seconds: float) -> float:
    """Return the requests answered in a second; wrk runs for whole seconds."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--timeout", "20s"]
    command += ["-H", f"Authorization: {request.authorization}"]
    with tempfile.TemporaryDirectory() as folder:
        if request.body:
            script = Path(folder) / "request.lua"
            script.write_text(WRK_SCRIPT.format(body=request.body, mark=f"{next(marks)}-", method=request.method))
            command += ["-s", str(script)]
        url = f"http://127.0.0.1:{request.port}{request.path}"
        output = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout
    if trouble := re.search(r"Non-2xx.*|Socket errors.*", output):
        raise Failed(f"{request.method} {request.path}: {trouble[0]}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if rate is None:
        raise Failed(f"wrk did not say how many requests it made: {output}")
    return float(rate[1])


def with_python(request: Request, seconds: float) -> float:
    with ProcessPoolExecutor(CONNECTIONS) as executor:
        marked = [f"{next(marks)}-" for _ in range(CONNECTIONS)]
        return sum(executor.map(call_in_turn, [request] * CONNECTIONS, marked, [seconds] * CONNECTIONS))


def call_in_turn(request: Request, mark: str, seconds: float) -> float:
    """Send one request after the other on one connection, and return how many were answered in a second."""
    head = f"{request.method} {request.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {request.authorization}\r\n"
    plain = f"{head}\r\n".encode()
    with socket.create_connection(("127.0.0.1", request.port), 20) as connection:
        started, answered = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - started) < seconds:
            message = plain
            if request.body:
                body = request.body.replace("NNN", f"{mark}{answered}")
                message = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            connection.sendall(message)
            read_answer(connection, request)
            answered += 1
    return answered / elapsed


def read_answer(connection: socket.socket, request: Request) -> None:
    text = b""
    while (end := text.find(b"\r\n\r\n")) < 0:
        text += receive(connection, request)
    if not re.match(rb"HTTP/1.1 2", text):
        raise Failed(f"{request.method} {request.path}: {text[:40]!r}")
    length = re.search(rb"(?i)content-length: (\d+)", text[:end])
    if length is None:
        raise Failed(f"{request.method} {request.path}: an answer without a length")
    while len(text) < end + 4 + int(length[1]):
        text += receive(connection, request)


def receive(connection: socket.socket, request: Request) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise Failed(f"{request.method} {request.path}: the server closed the connection")
    return part
