"""Who asks: a session's cookie, a name and password, or the scrape token. And one-time tokens, which make sessions.

A password is looked at by the users file's keeper (Argon2, in threads, two at once), and only after the source has an
attempt left. Everything that is compared is compared by hash, so that the time it takes tells nothing.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec
from starlette.requests import Request

from scale0.errors import ProtocolError
from scale0.management.channel import Token
from scale0.management.http.attempts import Attempts
from scale0.management.http.door import Door, Principal
from scale0.management.http.sessions import Sessions, hashed
from scale0.management.http.shapes import Refused, refusal_of
from scale0.management.vocabulary import Role
from scale0.protocol.codes import Code

TOKEN_USER: Final = "one-time token"
SCRAPER: Final = "scrape token"
ENDED: Final = "session ended: too many"
TOKENS_MAX: Final = 1_000
CREDENTIALS_CHARACTERS_MAX: Final = 4_096
CHALLENGE: Final = {"WWW-Authenticate": 'Scale0 realm="scale0"'}
"""Not Basic, though that is taken: browsers would ask for a password in a window of their own."""


class Accounts(Protocol):
    """The users file, as this process needs it."""

    def has_users(self) -> bool: ...

    def look(self) -> None:
        """Reads the file again if it has changed."""

    def stamp(self, user: str) -> str:
        """What changes whenever the user does; empty if there is none."""

    async def authenticate(self, user: str, password: str, source: str) -> Principal: ...


class Visitor(msgspec.Struct, frozen=True):
    """Who asks, and by what he proved it: the key of a session, or the stamp of his password."""

    principal: Principal
    session: str = ""
    stamp: str | None = None


class Visitors:
    def __init__(
        self,
        accounts: Accounts,
        door: Door,
        *,
        tokens: Iterable[Token] = (),
        scrape_token: str = "",
        on_used: Callable[[str], None] = lambda token: None,
    ) -> None:
        self._accounts, self._door, self._on_used = accounts, door, on_used
        self._scrape_hash = hashed(scrape_token) if scrape_token else ""
        self._tokens = {token.hash: token for token in tokens}
        self._attempts = Attempts()
        self.sessions = Sessions(accounts.stamp)

    async def who(self, request: Request) -> Visitor | None:
        """Whoever sent this; `None` if he did not say. Raises if what he said is wrong."""
        told = request.headers.get("authorization", "")
        if not told:
            return self._by_cookie(request)
        if len(told) > CREDENTIALS_CHARACTERS_MAX:
            raise Refused(401, "these credentials are too long", headers=CHALLENGE)
        scheme, _, value = told.partition(" ")
        if scheme.lower() == "basic":
            return await self._by_password(request, *_basic(value.strip()))
        if scheme.lower() == "bearer" and request.url.path == "/metrics":
            return self._by_scrape_token(request, value.strip())
        raise Refused(401, "these credentials are not taken here", "log in, or send Basic", CHALLENGE)

    def holds(self, visitor: Visitor) -> bool:
        """Whether he may still see what he was let in for."""
        if visitor.session:
            return self.sessions.holds(visitor.session, time.monotonic(), is_used=True)
        return visitor.stamp is None or self._accounts.stamp(visitor.principal.user) == visitor.stamp

    def sweep(self) -> None:
        """Ends the sessions whose time is over, or whose users changed."""
        self._accounts.look()
        self.sessions.sweep(time.monotonic())

    async def log_in(self, user: str, password: str, source: str) -> str:
        """A session's id for a name and a password."""
        if not self._accounts.has_users():
            cure = "add one: scale0 user add NAME; until then log in with the one-time token that the broker printed"
            raise Refused(403, "this broker has no users", cure)
        visitor = await self._prove(user, password, source)
        return self._open(visitor.principal, visitor.stamp)

    def log_in_by_token(self, token: str, source: str) -> str:
        """A session's id for a one-time token, which is worth nothing afterwards."""
        now = time.monotonic()
        self._attempts.take(source, now)
        key = hashed(token)
        known = self._tokens.pop(key, None)
        if known is None or known.until_s < time.time():
            self._door.denied(TOKEN_USER, source, "login by token", 401)
            cure = "a token works once, for five minutes; start the broker again for another, or: scale0 user add NAME"
            raise Refused(401, "this token is used up, too old or unknown", cure, CHALLENGE)
        self._attempts.give_back(source, now)
        self._on_used(key)
        principal = Principal(TOKEN_USER, Role.read(known.role), "http", source)
        return self._open(principal, None)

    def add_token(self, token: Token) -> None:
        now_s = time.time()
        for key in [key for key, one in self._tokens.items() if one.until_s < now_s]:
            del self._tokens[key]
        if len(self._tokens) < TOKENS_MAX:
            self._tokens[token.hash] = token

    def _open(self, principal: Principal, stamp: str | None) -> str:
        """A new session; those that make room for it are in the audit, under the names of their users."""
        name, ended = self.sessions.open(principal, stamp, time.monotonic())
        for session in ended:
            self._door.denied(session.principal.user[:128], principal.source, ENDED, Code.OVER_LIMIT)
        return name

    def _by_cookie(self, request: Request) -> Visitor | None:
        name = request.cookies.get(request.state.cookie, "")
        found = self.sessions.use(name, time.monotonic()) if name else None
        if found is None:
            return None
        key, session = found
        principal = msgspec.structs.replace(session.principal, source=request.state.source)
        return Visitor(principal, key)

    async def _by_password(self, request: Request, user: str, password: str) -> Visitor:
        if not self._accounts.has_users():
            raise Refused(401, "this broker has no users", "add one: scale0 user add NAME", CHALLENGE)
        return await self._prove(user, password, request.state.source)

    async def _prove(self, user: str, password: str, source: str) -> Visitor:
        self._attempts.take(source, time.monotonic())
        stamp = self._accounts.stamp(user)
        try:
            principal = await self._accounts.authenticate(user, password, source)
        except ProtocolError as error:
            self._door.denied(user[:128], source, "login", int(error.code))
            refused = refusal_of(error)
            refused.headers = CHALLENGE if error.code == 401 else {"Retry-After": "10"} if error.code == 429 else {}
            raise refused from None
        self._attempts.give_back(source, time.monotonic())
        return Visitor(principal, stamp=stamp)

    def _by_scrape_token(self, request: Request, token: str) -> Visitor:
        source = request.state.source
        self._attempts.take(source, time.monotonic())
        if not self._scrape_hash or not hmac.compare_digest(hashed(token), self._scrape_hash):
            self._door.denied(SCRAPER, source, "metrics", 401)
            raise Refused(401, "this is not the scrape token", "scrape_token_file in [management] names it", CHALLENGE)
        self._attempts.give_back(source, time.monotonic())
        return Visitor(Principal(SCRAPER, Role.VIEW, "http", source))


def _basic(value: str) -> tuple[str, str]:
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user, colon, password = "", "", ""
    if not colon or not user:
        raise Refused(401, "these Basic credentials cannot be read", "they are base64 of user:password", CHALLENGE)
    return user, password
