"""A small HTTP/1.1 server on 127.0.0.1: keep-alive, bodies by length, chunked streams, cuts on purpose.

It serves tests and simulations and nothing else: no TLS, one responder, the requests of a
connection answered in order.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_HEAD = 64 * 1024
MAX_BODY = 256 * 1024 * 1024
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came in.

    Attributes:
        method: GET, POST, …
        path: the path with its query.
        headers: lower-case name → value.
        body: the bytes after the head.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        """Return the decoded body; raises ValueError if it is not JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back, and how.

    Attributes:
        status: HTTP status.
        body: the body; not looked at when `parts` is given.
        parts: the pieces of a stream, sent chunked, one HTTP chunk each; None = a plain body.
        headers: further headers.
        content_type: MIME type of the body.
        delay: seconds before the first byte.
        gap: seconds between the pieces of a stream.
        cut: close the connection after this many bytes of the body or pieces of the stream.
    """

    status: int = 200
    body: bytes = b""
    parts: tuple[bytes, ...] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    delay: float = 0.0
    gap: float = 0.0
    cut: int | None = None


Responder: TypeAlias = "Callable[[Received], Response]"


class MalformedRequest(ValueError):  # noqa: N818 - says what came in
    """Raise for bytes that are no request this server reads; `status` is what to answer."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def parse(buffer: bytes | bytearray) -> tuple[Received, int] | None:
    r"""Read the first request of a buffer.

    Returns:
        The request and the number of bytes it took; None when more bytes are needed.

    Raises:
        MalformedRequest: not HTTP/1.x, too large, or a body without a length.

    >>> parse(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")[1]
    36
    """
    end = buffer.find(_END_OF_HEAD)
    if end < 0:
        if len(buffer) > MAX_HEAD:
            raise MalformedRequest(431, f"the head is longer than {MAX_HEAD} bytes")
        return None
    method, path, headers = _head(bytes(buffer[:end]).decode("latin-1"))
    start = end + len(_END_OF_HEAD)
    stop = start + _body_length(headers)
    if len(buffer) < stop:
        return None
    return Received(method, path, headers, bytes(buffer[start:stop])), stop


def _head(text: str) -> tuple[str, str, dict[str, str]]:
    first, *lines = text.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004 - method, path, version
        raise MalformedRequest(400, f"not an HTTP/1.x request line: {first[:80]!r}")
    pairs = (line.partition(":") for line in lines)
    return words[0], words[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


def _body_length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise MalformedRequest(411, "send the body with a Content-Length, not chunked")
    text = headers.get("content-length", "0")
    if not text.isdecimal():
        raise MalformedRequest(400, f"Content-Length {text!r} is not a number")
    if int(text) > MAX_BODY:
        raise MalformedRequest(413, f"the body is longer than {MAX_BODY} bytes")
    return int(text)


def frames(response: Response) -> tuple[bytes, ...]:
    """Lay a response out as the writes it takes: the head with the body, or head, chunks and end."""
    if response.parts is None:
        head = _response_head(response, f"Content-Length: {len(response.body)}")
        return (head + response.body[: response.cut],)
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in response.parts if part]
    kept = chunks[: response.cut]
    end = [b"0\r\n\r\n"] if response.cut is None else []
    return (_response_head(response, "Transfer-Encoding: chunked"), *kept, *end)


def _response_head(response: Response, length: str) -> bytes:
    try:
        reason = HTTPStatus(response.status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [
        f"HTTP/1.1 {response.status} {reason}",
        f"Content-Type: {response.content_type}",
        length,
        *(f"{name}: {value}" for name, value in response.headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class _Connection(asyncio.Protocol):
    """One client connection; answers its requests in order."""

    def __init__(self, respond: Responder, connections: set[_Connection]) -> None:
        self._respond = respond
        self._connections = connections
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._connections.discard(self)
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _advance(self) -> None:
        """Answer what the buffer holds, unless an answer is still on its way."""
        while self._timer is None and not self._closing:
            try:
                found = parse(self._buffer)
            except MalformedRequest as err:
                body = json.dumps({"error": {"message": str(err)}}).encode()
                self._answer(Response(err.status, body), last=True)
                return
            if found is None:
                return
            request, taken = found
            del self._buffer[:taken]
            self._answer(self._respond(request), last=_wants_close(request))

    def _answer(self, response: Response, *, last: bool) -> None:
        pieces = deque(frames(response) if response.gap else [b"".join(frames(response))])
        send = partial(self._send, pieces, gap=response.gap, last=last or response.cut is not None)
        if response.delay:
            self._after(response.delay, send)
        else:
            send()

    def _send(self, pieces: deque[bytes], *, gap: float, last: bool) -> None:
        """Write the next piece and see to the rest of them after the gap."""
        if self._transport is None or self._closing:
            return
        self._transport.write(pieces.popleft())
        if pieces:
            self._after(gap, partial(self._send, pieces, gap=gap, last=last))
        elif last:
            self._closing = True
            self._transport.close()

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick, act)

    def _tick(self, act: Callable[[], None]) -> None:
        self._timer = None
        act()
        self._advance()


def _wants_close(request: Received) -> bool:
    return request.headers.get("connection", "").lower() == "close"


class Loopback:
    """Answer requests on a free port of 127.0.0.1, in a background thread, inside a `with` block.

    The responder runs in that thread, one request at a time, and must not block: waiting is what
    `Response.delay` is for. Can be entered again after it was left (on another port).
    """

    def __init__(self, respond: Responder) -> None:
        self._respond = respond
        self._port: int | None = None
        self._leave: Callable[[], None] | None = None

    @property
    def port(self) -> int:
        """Return the port; raises RuntimeError outside the `with` block."""
        if self._port is None:
            raise RuntimeError("the server has no port before it runs: use it in a `with` block")
        return self._port

    @property
    def base_url(self) -> str:
        """Return what an OpenAI client takes as `base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        if self._port is not None:
            raise RuntimeError(f"the server already runs on port {self._port}")
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._port = listener.getsockname()[1]
        loop, stop = asyncio.new_event_loop(), asyncio.Event()
        thread = threading.Thread(
            target=loop.run_until_complete,
            args=(_serve(listener, self._respond, stop),),
            name=f"loopback-{self._port}",
            daemon=True,
        )
        thread.start()

        def leave() -> None:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()

        self._leave = leave
        return self

    def __exit__(self, *_: object) -> None:
        if self._leave is not None:
            self._leave()
        self._leave = self._port = None


async def _serve(listener: socket.socket, respond: Responder, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drop every connection."""
    connections: set[_Connection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(respond, connections), sock=listener)
    await stop.wait()
    server.close()
    for connection in tuple(connections):
        connection.abort()
    while connections:  # noqa: ASYNC110 - an aborted connection is lost in the loop's next turn
        await asyncio.sleep(0)
