"""Mutations of texts and files: lines and words change places, words come from other texts, and bytes are damaged.

Damage is what disks and crashes do: a file that ends early, blocks of zeros, blocks that come twice, single bits.
"""

from __future__ import annotations

import random
import re
from typing import Final

BLOCK_BYTES: Final = 64
BLOW_UP: Final = (2, 20, 300)
ROUNDS_MAX: Final = 4
SIZE_MAX: Final = 64 * 1024

_WORD: Final = re.compile(rb"[A-Za-z0-9_.]+|[^A-Za-z0-9_.\s]")
_INTERESTING: Final = (
    b"0", b"-1", b"1e999", b"nan", b"inf", b"99999999999999999999", b"true", b"null", b'""', b"[]", b"{}", b"[[", b"{{",
    b"\xff", b"\xed\xa0\x80", b"\x00", b"\r", b"\n", b"    ", b"\t", b"#", b"'", b'"', b'"""', b"\\u0000", b"\\ud800",
    b"<!--", b"]]>", b"<![CDATA[", b"<!DOCTYPE a>", b"&#0;", b"&lt;", b"1979-05-27", b"0x10", b"1_0", b"=",
)  # fmt: skip


class TextMutator:
    """Changes texts; `others` is where it takes words and lines from."""

    def __init__(self, others: list[bytes]) -> None:
        self._lines = sorted({line for text in others for line in text.splitlines()}) or [b""]
        self._words = sorted({word for text in others for word in _WORD.findall(text)}) or [b""]

    def mutate(self, data: bytes, chance: random.Random) -> bytes:
        for _ in range(chance.randint(1, ROUNDS_MAX)):
            change = chance.choice((self._word, self._word, self._word, self._line, self._line, damage))
            data = change(data, chance)
        return data[:SIZE_MAX]

    def _word(self, data: bytes, chance: random.Random) -> bytes:
        found = list(_WORD.finditer(data))
        other = chance.choice(_INTERESTING) if chance.random() < 0.4 else chance.choice(self._words)
        if not found:
            return data + other
        one = chance.choice(found)
        if chance.random() < 0.1:
            other = one[0] * chance.choice(BLOW_UP)
        end = one.start() if chance.random() < 0.2 else one.end()
        return data[: one.start()] + other + data[end:]

    def _line(self, data: bytes, chance: random.Random) -> bytes:
        lines = data.splitlines(keepends=True) or [b""]
        place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        choice = chance.random()
        if choice < 0.3:
            lines.insert(place, chance.choice(self._lines) + b"\n")
        elif choice < 0.5:
            del lines[place]
        elif choice < 0.65:
            lines[place], lines[other] = lines[other], lines[place]
        elif choice < 0.8:
            lines[place:place] = lines[place : place + 3] * chance.choice(BLOW_UP[:2])
        else:
            lines[place] = b"    " + lines[place] if chance.random() < 0.5 else lines[place].lstrip()
        return b"".join(lines)


def damage(data: bytes, chance: random.Random) -> bytes:
    """What a bad disk, or a crash in the midst of writing, leaves of a file."""
    place = chance.randrange(len(data) + 1)
    end = min(len(data), place + chance.choice((1, 2, BLOCK_BYTES)))
    choice = chance.randrange(6)
    if choice == 0:
        return data[:place]
    if choice == 1:
        return data[:place] + bytes(end - place) + data[end:]
    if choice == 2:
        return data[:end] + data[place:]
    if choice == 3:
        return data[:place] + data[end:]
    if choice == 4:
        return data[:place] + chance.randbytes(end - place) + data[end:]
    changed = bytearray(data or b"\0")
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)
