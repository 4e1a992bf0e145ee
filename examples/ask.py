"""A client: one call, a future, many calls at once, and the errors. Needs a broker and `examples/greet.py`.

python examples/ask.py
"""

from __future__ import annotations

import os

from scale0 import Client, RemoteError, ServiceNotFound

BROKER = os.environ.get("SCALE0_BROKER", "tcp://127.0.0.1:5555")


def main() -> None:
    with Client(BROKER) as client:
        print(client.call("greet", "Ada", timeout=5))
        print(client.call("greet", "Ada", greeting="welcome", timeout=5))

        future = client.submit("add", 1, 2, 3)
        print(future.result(timeout=5))

        names = [f"guest {number}" for number in range(1_000)]
        replies = list(client.map("greet", names, in_flight=500))  # pipelined, in order
        print(f"{len(replies):,} replies, the last one: {replies[-1]}")

        try:
            client.call("greet", 42)
        except RemoteError as error:
            print(f"refused by the annotations: {error}")

        try:
            client.call("gret", "Ada", timeout=20)
        except ServiceNotFound as error:
            print(f"no such service; near: {', '.join(error.near)}")


if __name__ == "__main__":
    main()
