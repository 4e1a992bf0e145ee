"""Config documents from anywhere: files that people write, and parts that a broker sends, in all four formats.

Reading raises `SettingsError` or gives a document; what was read can be written in every format that can carry it, and
reads as the same again. Time is bounded by the fuzzer's own limit for one input.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from scale0.errors import SettingsError
from scale0.protocol import documents, network_rules
from scale0.protocol.network import Document, Part
from scale0.transport import settings_file

FORMATS = documents.FILE_TYPES


def run(file_type: str, data: bytes) -> None:
    """Read `data` as a settings file, as a network's document and as a participant's part."""
    with contextlib.suppress(SettingsError):
        file = settings_file.parse(data, file_type, "fuzz")
        settings_file.local_keys(file)
        settings_file.settings_of(file, "b1")
        settings_file.listening_of(file, "b1")
    for kind in (Document, Part):
        with contextlib.suppress(SettingsError):
            value = documents.decode(data, file_type, kind)
            assert isinstance(value, Document | Part)
            _write_and_read(value)


def _write_and_read(value: Document | Part) -> None:
    if isinstance(value, Document):
        with contextlib.suppress(SettingsError):
            network_rules.check(value)
    for file_type in FORMATS:
        try:
            written = documents.encode(value, file_type)
        except SettingsError:
            continue  # this format has no way to say it
        again = documents.decode(written, file_type, type(value))
        assert again == value, f"it reads as another one after {file_type}"


def runner_of(file_type: str) -> Callable[[bytes], None]:
    """The fuzz target of one format."""
    return partial(run, file_type)
