"""How an error ends a command: what, why, next, on stderr, and an exit code that means something.

0 good · 1 a bad answer · 2 usage · 3 unreachable · 4 refused · 5 partial · 6 a drill was aborted · 7 a
simulated network broke a rule. A traceback is for developers: it appears only with `-v` or `SCALE0_DEBUG=1`.
"""

from __future__ import annotations

import errno
import sys
import traceback
from enum import IntEnum

from rich.text import Text

from scale0 import errors
from scale0.cli import render


class Exit(IntEnum):
    GOOD = 0
    BAD_ANSWER = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    PARTIAL = 5
    ABORTED = 6
    VIOLATED = 7
    INTERRUPTED = 130


_SILENCE = ("no answer within", "it listens, and does not answer")
_REFUSALS = frozenset({401, 403, 409, 429, 498, 503})

_ROOM = "make room where this is to be written, or name another place"
_RIGHTS = "give this user the right to it, or name another place"
_PLACES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EROFS: _RIGHTS,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
}
"""What the machine may say of a place that was named to us, and what to do then: it is no bug of ours."""


def exit_code(error: BaseException) -> Exit:
    """What the shell is told."""
    match error:
        case errors.SessionRefused() | errors.PortTaken():
            return Exit.REFUSED
        case errors.Unreachable():
            return Exit.UNREACHABLE
        case errors.UsageError():
            return Exit.USAGE
        case errors.TaskError(code=code) | errors.ProtocolError(code=code) if code in _REFUSALS:
            return Exit.REFUSED
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case _:
            return Exit.BAD_ANSWER


def explain(error: BaseException) -> list[str]:
    """The first line says what, the others why and what to do next."""
    match error:
        case errors.SessionRefused(code=401, text=text) if "password" in text:
            return [*str(error).splitlines(), "who may manage, where the broker runs: scale0 user list"]
        case errors.SessionRefused():
            return str(error).splitlines()
        case errors.Unreachable(tried=tried):
            return _explain_unreachable(error, tried)
        case errors.ServiceNotFound(near=near):
            is_said = all(name in str(error) for name in near)  # by the broker, in its own words
            hints = [] if is_said else [f"did you mean: {', '.join(near)}?"]
            return [str(error), *hints, "what there is: scale0 services"]
        case errors.RemoteError(remote_traceback=remote_traceback):
            last = [line for line in remote_traceback.strip().splitlines() if line.lstrip().startswith("File ")][-1:]
            where = [f"raised in the worker, {last[0].strip()}"] if last else ["raised in the worker"]
            return [str(error), *where]
        case errors.WorkerLost():
            return [str(error), "the task may have run; who is there: scale0 workers"]
        case errors.DeadlineExceeded():
            return [str(error), "more time: --timeout SECONDS; who is there: scale0 services"]
        case errors.Overloaded():
            return [str(error), "how busy it is: scale0 brokers"]
        case errors.BrokerUnavailable():
            return [str(error), "who serves: scale0 network"]
        case errors.Scale0Error():
            return str(error).splitlines() or [type(error).__name__]
        case OSError(errno=number, strerror=why, filename=file) if number in _PLACES:
            return [f"{file}: {why}" if file else str(why), _PLACES[number]]
        case _:
            return [f"{type(error).__name__}: {error}", "this is a bug in Scale0; SCALE0_DEBUG=1 shows where"]


def explain_usage(message: str, context: object = None) -> list[str]:
    """A command line that cannot be: what is wrong with it, and where the command that was meant is explained."""
    what = " ".join(message.replace("Value error, ", "").split()).rstrip(".")  # a library's words for itself
    command = getattr(context, "command_path", None) or "scale0"
    return [what[0].lower() + what[1:], f"what can be typed: {command} --help"]


def _explain_unreachable(error: errors.Unreachable, tried: dict[str, str]) -> list[str]:
    where = ", ".join(tried) or "any known address"
    whys = list(tried.values()) if len(tried) == 1 else [f"{endpoint}: {why}" for endpoint, why in tried.items()]
    silent = [endpoint for endpoint, why in tried.items() if why.startswith(_SILENCE)]
    if not error.is_answered and silent:  # nobody refused the connection
        cure = f"is a broker there? a disabled one is silent until: scale0 ctl enable --broker {silent[0]}"
        return [f"no broker at {where} after {error.waited_s:.3g} s", *whys, cure]
    if not error.is_answered:
        start = "start one: scale0 broker"
        cures = [f"{start} --manage HOST:PORT" if where.startswith("http") else start]
        return [f"no broker at {where} after {error.waited_s:.3g} s", *whys, *cures]
    # A why that begins with a code is a broker's own word: it does not serve now. Any other tells its own cure.
    has_code = any(why[:3].isdigit() for why in tried.values())
    cures = ["ask another one: --broker ADDRESS"] if has_code else []
    return [f"no broker that serves at {where} after {error.waited_s:.3g} s", *whys, *cures]


def report(error: BaseException) -> Exit:
    """Show `error` on stderr and say how the process ends."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if render.is_debugging():
        traceback.print_exception(error, file=sys.stderr)
    complain(*explain(error))
    return exit_code(error)


def complain(what: str, *rest: str) -> None:
    """`error: what`, and each further line indented under it."""
    page = render.Page(sys.stderr)
    page.line(Text.assemble(("error:", render.STYLES["bad"]), " ", render.safe(what)))
    for line in rest:
        page.line("  " + render.safe(line))


def remark(what: str) -> None:
    """A warning: the command goes on."""
    page = render.Page(sys.stderr)
    page.line(Text.assemble(("warning:", render.STYLES["warn"]), " ", render.safe(what)))
