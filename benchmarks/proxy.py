"""The limit: `zmq.proxy` between a ROUTER and a DEALER in a Python process. It routes by turns and knows no rule.

No broker on ZeroMQ can cost less than this, so it is what Scale0's broker is measured against.
"""

from __future__ import annotations

import zmq


def main() -> None:
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 16_384)
    frontend, backend = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    for side in (frontend, backend):
        side.set(zmq.BACKLOG, 4096)
        side.set_hwm(100_000)
    ports = [side.bind_to_random_port("tcp://127.0.0.1") for side in (frontend, backend)]
    print(f"ready tcp://127.0.0.1:{ports[0]} tcp://127.0.0.1:{ports[1]}", flush=True)
    zmq.proxy(frontend, backend)


if __name__ == "__main__":
    main()
