"""The two ways from `scale0 ctl` and `scale0 top` to a broker: MANAGEMENTREQ by default, HTTP with `--url`.

Both lead to the same commands with the same rules, so the command line knows only `Door`: a listing, or a command for
one broker or for several. Credentials go into the message or into the header, never into the address or the arguments.
An HTTP door speaks TLS wherever the address is not of this machine; a password never leaves it in the clear.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import ssl
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from scale0.cli.manage_command import Credentials
from scale0.errors import ProtocolError, SessionRefused, Unreachable, UsageError

Brokers = Literal["own", "all"] | list[str]
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
LIMIT_ROWS: Final = 10_000  # of one listing, as the broker has it
DEFAULT_URL: Final = "http://127.0.0.1:8480"


class Query(msgspec.Struct, frozen=True):
    """Which rows of a listing are wanted: a filter, a key to sort by (`-` before it: downwards), and how many."""

    filter: str = ""
    sort: str = ""
    limit: int | None = None


class BrokerAnswer(msgspec.Struct, frozen=True):
    """What one broker made of a command that went to several."""

    broker: str
    code: int = 200
    result: Any = None
    text: str = ""

    @property
    def is_good(self) -> bool:
        return 200 <= self.code < 300


class Answer(msgspec.Struct, frozen=True):
    """What became of a command: one result, or one a broker."""

    command_id: str
    result: Any = None
    results: list[BrokerAnswer] | None = None

    @property
    def is_good(self) -> bool:
        return self.results is None or all(answer.is_good for answer in self.results)

    def document(self) -> dict[str, Any]:
        """As the HTTP API has it, and as `--json` prints it."""
        if self.results is None:
            return {"command_id": self.command_id, "result": self.result}
        rows = [
            {"broker": answer.broker, "code": answer.code, "result": answer.result}
            if answer.is_good
            else {"broker": answer.broker, "code": answer.code, "text": answer.text}
            for answer in self.results
        ]
        return {"command_id": self.command_id, "complete": self.is_good, "results": rows}


class Door(Protocol):
    """A way to a broker's management."""

    where: str

    def listing(self, what: str, query: Query | None = None) -> dict[str, Any]:
        """The listing as the broker sends it, narrowed down by the query."""

    def carry_out(self, command: str, arguments: dict[str, Any], brokers: Brokers = "own") -> Answer:
        """Have the command carried out."""


def read_answer(command_id: str, result: Any, brokers: Brokers) -> Answer:
    """The answer in `result`, which is bare if only the broker that was asked did something."""
    if brokers == "own" or not isinstance(result, dict) or not isinstance(result.get("results"), list):
        return Answer(command_id, result)
    try:
        answers = msgspec.convert(result["results"], list[BrokerAnswer])
    except msgspec.ValidationError as error:
        raise ProtocolError(400, f"the broker's answer cannot be read: {error}") from None
    return Answer(str(result.get("command_id") or command_id), results=answers)


# --- MANAGEMENTREQ ------------------------------------------------------------------------------------------------


class RequestDoor:
    """MANAGEMENTREQ to the first of several brokers that answers."""

    def __init__(self, endpoints: Sequence[str], credentials: Credentials, timeout_s: float) -> None:
        self.where = endpoints[0]
        self._endpoints = list(endpoints)
        self._credentials = credentials
        self._timeout_s = timeout_s

    def listing(self, what: str, query: Query | None = None) -> dict[str, Any]:
        document = self._ask("list", {"what": what})
        if not isinstance(document, dict):
            raise ProtocolError(400, f"the broker's answer is no listing of {what}")
        return narrow(document, query or Query())

    def carry_out(self, command: str, arguments: dict[str, Any], brokers: Brokers = "own") -> Answer:
        command_id = str(uuid.uuid4())
        return read_answer(command_id, self._ask(command, arguments, brokers, command_id), brokers)

    def _ask(self, command: str, arguments: dict[str, Any], brokers: Brokers = "own", command_id: str = "") -> Any:
        from scale0.client.manager import manage
        from scale0.transport.key_files import server_keys

        tried: dict[str, str] = {}
        keys = server_keys(None, self._endpoints)
        for endpoint in self._endpoints:
            try:
                answer = manage(
                    endpoint,
                    command,
                    arguments,
                    auth_id=self._credentials.auth_id,
                    auth_password=self._credentials.auth_password,
                    timeout_s=self._timeout_s,
                    brokers=brokers,
                    command_id=command_id,
                    server_key=keys.get(endpoint),
                )
            except SessionRefused:
                raise
            except Unreachable as error:
                tried |= error.tried
                continue
            self.where = endpoint
            return answer
        raise Unreachable(tried, self._timeout_s)


def narrow(document: dict[str, Any], query: Query) -> dict[str, Any]:
    """The listing with the rows that the query wants, as the HTTP API has it: with `total` and `shown`."""
    rows = document.get("rows")
    if query == Query() or not isinstance(rows, list):
        return document
    from scale0.management import filters

    try:
        kept = filters.arranged(filters.Filter(query.filter).rows(rows), query.sort)
    except ProtocolError as error:
        raise UsageError(error.text) from None
    shown = kept if query.limit is None else kept[: query.limit]
    return {**document, "rows": shown, "total": len(kept), "shown": len(shown), "all": len(rows)}


# --- HTTP ---------------------------------------------------------------------------------------------------------


class HttpDoor:
    """The HTTP API of a broker, from anywhere."""

    def __init__(self, url: str, credentials: Credentials, timeout_s: float, ca_file: Path | None = None) -> None:
        self.where = check_url(url)
        self._parts = urlsplit(self.where)
        self._timeout_s = timeout_s
        secret = f"{credentials.auth_id}:{credentials.auth_password}".encode()
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(secret).decode(),
            "Accept": "application/json",
        }
        self._tls = _tls(ca_file) if self._parts.scheme == "https" else None

    def listing(self, what: str, query: Query | None = None) -> dict[str, Any]:
        wanted = query or Query()
        asked = {"filter": wanted.filter, "sort": wanted.sort, "limit": str(wanted.limit or LIMIT_ROWS)}
        words = urlencode({key: value for key, value in asked.items() if value})
        document = self._exchange("GET", f"/api/v1/{quote(what, safe='')}?{words}")
        if not isinstance(document, dict):
            raise ProtocolError(400, f"the answer of {self.where} is no listing of {what}")
        return document

    def carry_out(self, command: str, arguments: dict[str, Any], brokers: Brokers = "own") -> Answer:
        command_id = str(uuid.uuid4())
        body = {"arguments": arguments, "brokers": brokers, "command_id": command_id}
        document = self._exchange("POST", f"/api/v1/commands/{quote(command, safe='')}", body)
        if brokers == "own" and isinstance(document, dict):
            return Answer(str(document.get("command_id") or command_id), document.get("result"))
        return read_answer(command_id, document, brokers)

    def _exchange(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = self._connection()
        headers = {**self._headers, **({"Content-Type": "application/json"} if body is not None else {})}
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
            response = connection.getresponse()
            answered = response.read(ANSWER_BYTES_MAX)
        except ssl.SSLCertVerificationError as error:
            why = f"its certificate is not trusted: {error.verify_message}; a CA of your own: --ca-file FILE"
            raise Unreachable({self.where: why}, self._timeout_s) from error
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable({self.where: _why(error)}, self._timeout_s) from error
        finally:
            connection.close()
        return self._read(response, answered)

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _read(self, response: http.client.HTTPResponse, answered: bytes) -> Any:
        try:
            document = msgspec.json.decode(answered) if answered else None
        except msgspec.DecodeError:
            document = None
            if response.status < 400:
                raise ProtocolError(400, f"{self.where} does not answer as a Scale0 broker") from None
        if response.status < 400:
            return document
        told = document if isinstance(document, dict) else {}
        text = str(told.get("text") or f"{response.status} {response.reason}")
        cure = f"\n{told['cure']}" if told.get("cure") else ""
        if response.status in {401, 403, 421}:
            raise SessionRefused(self.where, response.status, text + cure)
        raise ProtocolError(response.status, text + cure)


def check_url(url: str) -> str:
    """The address, if a password may be sent there."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{url!r} is not a page's address\nit looks like {DEFAULT_URL}")
    if parts.username or parts.password:
        raise UsageError(
            "a password does not belong into an address, where everybody can read it\n"
            "set SCALE0_AUTH_ID and SCALE0_AUTH_PASSWORD, or name a file with --auth-file"
        )
    if parts.scheme == "http" and not _is_here(parts.hostname):
        raise UsageError(f"{url} is not encrypted, and the password would travel in the clear\nuse https://")
    return url.rstrip("/")


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file is not None else None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot use {ca_file} as certificates: {error}") from error


def _why(error: Exception) -> str:
    match error:
        case ConnectionRefusedError():
            return "nothing listens on that port"
        case TimeoutError():
            return "no answer in time"
        case _:
            return str(error) or type(error).__name__
