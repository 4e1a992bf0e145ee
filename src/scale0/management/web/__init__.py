"""The operators' page: plain files that a browser runs as they are, and how they are made smaller on their way to it.

There is no build step. What a maintainer reads is what is served, but for three things that mean nothing to a browser:
comments that stand by themselves or end a line, indentation, and in style sheets the space around signs. That is a
tenth of what is fetched, and keeps all of the page under 85 kB with its comments where they belong.
"""

from __future__ import annotations

import re
from typing import Final

_COMMENT_LINE: Final = re.compile(r"^[ ]*//.*\n", re.MULTILINE)
_COMMENT_AFTER: Final = re.compile(r"(?<=[;,{}])[ ]+// .*$", re.MULTILINE)
_INDENT: Final = re.compile(r"^[ ]+", re.MULTILINE)
_STYLE_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_SPACE: Final = re.compile(r"\s*([{};,])\s*")


def squeezed(path: str, content: bytes) -> bytes:
    """A file of the page without what is there for its readers; vendored ones and others stay as they are."""
    if path.startswith("vendor/") or not path.endswith((".js", ".css")):
        return content
    text = content.decode()
    if path.endswith(".css"):
        return _STYLE_SPACE.sub(r"\1", _STYLE_COMMENT.sub("", text)).strip().encode()
    return _INDENT.sub("", _COMMENT_AFTER.sub("", _COMMENT_LINE.sub("", text))).encode()
