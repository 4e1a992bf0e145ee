"""What one message may be at most. A sender over a limit gets 400 or 413; limits of queues are in `core.settings`."""

from __future__ import annotations

from typing import Final

HEADER_BYTES_MAX: Final = 64 * 1024
LONG_HEADER_BYTES_MAX: Final = 1024 * 1024  # of commands that list ids or carry a document: native._LONG
INLINE_BYTES_MAX: Final = 8 * 1024  # a body of one frame up to this travels inside the header frame
BUNDLE_MESSAGES_MAX: Final = 64
BUNDLED_BYTES_MAX: Final = 2 * 1024  # a larger message travels alone: what a bundle saves is little beside it
BUNDLE_BYTES_MAX: Final = 16 * 1024
FRAMES_MAX: Final = 32  # a message's frames, without the ROUTER's routing id
FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
IDENTITY_BYTES_MAX: Final = 128
NONCE_BYTES: Final = 8
SEQUENCE_BYTES: Final = 8
ID_BYTES_MIN: Final = NONCE_BYTES + 1 + SEQUENCE_BYTES
ID_BYTES_MAX: Final = NONCE_BYTES + IDENTITY_BYTES_MAX + SEQUENCE_BYTES
VERSION_BYTES: Final = 16  # a packed config version
SERVICE_BYTES_MAX: Final = 128
SERVICES_PER_WORKER_MAX: Final = 256
CAPACITY_MAX: Final = 4096
IN_FLIGHT_IDS_MAX: Final = CAPACITY_MAX
ATTEMPTS_MAX: Final = 255
PEER_SERVICES_MAX: Final = 10_000  # in one PEERSTATUS
CREDIT_MAX: Final = 1_000_000  # tasks, workers or queued tasks that a PEERSTATUS may name
TRIED_MAX: Final = 256  # endpoints in NEEDBROKER
DOCUMENT_BYTES_MAX: Final = LONG_HEADER_BYTES_MAX - 16 * 1024  # in any format, so that one message carries it
DOCUMENT_DEPTH_MAX: Final = 16
EPOCH_MAX: Final = 2**63 - 1
SERIAL_MAX: Final = 2**63 - 1  # CONNECTs of one process
EPOCHS_MAX: Final = 64  # pairs of brokers whose epochs CONNECT names
OPTIONS_BYTES_MAX: Final = 4096
REMAINING_MS_MAX: Final = 7 * 24 * 3600 * 1000
LIVENESS_MAX: Final = 1_000_000  # intervals of silence
PRIORITIES: Final = 4  # 0 background, 1 normal, 2 high, 3 urgent
PRIORITY_NORMAL: Final = 1
