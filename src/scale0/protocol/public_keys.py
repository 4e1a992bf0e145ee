"""CURVE public keys as text: Z85 (ZeroMQ RFC 32), forty characters for thirty-two bytes.

Keys stand in documents, files and messages in this one spelling, so that two are equal exactly when their texts are.
"""

from __future__ import annotations

from typing import Final

KEY_CHARS: Final = 40
_ALPHABET: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"  # the order is the value
)
_VALUES: Final = {letter: value for value, letter in enumerate(_ALPHABET)}
_GROUP_MAX: Final = 2**32 - 1  # five characters are four bytes


def is_key(text: str) -> bool:
    """Whether `text` is a key at all; whose it is, nobody can see."""
    if len(text) != KEY_CHARS or any(letter not in _VALUES for letter in text):
        return False
    groups = (text[start : start + 5] for start in range(0, KEY_CHARS, 5))
    return all(_number(group) <= _GROUP_MAX for group in groups)


def _number(group: str) -> int:
    number = 0
    for letter in group:
        number = number * 85 + _VALUES[letter]
    return number


def short_key(key: str) -> str:
    """A key as people tell it from others at a glance; the whole one is needed to allow it."""
    return f"{key[:8]}…" if len(key) > 8 else key
