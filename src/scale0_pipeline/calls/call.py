"""`call_service`: a column that Scale0 workers compute, for any DataFrame.

    from scale0_pipeline import call_service
    scored = call_service(orders, "score", broker="tcp://127.0.0.1:5555", columns=["amount", "land"], result="double")

Each row is a task. The columns are the service's arguments, in their order, as with a function of Spark's own; what it
returns stands in a new column, and what went wrong in another, so that one bad row does not end a job of millions.
Rows go out as Spark's tasks get to them, `in_flight` at a time for each partition, and come back in their order.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from scale0.errors import Scale0Error
from scale0_pipeline.calls.asking import Asker, Order, code_and_text, work_of
from scale0_pipeline.calls.terms import check_repeatable
from scale0_pipeline.errors import PipelineError

ERROR_TYPE: Final = "struct<code:int,text:string>"
UNFIT: Final = 422  # the code of a result that the column cannot hold
IN_FLIGHT: Final = 64
_ERROR: Final = pa.struct([pa.field("code", pa.int32()), pa.field("text", pa.string())])


def call_service(
    df: DataFrame,
    service: str,
    *,
    broker: str | Sequence[str],
    columns: Sequence[str] | None = None,
    result: str | DataType = "string",
    result_column: str = "result",
    error_column: str = "error",
    in_flight: int = IN_FLIGHT,
    timeout: float = 60.0,
    allow_repeats: bool = False,
    errors: str = "column",
) -> DataFrame:
    """`df` with what `service` returns for each row.

    `columns` are the arguments, by default all of them. `result` is the type of the new column, as a DDL string or a
    `DataType`. With `errors="column"` a column of `struct<code, text>` tells what went wrong, null where nothing did;
    with `errors="fail"` the first error ends the job. A service that is not idempotent is refused, unless
    `allow_repeats`: Spark runs tasks again when it must. `in_flight` tasks of each partition are under way at once, and
    each has `timeout` seconds.
    """
    names = list(columns) if columns is not None else df.columns
    _check(df, names, errors, in_flight, [result_column] + [error_column] * (errors == "column"))
    brokers = tuple(broker.split(",")) if isinstance(broker, str) else tuple(broker)
    if not allow_repeats:
        check_repeatable(brokers, service)
    result_type = _type_of(result)
    schema = StructType([*df.schema.fields, StructField(result_column, result_type)])
    if errors == "column":
        schema = schema.add(error_column, _type_of(ERROR_TYPE))
    order = Order(
        service=service,
        brokers=brokers,
        label=_label(service, names, schema),
        run=secrets.token_hex(8),
        in_flight=in_flight,
        timeout_s=timeout,
        allow_repeats=allow_repeats,
    )
    return df.mapInArrow(_mapping(order, names, result_type, schema.names, errors == "column"), schema)


def _mapping(
    order: Order, names: list[str], result_type: DataType, outputs: list[str], has_errors: bool
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What runs on the executors: record batches in, the same with the new columns out."""

    def ask(batches: Iterable[Any]) -> Iterator[Any]:
        arrow_type = to_arrow_type(result_type)
        with Asker(order, work_of(order, TaskContext.get())) as asker:
            for batch in batches:
                rows = list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
                results, failures = columns_of(asker.ask(rows), arrow_type, must_raise=not has_errors)
                made = [*batch.columns, results, failures] if has_errors else [*batch.columns, results]
                yield pa.RecordBatch.from_arrays(made, names=outputs)

    return ask


def columns_of(answers: Iterable[Any], arrow_type: Any, *, must_raise: bool = False) -> tuple[Any, Any]:
    """The results as one column, and the errors as another: each row has one of them, or a result that is null."""
    values: list[Any] = []
    failures: list[dict[str, Any] | None] = []
    for answer in answers:
        if isinstance(answer, Scale0Error):
            if must_raise:
                raise answer
            values.append(None)
            failures.append(_told(*code_and_text(answer)))
        else:
            values.append(answer)
            failures.append(None)
    try:
        column = pa.array(values, arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Some value does not fit its column. Only now is it worth looking which.
        for place, value in enumerate(values):
            problem = _misfit(value, arrow_type)
            if problem and must_raise:
                raise PipelineError(problem, "name the type that the service returns: result=…") from None
            if problem:
                values[place], failures[place] = None, _told(UNFIT, problem)
        column = pa.array(values, arrow_type)
    return column, pa.array(failures, _ERROR)


def _told(code: int, text: str) -> dict[str, Any]:
    return {"code": code, "text": text}


def _misfit(value: Any, arrow_type: Any) -> str:
    """Why a result cannot stand in its column; empty if it can."""
    try:
        pa.array([value], arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return f"the result does not fit the column of type {arrow_type}: {error}"
    return ""


def _check(df: DataFrame, names: list[str], errors: str, in_flight: int, new: list[str]) -> None:
    if errors not in ("column", "fail"):
        raise PipelineError(f"errors={errors!r} is not known", 'give errors="column" or errors="fail"')
    if in_flight < 1:
        raise PipelineError(f"in_flight={in_flight!r}", "give a whole number from 1 on")
    unknown = [name for name in names if name not in df.columns]
    if unknown or not names:
        text = f"there is no column {', '.join(unknown) or 'to send'}"
        raise PipelineError(text, f"there are: {', '.join(df.columns)}")
    taken = [name for name in new if name in df.columns]
    if taken:
        raise PipelineError(
            f"there is a column {', '.join(taken)} already", "name the new ones: result_column=…, error_column=…"
        )


def _type_of(told: str | DataType) -> DataType:
    return told if isinstance(told, DataType) else DataType.fromDDL(told)


def _label(service: str, names: list[str], schema: StructType) -> str:
    """The same for the same call in the next run of a program; another one for the next call in the same query."""
    digest = hashlib.blake2b(f"{names} {schema.json()}".encode(), digest_size=8).hexdigest()
    return f"{service}/{digest}"
