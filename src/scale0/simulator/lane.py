"""`python -m scale0.simulator.lane`: a process that runs scenarios for another one, one after the other.

It reads a scenario, runs it, and writes its result, each as a length and msgpack, until its input ends: so it does not
outlive the process that started it for longer than one run.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from typing import BinaryIO

import msgspec

from scale0.simulator.run import Result, run
from scale0.simulator.scenario import Scenario

_LENGTH = struct.Struct(">I")
_read_scenario = msgspec.msgpack.Decoder(Scenario).decode
_read_result = msgspec.msgpack.Decoder(Result).decode


def send(pipe: BinaryIO, message: Scenario | Result) -> None:
    packed = msgspec.msgpack.encode(message)
    pipe.write(_LENGTH.pack(len(packed)) + packed)
    pipe.flush()


def receive_scenario(pipe: BinaryIO) -> Scenario | None:
    """None at the end of the input."""
    packed = _receive(pipe)
    return None if packed is None else _read_scenario(packed)


def receive_result(pipe: BinaryIO) -> Result | None:
    """None if the other process is gone."""
    packed = _receive(pipe)
    return None if packed is None else _read_result(packed)


def _receive(pipe: BinaryIO) -> bytes | None:
    length = pipe.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        return None
    packed = pipe.read(_LENGTH.unpack(length)[0])
    return packed if len(packed) == _LENGTH.unpack(length)[0] else None


def main() -> int:
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone, and nobody is left to hear of it
        while (scenario := receive_scenario(sys.stdin.buffer)) is not None:
            send(sys.stdout.buffer, run(scenario))
    return 0


if __name__ == "__main__":
    sys.exit(main())
