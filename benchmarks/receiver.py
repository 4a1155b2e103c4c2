"""A receiver of webhooks that records when each arrives: `/` answers at once, `/hang` never."""

import asyncio
import sys
import time

from aiohttp import web


class Receiver:
    def __init__(self) -> None:
        self.times: list[tuple[str, float]] = []

    async def take(self, request: web.Request) -> web.Response:
        await request.read()
        self.times.append((request.headers.get("webhook-id", ""), time.time()))
        return web.Response(status=204)

    async def hang(self, request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response(status=204)

    async def arrived(self, request: web.Request) -> web.Response:
        """Return what arrived, each with its time, and start over."""
        times, self.times = self.times, []
        return web.json_response(times)

    async def count(self, request: web.Request) -> web.Response:
        return web.json_response(len(self.times))


def main(port: int) -> None:
    receiver = Receiver()
    application = web.Application()
    application.add_routes(
        [
            web.post("/", receiver.take),
            web.post("/hang", receiver.hang),
            web.get("/arrived", receiver.arrived),
            web.get("/count", receiver.count),
        ]
    )
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None, shutdown_timeout=0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
