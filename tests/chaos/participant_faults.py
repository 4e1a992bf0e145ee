"""Workers and clients that are killed, stopped, stalled, or have a clock that is wrong."""

from __future__ import annotations

import time
from random import Random

from scale0.protocol.messages import Ping
from tests.chaos.fault import fault
from tests.chaos.services import BIG
from tests.chaos.stage import Stage, look_until
from tests.integration.networks import BrokerProcess
from tests.integration.wire import RawClient

SKEWS_S = (-20.0, -5.0, 5.0, 20.0)  # within max_clock_skew: noticed, and allowed
FAR_S = 7_200.0  # beyond it: refused with 498; and as no broker was ever wrong (`broker_faults.JUMPS_S`)
STALLED_TASKS = 60  # 64 KiB each: more than the broker keeps for one client
SHORTEST_MS = 1  # asks for the shortest interval that the broker grants
STALLED_S = 3.0  # their deadline, so that they are soon forgotten

# --- workers ----------------------------------------------------------------------------------------------------------


def _await_gone(stage: Stage, worker: str, at: BrokerProcess) -> float:
    def is_gone() -> bool:
        return all(row["identity"] != worker for row in at.rows("workers"))

    return look_until(is_gone, f"{at.identity} misses {worker}")


@fault("kill-worker")
def kill_worker(stage: Stage, random: Random) -> float:
    """kill -9 of a worker, with what it holds."""
    worker = random.choice(list(stage.workers.values()))
    at = stage.place_of(worker.identity)
    began_s = time.monotonic()
    worker.kill()
    try:
        return _await_gone(stage, worker.identity, at) - began_s
    finally:
        if not worker.is_running:
            worker.start()


@fault("pause-worker")
def pause_worker(stage: Stage, random: Random) -> float:
    """kill -STOP of a worker until it is missed, and then -CONT: its replies come too late."""
    worker = random.choice(list(stage.workers.values()))
    at = stage.place_of(worker.identity)
    began_s = time.monotonic()
    worker.pause()
    try:
        noticed_s = _await_gone(stage, worker.identity, at)
        stage.books.await_replies(stage.clients)
        return noticed_s - began_s
    finally:
        worker.resume()


@fault("skew-worker")
def skew_worker(stage: Stage, random: Random) -> float:
    """A worker's clock is set wrong, by less than is allowed: it is seen, and nothing else happens."""
    worker = random.choice(list(stage.workers.values()))
    ahead_s = random.choice(SKEWS_S)

    def is_seen() -> bool:
        rows = [row for broker in stage.brokers for row in broker.rows("workers") if not row["is_absent"]]
        offset_us = next((row["clock_offset_us"] for row in rows if row["identity"] == worker.identity), None)
        return offset_us is not None and abs(offset_us / 1e6 - ahead_s) < 1.0

    began_s = time.monotonic()
    worker.say(f"ahead {ahead_s}")
    try:
        return look_until(is_seen, f"the clock of {worker.identity} is seen to be off") - began_s
    finally:
        worker.say("ahead 0")


@fault("jump-worker")
def jump_worker(stage: Stage, random: Random) -> float:
    """A worker's clock is set wrong by two hours: it is sent away with 498 until it is right again."""
    worker = random.choice(list(stage.workers.values()))
    at = stage.place_of(worker.identity)
    began_s = time.monotonic()
    worker.say(f"ahead {random.choice((-FAR_S, FAR_S))}")
    try:
        return _await_gone(stage, worker.identity, at) - began_s
    finally:
        worker.say("ahead 0")


# --- clients ----------------------------------------------------------------------------------------------------------


@fault("stalled-client")
def stalled_client(stage: Stage, random: Random) -> None:
    """A client asks for more than the broker keeps for it, never reads, and goes away without a word."""
    place = random.choice(sorted(set(stage.places().values())))
    endpoint = stage.cables[place].endpoint
    with RawClient(endpoint, f"stalled-{random.randrange(10**9)}", unread_max=1) as client:
        for _ in range(STALLED_TASKS):
            client.submit(BIG, timeout_s=STALLED_S)
        # It lives on for a moment, and is missed as soon as any other when it is gone.
        client.say(Ping(time_us=time.time_ns() // 1000, heartbeat_interval_ms=SHORTEST_MS))
        stage.books.await_replies(stage.clients)


@fault("pause-client")
def pause_client(stage: Stage, random: Random) -> float:
    """kill -STOP of a client until its broker misses it, and then -CONT: the replies have waited for it."""
    client = random.choice(list(stage.clients.values()))
    at = stage.place_of(client.identity)

    def is_missed() -> bool:
        rows = {row["identity"]: row for row in at.rows("clients")}
        return client.identity not in rows or rows[client.identity]["is_absent"]

    began_s = time.monotonic()
    client.pause()
    try:
        noticed_s = look_until(is_missed, f"{at.identity} misses {client.identity}")
        stage.books.await_replies(identity for identity in stage.clients if identity != client.identity)
        return noticed_s - began_s
    finally:
        client.resume()
