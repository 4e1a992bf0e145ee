"""Why a task ended as it did, and where its time went: the judgements of `why`, each from the task's own row."""

from __future__ import annotations

import msgspec

from scale0_pipeline import task_times, words
from scale0_pipeline.why.find import Row


class Share(msgspec.Struct, frozen=True):
    """A part of the task's time."""

    part: str
    us: int
    share: float


def whom(attempt: Row) -> str:
    """A worker, or the broker that it was forwarded to."""
    return f"broker {words.name(attempt['via'])}" if attempt["via"] else words.name(attempt["worker"])


def had_room(row: Row) -> str:
    """Who was free when it was dispatched, if the broker said so."""
    if row["free"] is None:
        return ""
    workers = f" of {row['workers']}" if row["workers"] is not None else ""
    queued = f", {words.plural(row['queued'], 'task')} waiting" if row["queued"] else ""
    return f" ({row['free']}{workers} had room{queued})"


def shares(main: Row, relays: list[Row]) -> list[Share]:
    """Where its time went. Without a word from the worker, its time and the network's cannot be told apart."""
    whole = task_times.latency_us(main)
    if whole <= 0:
        return []
    ran = next((relay for relay in relays if relay["broker"] == main["via"]), None)
    queue = task_times.queue_us(main) + (task_times.queue_us(ran) if ran is not None else 0)
    queue = min(queue, whole)
    told = task_times.worker_us(main if task_times.worker_us(main) is not None or ran is None else ran)
    earlier = min(task_times.attempts_us(main), whole - queue)
    if told is None or main["dispatched_us"] is None:
        parts = {"queue": queue, "worker": whole - queue}
    else:
        worker = min(told, whole - queue - earlier)
        parts = {"queue": queue, "lost attempts": earlier, "worker": worker}
        parts["network"] = whole - sum(parts.values())
    return [Share(part, us, us / whole) for part, us in parts.items() if us > 0]


def cause(main: Row, relays: list[Row]) -> str:
    """Why it ended as it did, or what took longest."""
    lost = [attempt for attempt in main["attempts"] or () if attempt["outcome"] == "lost"]
    before = f"{words.listed([whom(attempt) for attempt in lost])} lost; " if lost else ""
    number = len(main["attempts"] or ()) + 1
    waited = words.duration(task_times.queue_us(main))
    had = words.duration(main["ts_us"] - main["dispatched_us"]) if main["dispatched_us"] is not None else ""
    workers = main["workers"]
    code = main["code"]
    if code == 408 and workers == 0:
        return f"{before}there was no worker of {words.name(main['service'])} in the {waited} that it waited"
    if code == 408:
        known = f"none of {words.plural(workers, 'worker')}" if workers is not None else "no worker"
        return f"{before}{known} had a free slot in the {waited} that it waited"
    if code == 504 and task_times.queue_us(main) * 2 > task_times.latency_us(main):
        return f"{before}attempt {number} waited {waited}{had_room(main)}"
    if code == 504:
        return f"{before}attempt {number} was at {whom(main)} for {had} and had no answer"
    if code == 502:
        return f"{before or whom(main) + ' lost; '}the service may not be repeated, so nobody tried again"
    if code == 500:
        return f"{before}the handler raised at {whom(main)} after {words.duration(main['work_us'])}"
    refusals = {
        429: "a limit was reached when it came",
        503: "the broker accepted nothing then",
        404: "nobody offered the service",
        413: "its body was too large",
        403: "its client may not ask for this",
        499: "its client cancelled it",
    }
    if main["outcome"] != "replied":
        return before + refusals.get(code, f"it ended with code {code}")
    most = max(shares(main, relays), key=lambda share: share.us, default=None)
    if lost:
        return f"{before}attempt {number} answered"
    return "" if most is None else f"{words.percent(most.share)} of the time went to the {most.part}"
