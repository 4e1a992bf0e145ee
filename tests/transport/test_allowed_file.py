"""The list of keys that a broker allows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from scale0.core.permissions import Permission
from scale0.errors import SettingsError
from scale0.transport import allowed_file
from scale0.transport.key_files import make_pair


def entry(**how: object) -> Permission:
    return Permission(**{"key": make_pair().public, **how})  # type: ignore[arg-type]


def test_a_list_that_is_not_there_allows_nobody(tmp_path: Path) -> None:
    assert allowed_file.load(tmp_path / "allowed.json") == []


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "allowed.json"
    entries = [entry(name="a", kind="worker", serve=["pay.*"]), entry(until="2026-12-31T12:00:00Z", manage=True)]
    allowed_file.change(path, lambda before: [*before, *entries])
    assert allowed_file.load(path) == entries
    allowed_file.change(path, lambda before: before[1:])
    assert allowed_file.load(path) == entries[1:]


def test_one_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "allowed.json"
    path.write_text("[]")
    path.chmod(0o620)
    with pytest.raises(SettingsError, match="chmod go-w"):
        allowed_file.load(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "allowed.json"),
        ("{}", "Expected `array`"),
        ('[{"key": "k"}]', "is no public key"),
        ('[{"name": "a"}]', "missing required field `key`"),
        ('[{"key": "%(key)s", "kind": "admin"}]', "Invalid enum value 'admin'"),
        ('[{"key": "%(key)s", "sevre": []}]', "unknown field `sevre`"),
        ('[{"key": "%(key)s", "until": "soon"}]', "is no time"),
        ('[{"key": "%(key)s"}, {"key": "%(key)s"}]', "listed twice"),
        ('[{"key": "%(key)s", "name": "a\\nb"}]', "cannot be printed"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "allowed.json"
    path.write_text(text.replace("%(key)s", make_pair().public))
    path.chmod(0o600)
    with pytest.raises(SettingsError) as refused:
        allowed_file.load(path)
    assert told in str(refused.value)


def test_an_edit_that_fails_leaves_the_list_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "allowed.json"
    allowed_file.change(path, lambda _: [entry(name="a")])
    before = path.read_bytes()
    with pytest.raises(SettingsError):
        allowed_file.change(path, lambda entries: [*entries, *entries])
    assert path.read_bytes() == before


def test_edits_at_once_follow_one_another(tmp_path: Path) -> None:
    path = tmp_path / "allowed.json"
    threads = [
        threading.Thread(target=allowed_file.change, args=(path, lambda before: [*before, entry()])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(allowed_file.load(path)) == 8
