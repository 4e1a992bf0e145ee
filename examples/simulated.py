"""A network that does not exist, with your own handlers, while its brokers crash: two minutes of it in a few seconds.

python examples/simulated.py               needs nothing running

How many workers does this load need, and what do callers see when a broker is lost? Change a number and look again:
the same seed gives the same run.
"""

from __future__ import annotations

from random import Random

from scale0.protocol.network import BrokerEntry, Document
from scale0.simulator import Handler, Load, simulate

MINUTES = 2
NETWORK = Document(
    default_heartbeat_interval_s=0.5,
    brokers=[BrokerEntry(identity=name, group="eu") for name in ("eu-1", "eu-2", "eu-3")],
)


def recognise(page: int, language: str) -> str:
    """A handler as a worker would have it; its time is virtual, its result is real."""
    if page % 100 == 0:
        raise ValueError("a blank page")
    return f"page {page} in {language}"


def page(random: Random) -> tuple[int, str]:
    return random.randint(1, 1000), random.choice(("de", "en"))


def main() -> None:
    for workers in (2, 6):
        result = simulate(
            NETWORK,
            handlers={"ocr": Handler(recognise, work_s=(0.2, 1.0), idempotent=True)},
            load=Load("ocr", per_s=5, arguments=page, timeout_s=5),
            workers=workers,
            faults=["broker crashes", "busy worker crashes"],
            fault_every_s=10,
            seconds=MINUTES * 60,
            seed=1,
        )
        figures = result.services["ocr"]
        replied = figures.outcomes.get("OK", 0) + figures.outcomes.get("FAILED", 0)
        p99_s = figures.percentile_s(0.99)
        print(f"{workers} workers: {replied / figures.tasks:.0%} of {figures.tasks:,} tasks replied, p99 {p99_s:.1f} s")
        print(f"  {sum(result.faults.values())} faults, every promise held: {result.is_good}")


if __name__ == "__main__":
    main()
