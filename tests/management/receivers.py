"""A real HTTP server on a free port, whose behaviour a test changes while it runs."""

from __future__ import annotations

import contextlib
import http.server
import queue
import ssl
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

WAIT_S = 30.0


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """`requests` has what came. `status` is answered; with `is_hanging` nothing is, until `let_go`.

    Its port is its own from the beginning; without `is_listening` whoever connects is refused, until `listen`.
    """

    def __init__(self, context: ssl.SSLContext | None = None, *, is_listening: bool = True) -> None:
        self.requests: queue.Queue[Request] = queue.Queue()
        self.status = 200
        self.location = ""
        self.is_hanging = False
        self.is_dripping = False
        self._let_go = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.server_bind()
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        if is_listening:
            self.listen()

    def listen(self) -> None:
        self._server.server_activate()
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next(self) -> Request:
        return self.requests.get(timeout=WAIT_S)

    def let_go(self) -> None:
        """Those that hang are hung up on."""
        self._let_go.set()

    def close(self) -> None:
        self.let_go()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(WAIT_S)
        self._server.server_close()

    def _serve(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        request = Request(handler.path, dict(handler.headers), body)
        is_hanging, is_dripping, status = self.is_hanging, self.is_dripping, self.status
        self.requests.put(request)
        if is_hanging:
            self._let_go.wait(WAIT_S)
            handler.close_connection = True
        elif is_dripping:
            self._drip(handler)
        else:
            handler.send_response(status)
            if self.location:
                handler.send_header("Location", self.location)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

    def _drip(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """A byte now and then, so that no single read takes long."""
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self._let_go.wait(0.02):
                handler.wfile.write(b"x")
                handler.wfile.flush()


@contextlib.contextmanager
def receiver(context: ssl.SSLContext | None = None, *, is_listening: bool = True) -> Iterator[Receiver]:
    running = Receiver(context, is_listening=is_listening)
    try:
        yield running
    finally:
        running.close()
