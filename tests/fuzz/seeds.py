"""The first corpus of each target, made from real messages: `python -m tests.fuzz.seeds` writes it anew.

What the fuzzers find later stands beside these files and is not touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scale0.core.held_config import SavedConfig
from scale0.protocol import codec, documents
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Dialect
from scale0.transport import config_file, saved_config
from tests.fuzz.conversation import Conversation, Step, write
from tests.fuzz.stories import BROKER, DOCUMENT, PART, RECORDS, Said, to_client, to_worker

CORPUS: Final = Path(__file__).parent / "corpus"


def conversation(world: str, said: list[Said]) -> bytes:
    return write(Conversation(world, [one if isinstance(one, Step) else _step(*one) for one in said]))


def _step(who: str, dialect: Dialect, message: AnyMessage, pause_s: float = 0.0) -> Step:
    return Step("say", who, pause_s, tuple(codec.encode(dialect, message)))


def files() -> dict[str, bytes]:
    """The content of every seed, by its path in the corpus."""
    found = {f"broker/seed-{name}": conversation(world, said()) for name, (world, said) in BROKER.items()}
    for world in ("", "alone", "patient", "new"):
        found[f"client/seed-{world or 'usual'}"] = conversation(world, to_client())
        found[f"worker/seed-{world or 'usual'}"] = conversation(world, to_worker())
    for kind in documents.FILE_TYPES:
        found[f"{kind.lower()}/seed-document"] = documents.encode(DOCUMENT, kind)
        found[f"{kind.lower()}/seed-part"] = documents.encode(PART, kind)
    saved = SavedConfig("JSON", RECORDS[1].version, documents.encode(PART, "JSON"), ["tcp://third:5555"])
    return found | {
        "toml/seed-local": b'identity = "b1"\nbind = "tcp://*:5555"\n[management]\nusers = "users.json"\n',
        "state/seed-active": b'{"state":"active","epoch":7}\n',
        "state/seed-disabled": b'{"state":"disabled","epoch":3}\n',
        "records/seed-two": config_file.encode(RECORDS),
        "saved/seed-config": saved_config.encode(saved),
    }


def main() -> None:
    for name, content in files().items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
