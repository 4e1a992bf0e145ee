"""Typed arguments and results, plain bytes, a service that may be repeated, and a handler that watches its deadline.

python examples/images.py                  needs a broker
"""

from __future__ import annotations

import os

import msgspec

from scale0 import Client, Worker, current_task

BROKER = os.environ.get("SCALE0_BROKER", "tcp://127.0.0.1:5555")

worker = Worker(BROKER, capacity=2)


class Image(msgspec.Struct):
    """Grey pixels, row by row."""

    width: int
    height: int
    pixels: bytes


@worker.service("thumbnail", idempotent=True, max_attempts=3)  # repeated elsewhere if this worker is lost
def thumbnail(image: Image, factor: int = 2) -> Image:
    rows = []
    for y in range(0, image.height, factor):
        if current_task().cancelled.is_set():  # nobody waits for it any more
            break
        rows.append(image.pixels[y * image.width : (y + 1) * image.width : factor])
    return Image(len(rows[0]), len(rows), b"".join(rows))


@worker.service("invert", idempotent=True)
def invert(pixels: bytes) -> bytes:  # bytes pass through untouched, in and out
    return bytes(255 - pixel for pixel in pixels)


def main() -> None:
    picture = Image(8, 4, bytes(range(32)))
    with worker.start(), Client(BROKER) as client:
        small = client.call("thumbnail", picture, factor=2, returns=Image, timeout=10)
        print(f"{picture.width}x{picture.height} became {small.width}x{small.height}")
        print(client.call("invert", b"\x00\xff", returns=bytes, timeout=10).hex())


if __name__ == "__main__":
    main()
