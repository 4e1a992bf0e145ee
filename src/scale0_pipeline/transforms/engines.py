"""Two engines for one rule: Spark's, for rows that are summed, and Arrow's, for rows that are kept as they are.

A rule is written once, as steps. A step gives new columns their expressions, made of columns that were there before it;
the steps are applied one after the other. So Spark computes each column once a row, where nested expressions would be
copied into every place that uses them, and Arrow computes it once a batch.

What a rule may say is what both engines can: arithmetic and comparisons of columns, the first of some that is not null,
and a choice, in which a condition that is null does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Expression = Any
"""Of either engine. Both know +, −, <, & and their like."""


class Engine(Protocol):
    """Makes expressions."""

    def col(self, name: str) -> Expression:
        """A column."""

    def number(self, value: int) -> Expression:
        """A whole number of 64 bits."""

    def long(self, column: Expression) -> Expression:
        """A whole number, in 64 bits."""

    def first(self, *columns: Expression) -> Expression:
        """The first that is not null."""

    def choose(self, *cases: tuple[Expression, Expression], otherwise: Expression | None = None) -> Expression:
        """What belongs to the first condition that holds; of none, `otherwise`, or null."""


Step = Callable[[Engine], dict[str, Expression]]


class OfSpark:
    """Expressions of Spark."""

    def col(self, name: str) -> Expression:
        from pyspark.sql import functions as F

        return F.col(name)

    def number(self, value: int) -> Expression:
        from pyspark.sql import functions as F

        return F.lit(value).cast("long")

    def long(self, column: Expression) -> Expression:
        return column.cast("long")

    def first(self, *columns: Expression) -> Expression:
        from pyspark.sql import functions as F

        return F.coalesce(*columns)

    def choose(self, *cases: tuple[Expression, Expression], otherwise: Expression | None = None) -> Expression:
        from pyspark.sql import functions as F

        chosen = F.when(*cases[0])
        for condition, value in cases[1:]:
            chosen = chosen.when(condition, value)
        return chosen if otherwise is None else chosen.otherwise(otherwise)


class OfArrow:
    """Expressions of Arrow."""

    def col(self, name: str) -> Expression:
        import pyarrow.compute as pc

        return pc.field(name)

    def number(self, value: int) -> Expression:
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.scalar(pa.scalar(value, pa.int64()))

    def long(self, column: Expression) -> Expression:
        return column.cast("int64")

    def first(self, *columns: Expression) -> Expression:
        import pyarrow.compute as pc

        return pc.coalesce(*columns)

    def choose(self, *cases: tuple[Expression, Expression], otherwise: Expression | None = None) -> Expression:
        import pyarrow as pa
        import pyarrow.compute as pc

        chosen = pc.scalar(pa.scalar(None, pa.int64())) if otherwise is None else otherwise
        for condition, value in reversed(cases):
            chosen = pc.if_else(pc.coalesce(condition, pc.scalar(False)), value, chosen)
        return chosen


def in_spark(rows: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """The rows with the columns of all steps."""
    for step in steps:
        rows = rows.withColumns(step(OfSpark()))
    return rows


def in_arrow(rows: pa.Table, steps: Sequence[Step]) -> pa.Table:
    """The rows with the columns of all steps; one that was there is replaced."""
    from pyarrow import acero
    from pyarrow import compute as pc

    plan = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    names = list(rows.column_names)
    for step in steps:
        new = step(OfArrow())
        kept = [name for name in names if name not in new]
        expressions = [*(pc.field(name) for name in kept), *new.values()]
        names = [*kept, *new]
        plan = acero.Declaration("project", acero.ProjectNodeOptions(expressions, names), [plan])
    return plan.to_table(use_threads=False)
