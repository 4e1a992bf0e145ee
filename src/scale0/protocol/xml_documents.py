"""XML as a tree of properties: an element is a property, its text the value, the elements in it the children.

The root is `<scale0>`. Attributes, namespaces, document types and entities have no meaning here and are refused, the
last two before anything is expanded (defusedxml); the text is UTF-8, whatever it declares. Blanks around child elements
are layout; the text of an element without children is taken as it stands.
"""

from __future__ import annotations

import re
from typing import Any, Final

from scale0.errors import SettingsError
from scale0.protocol import limits
from scale0.protocol.zpl import Property

ROOT: Final = "scale0"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_NOT_CARRIED: Final = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML 1.0 has no way to say, and CR, which every reader turns into LF."""


def parse(text: str) -> list[Property]:
    """The properties below the root element. Raises `SettingsError` with the line of what is wrong."""
    # Most processes never meet XML.
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, ParseError

    if len(text.encode(errors="surrogatepass")) > limits.DOCUMENT_BYTES_MAX:
        raise SettingsError(f"over {limits.DOCUMENT_BYTES_MAX:,} bytes: split the document, or shorten it")
    tree = _Tree()
    parser: Any = DefusedXMLParser(target=tree, forbid_dtd=True)
    tree.expat = parser.parser
    try:
        parser.feed(text)
        parser.close()
    except DefusedXmlException:
        raise SettingsError(f"line {tree.line}: a document type or an entity, which is refused; leave it out") from None
    except ParseError as error:
        line, _column = error.position
        what = str(error).partition(":")[0]
        raise SettingsError(f"line {line}: not XML: {what}") from None
    except UnicodeEncodeError:
        raise SettingsError("not XML: half of a character pair") from None
    return tree.root.children


class _Tree:
    """Builds properties while the parser reads, so that what is too deep is refused on the way."""

    def __init__(self) -> None:
        self.root = Property("")
        self.expat: Any = None
        self._open = [self.root]
        self._texts: list[list[str]] = [[]]

    @property
    def line(self) -> int:
        return int(self.expat.CurrentLineNumber)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) == 1 and tag != ROOT:
            raise SettingsError(f"line {self.line}: the root element is <{ROOT}>, not <{tag}>")
        if attributes:
            name = next(iter(attributes))
            raise SettingsError(f"line {self.line}: attribute {name}; write <{name}>…</{name}> inside <{tag}>")
        if not _NAME.fullmatch(tag):
            raise SettingsError(f"line {self.line}: <{tag}> is no key; keys have no namespace and plain letters")
        if len(self._open) > limits.DOCUMENT_DEPTH_MAX + 1:
            raise SettingsError(f"line {self.line}: over {limits.DOCUMENT_DEPTH_MAX} levels deep, which is refused")
        one = Property(tag, line=self.line, children=[])
        if len(self._open) == 1:
            self.root = one
        else:
            self._open[-1].children.append(one)
        self._open.append(one)
        self._texts.append([])

    def data(self, text: str) -> None:
        self._texts[-1].append(text)

    def end(self, _tag: str) -> None:
        one = self._open.pop()
        text = "".join(self._texts.pop())
        one.value = text.strip() if one.children or one is self.root else text
        if one is self.root and one.value:
            raise SettingsError(f"line {self.line}: text outside of any key: {one.value[:20]!r}")

    def close(self) -> None:
        """The parser asks for a result; ours is `root`."""


def write(properties: list[Property]) -> str:
    """`properties` as XML that `parse` reads back as they are. Raises `SettingsError` for what XML cannot carry."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<{ROOT}>"]
    for one in properties:
        _write(one, 1, lines)
    return "\n".join([*lines, f"</{ROOT}>", ""])


def _write(one: Property, level: int, lines: list[str]) -> None:
    if level > limits.DOCUMENT_DEPTH_MAX:
        raise SettingsError(f"{level} levels deep; at most {limits.DOCUMENT_DEPTH_MAX} are allowed")
    if not _NAME.fullmatch(one.name):
        raise SettingsError(f"{one.name!r}: no name of an element; it has letters A to Z, digits and - _ .")
    if _NOT_CARRIED.search(one.value) or (one.children and one.value != one.value.strip()):
        raise SettingsError(f"{one.name}: {one.value[:40]!r} has characters that XML cannot carry; use JSON")
    indent = "  " * level
    value = one.value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if not one.children:
        lines.append(f"{indent}<{one.name}>{value}</{one.name}>" if value else f"{indent}<{one.name}/>")
        return
    lines.append(f"{indent}<{one.name}>{value}")
    for child in one.children:
        _write(child, level + 1, lines)
    lines.append(f"{indent}</{one.name}>")
