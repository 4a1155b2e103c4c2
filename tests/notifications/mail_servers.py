"""A stand-in for a mail server: it speaks SMTP (RFC 5321) over a socket, and keeps the messages that it accepts."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage

LOOPBACK = "127.0.0.1"


class Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.say("220 stand-in ESMTP")
        for line in iter(self.rfile.readline, b""):
            verb = line[:4].upper().strip().decode()
            if verb == "DATA":
                self.say("354 End with a dot")
                self.take_message()
            elif verb == "QUIT":
                self.say("221 Bye")
                return
            elif verb == "RCPT" and self.server.refusal:
                self.say(self.server.refusal)
            else:
                self.say("250 OK")

    def take_message(self) -> None:
        lines = []
        for line in iter(self.rfile.readline, b".\r\n"):
            lines.append(line[1:] if line.startswith(b"..") else line)
        if self.server.hold_next:
            self.server.hold_next = False
            self.server.holds.set()
            self.rfile.read()
            return
        self.server.messages.append(message_from_bytes(b"".join(lines), policy=policy.default))
        self.say("250 Accepted")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        # The answer to every recipient, such as "550 No such user".
        self.refusal = ""
        # Whether the next message gets no answer, and is lost with its connection; `holds` is set then.
        self.hold_next = False
        self.holds = threading.Event()
        super().__init__((LOOPBACK, 0), Session)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


@contextmanager
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
