"""Connections that harm a server which believes in them: a program that holds them all until its stdin ends.

flood.py PORT TOKEN       prints "flooding" once all are open, and at its end one line: {what: {answer: how often}}
"""

import asyncio
import collections
import gzip
import json
import resource
import sys

IDLE, DRIPPING, EACH = 2000, 300, 4
SECOND = 1.0
PIECE = b"0123456789abcdef" * 4096


class Flood:
    def __init__(self, port, token):
        self.port = port
        self.answers = collections.defaultdict(collections.Counter)
        self.signed = b"Host: localhost\r\nAuthorization: Bearer %s\r\n" % token.encode()
        self.anonymous = b"Host: localhost\r\n"
        self.chunked = b"Transfer-Encoding: chunked\r\n\r\n"

    async def connect(self, source):
        """From one of the addresses of the loopback, so that no attacker crowds out himself."""
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=("127.0.0.%d" % source, 0))

    async def hold(self, source):
        return await self.connect(source)

    async def send(self, what, source, head, piece, pause):
        """Sends `piece` again and again, until an answer or the end comes; notes it."""
        try:
            reader, writer = await self.connect(source)
            answer = asyncio.ensure_future(reader.read(12))
            try:
                writer.write(head)
                while not answer.done():
                    await asyncio.wait([answer], timeout=pause)
                    writer.write(piece)
                    await writer.drain()
                text = answer.result()
            finally:
                answer.cancel()
                writer.close()
        except OSError:
            text = b""
        self.answers[what][text[9:12].decode() or "closed"] += 1

    async def again_and_again(self, what, source, head, piece, pause=0.02):
        while True:
            await self.send(what, source, head, piece, pause)

    def attacks(self):
        for i in range(DRIPPING):
            yield self.again_and_again("dripping", 5 + i % 2, b"GET /v1/jobs HTTP/1.1\r\n", b"x", SECOND)
        post = b"POST /v1/jobs HTTP/1.1\r\n"
        inflated = gzip.compress(bytes(256 << 20))
        zipped = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(inflated)
        chunk = b"%x\r\n%s\r\n" % (len(PIECE), PIECE)
        line = b"x: " + b"[a, " * ((1 << 18) - 1)
        whole = b"Content-Type: application/yaml\r\nContent-Length: %d\r\n\r\n" % len(line)
        for _ in range(EACH):
            yield self.again_and_again("endless head", 7, b"GET / HTTP/1.1\r\n", b"X: %s\r\n" % PIECE)
            yield self.again_and_again("endless line", 7, b"GET /", PIECE)
            yield self.again_and_again("endless body of nobody", 8, post + self.anonymous + self.chunked,
                                       chunk)
            yield self.again_and_again("endless body", 8, post + self.signed + self.chunked, chunk)
            yield self.again_and_again("endless chunk", 8, post + self.signed + self.chunked + b"1;", PIECE)
            yield self.again_and_again("inflated body", 9, post + self.signed + zipped + inflated, b"")
            yield self.again_and_again("half a body", 9, post + self.signed + b"Content-Length: 99\r\n\r\n", b"")
            yield self.again_and_again("one line", 9, post + self.signed + whole + line, b"", SECOND)

    async def run(self):
        held = await asyncio.gather(*(self.hold(2 + i % 3) for i in range(IDLE)))
        tasks = [asyncio.ensure_future(attack) for attack in self.attacks()]
        print("flooding", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.answers["idle"]["closed"] = sum(reader.at_eof() for reader, _ in held)
        print(json.dumps(self.answers), flush=True)


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(Flood(int(sys.argv[1]), sys.argv[2]).run())
