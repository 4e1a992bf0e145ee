"""A column that Scale0 workers compute, in Spark. Needs a broker and `examples/greet.py`, and `scale0[pipeline]`.

python examples/spark_calls.py
"""

from __future__ import annotations

import os

from scale0_pipeline import call_service
from scale0_pipeline.session import running_session

BROKER = os.environ.get("SCALE0_BROKER", "tcp://127.0.0.1:5555")


def main() -> None:
    with running_session("local[2]") as spark:
        guests = spark.createDataFrame(
            [(number, f"guest {number}") for number in range(1_000)], "number int, name string"
        )
        greeted = call_service(guests, "greet", broker=BROKER, columns=["name"], result="string", timeout=30)
        replies = greeted.where("error is null").orderBy("number").collect()
        print(f"{len(replies):,} replies, the last one: {replies[-1].result}")

        wrong = call_service(guests.limit(1), "greet", broker=BROKER, columns=["number"], timeout=30)
        print("refused by the annotations:", wrong.first().error.text)


if __name__ == "__main__":
    main()
