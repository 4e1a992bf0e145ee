"""The broker's end of the page: it starts the page's process, speaks with it, and starts it again when it dies.

The process is `python -m scale0.management.http` with its end of the channel as standard input, and nothing in its
arguments. It ends when the channel does, so it never outlives the broker, however that ends. What it prints goes to the
broker's log. One that says that it cannot be up is not started again, for it would say the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import secrets
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from scale0.errors import ProtocolError, SettingsError
from scale0.management import channel
from scale0.management.channel import Answer, Ask, Denied, Failed, FromBroker, Hello, Listening, Pushed, Refused, Token
from scale0.management.channel import Used as UsedToken
from scale0.management.gate import Gate
from scale0.management.vocabulary import Role

COMMAND: Final = (sys.executable, "-m", "scale0.management.http")
WAITING_MAX: Final = 2_000  # messages that the page's process has not taken; one that lets so many wait is stuck
TOKENS_MAX: Final = 100
TOKEN_S: Final = 300.0
URL_S: Final = 30.0
PAUSE_S: Final = 0.5  # before it is started again; it doubles
PAUSE_S_MAX: Final = 30.0
PROVEN_S: Final = 60.0  # one that lived so long is started again soon
END_S: Final = 3.0  # how long it may take to end by itself
LINE_MAX: Final = 2_000


class PageProcess:
    """The page of one broker. `hello` is what a new process must know first, but for the tokens."""

    def __init__(
        self, gate: Gate, hello: Hello, log: FilteringBoundLogger, *, command: tuple[str, ...] = COMMAND
    ) -> None:
        self.why = "the page's process has not begun yet"  # it is not up; empty: it is
        self._gate, self._hello, self._log, self._command = gate, hello, log, command
        self._tokens: dict[str, Token] = {}
        self._url = ""
        self._lock = threading.Lock()
        self._told = threading.Event()  # its first word came: an address, or a failure
        self._ended = threading.Event()
        self._failed = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._waiting: queue.Queue[FromBroker | None] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)

    # --- from any thread --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._thread.start()

    def url(self, limit_s: float = URL_S) -> str:
        """Where the page is, when it is up. `SettingsError` says why it is not."""
        self._told.wait(limit_s)
        if not self._url:
            raise SettingsError(f"the page is not up: {self._failed or self.why or 'it does not answer'}")
        return self._url

    @property
    def pid(self) -> int:
        """Its process; 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    def new_token(self, role: Role, for_s: float = TOKEN_S) -> str:
        """A token for one login with this role. Only its hash is kept, here and there."""
        text = secrets.token_urlsafe(32)
        token = Token(hashlib.sha256(text.encode()).hexdigest(), role.text, time.time() + for_s)
        with self._lock:
            self._forget_old_tokens()
            if len(self._tokens) >= TOKENS_MAX:
                raise ProtocolError(429, f"{TOKENS_MAX} tokens wait to be used")
            self._tokens[token.hash] = token
        self.push("token", {"hash": token.hash, "role": token.role, "until_s": token.until_s})
        return text

    def push(self, topic: str, payload: Any) -> None:
        """Tell it something unasked, if it runs."""
        if self._connection is not None:
            self._put(Pushed(topic, payload))

    def close(self) -> None:
        """End it: its channel is closed, and it has a moment."""
        self._ended.set()
        self._hang_up()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2 * END_S)

    # --- its own thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            began_s = time.monotonic()
            try:
                self._serve()
            except OSError as error:
                self.why = f"the page's process cannot be started: {error}"
            if self._ended.is_set() or self._failed:
                break
            is_proven = time.monotonic() - began_s >= PROVEN_S
            pause_s = PAUSE_S if is_proven else min(max(pause_s * 2, PAUSE_S), PAUSE_S_MAX)
            self._log.warning(f"page: {self.why}; it is started again in {pause_s:g} s")
        if self._failed:
            self.why = self._failed
            self._log.error(f"page: {self._failed}")
            self._told.set()

    def _serve(self) -> None:
        """One life of the process, from its start to its end."""
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._waiting = queue.Queue(WAITING_MAX)
        with self._lock:
            self._forget_old_tokens()
            self._hello.tokens = list(self._tokens.values())
            self._put(self._hello)
        self._process, self._connection = process, ours
        helpers = [
            threading.Thread(target=self._write, args=(ours, self._waiting), name="page-writer", daemon=True),
            threading.Thread(target=self._listen, args=(process,), name="page-log", daemon=True),
        ]
        for helper in helpers:
            helper.start()
        if self._ended.is_set():  # `close` came while it was started
            self._hang_up()
        while (message := channel.read_page(ours)) is not None:
            self._heed(message)
        self._hang_up()
        self.why = f"the page's process ended (exit code {_ended(process)})"
        for helper in helpers:
            helper.join(END_S)
        ours.close()
        self._process = None

    def _heed(self, message: channel.FromPage) -> None:
        match message:
            case Ask():
                asked = self._gate.ask(
                    message.principal,
                    message.command,
                    message.arguments,
                    command_id=message.command_id[:100],
                    brokers=message.brokers,
                )
                asked.add_done_callback(partial(self._answer, message.id))
            case Denied():
                self._gate.deny(message.user, "", "http", message.source, message.what, message.code)
            case Listening():
                self._url, self.why = message.url, ""
                self._log.info("page", url=message.url)
                self._told.set()  # after its line in the log: who waited writes one of his own
            case Failed():
                self._failed = message.text
                self._told.set()
            case UsedToken():
                with self._lock:
                    self._tokens.pop(message.hash, None)

    def _answer(self, number: int, done: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            self._put(Answer(number, done.result()))
        elif isinstance(error, ProtocolError):
            self._put(Refused(number, int(error.code), error.text))
        else:
            self._put(Refused(number, 500, "this command failed; the broker's log has more"))

    # --- the channel ------------------------------------------------------------------------------------------------

    def _put(self, message: FromBroker) -> None:
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self._log.warning(f"page: {WAITING_MAX} messages wait for its process; it is started anew")
            self._hang_up()

    def _write(self, connection: socket.socket, waiting: queue.Queue[FromBroker | None]) -> None:
        with contextlib.suppress(OSError):
            while (message := waiting.get()) is not None:
                connection.sendall(channel.frame(message))

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None, "it was asked for"
        with process.stdout as lines:
            while line := lines.readline(LINE_MAX):
                self._log.info(f"page: {line.decode(errors='replace').rstrip()}")

    def _hang_up(self) -> None:
        """End the channel: the reader and the process see its end, and the writer too."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            waiting = self._waiting
            while True:
                try:
                    waiting.put_nowait(None)
                    return
                except queue.Full:
                    with contextlib.suppress(queue.Empty):
                        waiting.get_nowait()

    def _forget_old_tokens(self) -> None:
        now = time.time()
        self._tokens = {hash_: token for hash_, token in self._tokens.items() if token.until_s > now}


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Its exit code; one that does not end by itself is killed."""
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
