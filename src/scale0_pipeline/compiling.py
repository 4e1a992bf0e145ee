"""Which of Spark's code is worth compiling well.

Java compiles what runs often, at first quickly, and what runs more often still once more, with a compiler that takes
much longer and makes faster code. In a run of a minute that second compiler takes a quarter of all CPU, and a part of
it goes into code that plans queries, and compiles them: it runs for each query and not for each row, and the run is
over before it pays. Such code stays as the first compiler made it; what runs for each row is compiled as ever. A stream
that goes on for days is told nothing of the kind.
"""

from __future__ import annotations

from typing import Final

from scale0_pipeline.java import keep_text

PER_QUERY: Final = (
    "com/fasterxml/",
    "java/io/Object",
    "java/lang/invoke/",
    "java/util/regex/",
    "org/antlr/",
    "org/apache/hadoop/",
    "org/apache/logging/",
    "org/apache/parquet/format/",
    "org/apache/spark/scheduler/",
    "org/apache/spark/sql/catalyst/analysis/",
    "org/apache/spark/sql/catalyst/optimizer/",
    "org/apache/spark/sql/catalyst/parser/",
    "org/apache/spark/sql/catalyst/plans/",
    "org/apache/spark/sql/catalyst/rules/",
    "org/apache/spark/sql/catalyst/trees/",
    "org/apache/spark/sql/classic/",
    "org/apache/spark/sql/execution/adaptive/",
    "org/apache/spark/sql/internal/",
    "org/apache/spark/status/",
    "org/apache/spark/util/ClosureCleaner",
    "org/apache/xbean/",
    "org/codehaus/",
    "py4j/",
    "scala/collection/",
    "shaded/parquet/org/apache/",
)
"""How the names of classes begin that read, plan, compile, serialise and schedule queries."""


def java_options() -> str:
    """What to tell Java so that it compiles well what runs for each row, and nothing else.

    Without the last of them Java would print to our own output how many rules it was given.
    """
    matched = ", ".join(f'"{start}*.*"' for start in PER_QUERY)
    file = keep_text("spark/per-query.json", f"[{{ match: [{matched}], c2: {{ Exclude: true }} }}]\n")
    return f'-XX:+UnlockDiagnosticVMOptions "-XX:CompilerDirectivesFile={file}" -XX:-DisplayVMOutput'
