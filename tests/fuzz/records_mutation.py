"""Mutations of config records that keep their hashes right: a wrong one is refused at once, and hides what is behind.

Records stand in `config.json`, and in the SNAPSHOT that brokers exchange. The documents in them change as texts do; the
versions get numbers from the borders of what fits.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

from scale0.core.config import content_hash
from scale0.core.config_service import ConfigState
from scale0.protocol.messages import ConfigVersion
from scale0.protocol.network import ConfigRecord
from scale0.transport import config_file
from tests.fuzz.text_mutation import TextMutator

NUMBERS: Final = (0, 1, 2, 41, 42, 43, 2**31, 2**32 - 2, 2**32 - 1)
DOCUMENTS: Final = (
    b'{"brokers":[{"identity":"b1"},{"identity":"b2","group":"g","endpoints":["tcp://10.0.0.2:5555"]}]}',
    b'{"network":"scale0","liveness":4,"limits":{"sessions":1,"brokers":2,"config_history":1},"join":"listed"}',
    b'{"brokers":[{"identity":"b3","state":"disabled","services":["echo"],"fallback_broker":"b1","joined":true}]}',
    b'{"groups":[{"name":"g","fallback_groups":["h"]},{"name":"h"}],"service":[{"name":"echo","max_attempts":2}]}',
    b'{"config_brokers":["b2","b1"],"default_heartbeat_interval":0.1,"failback":"automatic","grace":0.001}',
)
"""What documents are made of, beside what a corpus has."""

_texts: Final = TextMutator(list(DOCUMENTS))


def change_document(text: bytes, chance: random.Random) -> bytes:
    """Another document, as JSON or nearly so."""
    return chance.choice(DOCUMENTS) if chance.random() < 0.3 else _texts.mutate(text, chance)


def change_record(record: ConfigRecord, chance: random.Random) -> ConfigRecord:
    version = ConfigVersion.unpack(record.version)
    epoch, number, document = version.epoch, version.number, record.document
    choice = chance.random()
    if choice < 0.25:
        epoch = chance.choice(NUMBERS)
    elif choice < 0.5:
        number = chance.choice(NUMBERS)
    else:
        document = change_document(document, chance)
    state = chance.choice(("past", "lost")) if chance.random() < 0.1 else record.state
    packed = ConfigVersion(epoch, number, content_hash(document)).pack()
    return msgspec.structs.replace(record, version=packed, document=document, state=state)


def change_records(records: list[ConfigRecord], chance: random.Random) -> list[ConfigRecord]:
    changed = list(records)
    place = chance.randrange(len(changed)) if changed else 0
    choice = chance.random()
    if not changed or choice < 0.15:
        document = chance.choice(DOCUMENTS)
        version = ConfigVersion(1, chance.choice(NUMBERS), content_hash(document))
        changed.insert(place, ConfigRecord(version=version.pack(), document=document))
    elif choice < 0.25:
        del changed[place]
    elif choice < 0.35:
        chance.shuffle(changed)
    else:
        changed[place] = change_record(changed[place], chance)
    return changed


def change_snapshot(state: bytes, chance: random.Random) -> bytes:
    """The state in a SNAPSHOT, with other records."""
    try:
        told = msgspec.msgpack.decode(state, type=ConfigState)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        told = ConfigState([])
    records = change_records(told.records, chance)
    ancestors = [record.version for record in records[:-1]] if chance.random() < 0.5 else told.ancestors
    return msgspec.msgpack.encode(ConfigState(records, ancestors))


class RecordsMutator:
    """Changes the content of `config.json`: half of the time as a file, half of the time as records."""

    def __init__(self, others: list[bytes]) -> None:
        self._texts = TextMutator(others)

    def mutate(self, data: bytes, chance: random.Random) -> bytes:
        if chance.random() < 0.5:
            return self._texts.mutate(data, chance)
        try:
            return config_file.encode(change_records(config_file.decode(data), chance))
        except (ValueError, RecursionError):
            return self._texts.mutate(data, chance)
