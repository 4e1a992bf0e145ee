"""Which of Spark's code is worth compiling well.

Java compiles what runs often, at first quickly, and what runs more often still once more, with a compiler that takes
much longer and makes faster code. In a run of a minute that second compiler takes a quarter of all CPU, and a part of
it goes into code that plans queries, and compiles them: it runs for each query and not for each row, and the run is
over before it pays. Such code stays as the first compiler made it; what runs for each row is compiled as ever.

When all rows are summed, what is left is many small tables, each with code of its own that runs for a moment: from then
on nothing at all is compiled a second time. A stream that goes on for days is told nothing of the kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from scale0_pipeline.java import keep_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def be_brief(spark: SparkSession) -> bool:
    """Have this session's Java compile nothing a second time from now on; False if it cannot be told so.

    That is a directive to its compilers, which Java takes while it runs from whoever manages it.
    """
    file = keep_text("spark/be-brief.json", '[{ match: ["*.*"], c2: { Exclude: true } }]\n')
    try:
        return "added" in str(_command(spark, "compilerDirectivesAdd", f'"{file}"'))
    except Exception:  # a Java without management, or one that is told by other means: it runs as ever
        return False


def _command(spark: SparkSession, command: str, argument: str) -> Any:
    """Carry out a diagnostic command, as Java's own tools do it."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    assert jvm is not None, "a session that is not remote has one"
    assert gateway is not None, "and a way to it"
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    name = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    signature = _array(gateway, jvm.java.lang.String, "[Ljava.lang.String;")
    given = _array(gateway, jvm.java.lang.Object, _array(gateway, jvm.java.lang.String, argument))
    (invoke,) = [
        method
        for method in jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
        if method.getName() == "invoke"
    ]
    return invoke.invoke(server, _array(gateway, jvm.java.lang.Object, name, command, given, signature))


def _array(gateway: Any, kind: Any, *values: Any) -> Any:
    """An array of Java's."""
    array = gateway.new_array(kind, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array
