"""Three brokers, one of them killed in the middle of a load, and a reply for every task. Needs nothing running.

python examples/network.py

In earnest the brokers are commands on machines of their own: `scale0 broker`, and `scale0 broker --join ADDRESS`.
"""

from __future__ import annotations

from scale0 import Client, Worker
from scale0.testing import running_network

TASKS = 300
KILLED_AT = 100
KNOWN = {"square": {"idempotent": True}}  # in the network's config: its tasks wait for the first worker


def main() -> None:
    with running_network(3, process=True, default_heartbeat_interval=0.3, service=KNOWN) as network:
        first, second, _third = network.brokers
        worker = Worker(first.endpoint, capacity=4)  # any one address will do: brokers tell of the others
        worker.add_service("square", lambda number: number * number, idempotent=True)
        with worker.start(), Client(second.endpoint) as client:  # at another broker: its tasks are forwarded
            replies = []
            for reply in client.map("square", range(TASKS), in_flight=20):
                replies.append(reply)
                if len(replies) == KILLED_AT:
                    first.kill()  # the worker goes to another broker, and what it held is repeated there
                    print("killed the worker's broker")
        is_right = replies == [number * number for number in range(TASKS)]
        print(f"{len(replies)} replies, {'all' if is_right else 'not all'} of them right")


if __name__ == "__main__":
    main()
