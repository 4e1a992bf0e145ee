"""What a client's or worker's session asks its shell to do.

`ClientSession` and `WorkerSession` are state machines like `Broker`: a verb takes what happened and `now`, and returns
a list of these, in order. One shell owns one DEALER socket at a time.
"""

from __future__ import annotations

import msgspec

from scale0.core.held_config import SavedConfig
from scale0.errors import Scale0Error
from scale0.protocol.messages import Error, Message, Task, TaskId, TaskReply


class Open(msgspec.Struct):
    """Close the socket, if there is one, and connect a new one there. Messages of the old one no longer count."""

    endpoint: str
    public_key: str = ""


class Transmit(msgspec.Struct, gc=False):
    """Send this to the broker."""

    message: Message


class Connected(msgspec.Struct):
    """A broker took the session; also after each reconnect."""

    endpoint: str
    broker_epoch: int
    takes_bundles: bool = False


class Note(msgspec.Struct):
    """Something for the log: a lost broker, a redirect, a refused service."""

    text: str
    is_usual: bool = False  # nothing is wrong, and nobody need look


class Failed(msgspec.Struct):
    """The session is over and says why: nothing was reachable at start-up, or a broker refused it for good."""

    error: Scale0Error


class Keep(msgspec.Struct):
    """Keep this for the next process, in place of what was kept before. Only if the settings ask for it."""

    saved: SavedConfig


class Part(msgspec.Struct, gc=False):
    """Client: a partial reply, in order of its number, none twice."""

    reply: TaskReply


class Settled(msgspec.Struct, gc=False):
    """Client: the one outcome of a submitted task."""

    id: TaskId
    outcome: TaskReply | Error


class Run(msgspec.Struct, gc=False):
    """Worker: start the handler. `deadline_s` is on this process's monotonic clock."""

    task: Task
    deadline_s: float


class Abort(msgspec.Struct):
    """Worker: nobody wants this task's result any more: stop the handler if that can be, and reply all the same."""

    id: TaskId
    attempt: int
    reason: str


class Ready(msgspec.Struct):
    """Worker: the broker took its READY."""

    refused: dict[str, str]


class Left(msgspec.Struct):
    """Worker: everything held was finished or returned, and the broker knows that this worker leaves."""


ParticipantEffect = Open | Transmit | Connected | Note | Failed | Keep | Part | Settled | Run | Abort | Ready | Left
