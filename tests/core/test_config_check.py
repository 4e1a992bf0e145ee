"""What a document would change, and whom each change touches."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.errors import ProtocolError
from scale0.protocol.limits import DOCUMENT_BYTES_MAX
from scale0.protocol.network import Document
from tests.core.desk import Desk
from tests.core.mesh import Node, group_of


def check(node: Node, **changes: Any) -> dict[str, Any]:
    wanted = msgspec.structs.replace(node.document, **changes)
    found: dict[str, Any] = node.manage("config_check", document=msgspec.json.encode(wanted).decode())
    return found


def test_what_would_change_is_told_and_nothing_changes() -> None:
    desk = Desk()
    before = desk.broker.state.config.version
    told = desk.manage("config_check", document='{"liveness": 7}')
    assert (told["changed"], told["base"]) == (True, str(before))
    (change,) = told["changes"]
    assert (change["key"], change["before"], change["after"], change["text"]) == ("liveness", "3", "7", "3 → 7")
    assert desk.broker.state.config.version == before
    assert desk.others == []


def test_same_document_changes_nothing() -> None:
    desk = Desk()
    text = msgspec.json.encode(desk.broker.state.config.document).decode()
    told = desk.manage("config_check", document=text)
    assert (told["changed"], told["changes"]) == (False, [])


def test_broker_that_is_disabled_moves_its_participants() -> None:
    mesh, (first, second) = group_of(2)
    second.worker("w1", "greet")
    second.worker("w2", "greet")
    second.client("ada")
    mesh.run(3.0)
    brokers = [
        msgspec.structs.replace(entry, state="disabled") if entry.identity == second.name else entry
        for entry in first.document.brokers
    ]
    told = check(first, brokers=brokers)
    (change,) = told["changes"]
    assert (change["brokers"], change["is_moving"]) == ([second.name], True)
    assert told["moving"] == {"workers": 2, "clients": 1}


def test_setting_of_a_service_touches_those_who_serve_it() -> None:
    mesh, (first, second) = group_of(2)
    second.worker("w1", "render.big")
    second.worker("w2", "other")
    mesh.run(3.0)
    wanted = msgspec.convert(
        {**msgspec.to_builtins(first.document), "service": [{"name": "render.big", "timeout": 5}]}, Document
    )
    told = first.manage("config_check", document=msgspec.json.encode(wanted).decode())
    (change,) = told["changes"]
    assert (change["brokers"], change["workers"], change["is_moving"]) == ([second.name], 1, False)
    wanted = msgspec.convert({**msgspec.to_builtins(first.document), "service": [{"name": "new"}]}, Document)
    (change,) = first.manage("config_check", document=msgspec.json.encode(wanted).decode())["changes"]
    assert (change["brokers"], change["workers"]) == ([], 0)


@pytest.mark.parametrize(
    ("document", "code", "names"),
    [
        (None, 400, "document"),
        (7, 400, "document"),
        ("{", 400, "JSON"),
        ('{"livenes": 4}', 400, "liveness"),
        ('{"liveness": 0}', 400, "liveness"),
        ('{"brokers": [{"identity": "a"}, {"identity": "a"}]}', 400, "a"),
        (" " * (DOCUMENT_BYTES_MAX + 1), 413, "bytes"),
        ('{"network": "\ud800"}', 400, "document"),
    ],
)
def test_document_that_does_not_validate_is_refused_with_its_key(document: Any, code: int, names: str) -> None:
    desk = Desk()
    with pytest.raises(ProtocolError, match=names) as refused:
        desk.manage("config_check", document=document)
    assert refused.value.code == code
