"""A gate for brokers without a process: it knows who may come in, and carries out at once what they ask.

The real one (`scale0.management.gate`) has threads, files and roles. To the core it makes no difference: it says what
was asked, and hears an answer, now or later.
"""

from __future__ import annotations

from collections.abc import Mapping

from scale0.core.askers import Later
from scale0.core.broker import Broker
from scale0.core.effects import Answered, Asked, Effect
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.messages import Error


class Gatekeeper:
    """Of one broker. `users` are names and passwords; who comes by a peer may look, and do no more."""

    def __init__(self, broker: Broker, users: Mapping[str, str]) -> None:
        self._broker, self._users = broker, users
        self._later: dict[int, int] = {}  # the key of an answer that is to come → of who asked

    def decide(self, asked: Asked, now: float) -> list[Effect]:
        """What comes of MANAGEMENTREQ."""
        try:
            self._check(asked)
            result, effects = self._broker.manage(asked.command, {**asked.arguments, "author": asked.user}, now)
        except ProtocolError as error:
            return self._broker.answer(asked.key, error, now)
        if isinstance(result, Later):
            self._later[result.key] = asked.key
            return effects
        return [*effects, *self._broker.answer(asked.key, result, now)]

    def answered(self, effect: Answered, now: float) -> list[Effect] | None:
        """What comes of an answer that came later; `None` if nobody here waits for it."""
        key = self._later.pop(effect.key, None)
        if key is None:
            return None
        message = effect.message
        result = ProtocolError(message.code, message.text) if isinstance(message, Error) else message.result
        return self._broker.answer(key, result, now)

    def _check(self, asked: Asked) -> None:
        if asked.peer:
            if asked.command != "list":
                raise ProtocolError(Code.NOT_ALLOWED, f"{asked.peer} may only look")
        elif not self._users:
            raise ProtocolError(Code.NOT_ALLOWED, "this broker has no users")
        elif asked.password != self._users.get(asked.user):
            raise ProtocolError(Code.NOT_AUTHENTICATED, "user and password do not match")
