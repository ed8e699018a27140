"""The first subscription: what it needs is imported beside the loop, and not by servers that have none."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys, threading
from everbrook.server.assembly import assemble
from everbrook.server.exchange import Request, Response
from everbrook.settings import Settings
from everbrook.settings.sections.storage import StorageMode, StorageSettings
from everbrook.storage.memory import MemoryStorage

PUT = Request(
    b"PUT", b"/v1/stream/__ds/subscriptions/s", b"", {}, b'{"type":"pull-wake","pattern":"a/**","wake_stream":"w"}'
)


class Waiting:
    def __init__(self):
        self.answer = asyncio.get_running_loop().create_future()

    def respond(self, response):
        self.answer.set_result(response)


async def main():
    storage = MemoryStorage()
    application = assemble(Settings(storage=StorageSettings(mode=StorageMode.MEMORY)), storage)
    await application.begin()
    first, second, cancelled = application.handle(PUT), application.handle(PUT), application.handle(PUT)
    print("imported at once", "everbrook.server.webhooks.worker_api" in sys.modules)
    told = [Waiting(), Waiting(), Waiting()]
    for reply, exchange in zip((first, second, cancelled), told):
        reply.start(exchange)
    cancelled.cancel()
    print([(await exchange.answer).status for exchange in told[:2]], told[2].answer.done())
    reply = application.handle(PUT)
    print(isinstance(reply, Response), reply.status)
    await application.close()


asyncio.run(main())
"""


def test_the_first_request_waits_while_a_thread_imports_and_later_ones_do_not() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["imported at once False", "[201, 200] False", "True 200"]
