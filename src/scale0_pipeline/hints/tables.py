"""The tables of hints and of their scores, as functions of gold.

Both are made anew from the same rows whenever a day is: an hour's hints follow from the flaps of the day before it, and
from nothing that was decided earlier, so a backfill finds what the stream found. A hint is made at the end of an hour.
Its score is taken over the hour after that: what was observed, against what the evidence predicted, and against what
happened to workers of the same service whose hints were held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from scale0_pipeline.hints import damping
from scale0_pipeline.transforms.window import Window, day_of, of_the_window
from scale0_pipeline.units import DAY_US, HOUR_US

HINT_INPUTS: Final = ("gold/flaps", "gold/worker_1h", "gold/completeness_1h")
HINT_LOOKBACK_DAYS: Final = 2  # a day of evidence, and for its first hour what went before
SCORE_INPUTS: Final = ("gold/hints", "gold/worker_1h", "silver/notes")
SCORE_LOOKBACK_DAYS: Final = 29
CONTROL_DAYS: Final = 28
NOTABLE: Final = 0.1  # a smaller difference from the control is none


def hints(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/hints of the window's days: who was to be damped after each of their hours."""
    flapping = _flapping(inputs["gold/flaps"], inputs["gold/completeness_1h"])
    chosen = _choose(flapping, inputs["gold/worker_1h"])
    made_us = F.col("hour_us") + HOUR_US
    named = chosen.where(made_us <= window.now_us).select(
        day_of("hour_us").alias("day"),
        F.substring(F.sha2(F.concat_ws("|", F.lit(damping.KIND), "worker", "hour_us"), 256), 1, 16).alias("hint_id"),
        F.lit(damping.KIND).alias("kind"),
        F.col("worker").alias("subject"),
        "service",
        F.lit(damping.SHARE_MAX).alias("bound"),
        F.format_string("%d sessions within an hour, penalty %.1f", "sessions", "penalty").alias("reason"),
        (made_us - damping.EVIDENCE_H * HOUR_US).alias("evidence_from_us"),
        made_us.alias("evidence_to_us"),
        "completeness",
        made_us.alias("made_us"),
        (made_us + damping.LIFE_H * HOUR_US).alias("expires_us"),
        F.lit("shadow").alias("mode"),
    )
    draw = F.pmod(F.crc32(F.concat_ws("|", F.lit("held out"), "hint_id").cast("binary")), F.lit(damping.HELD_OUT_OF))
    return of_the_window(named.withColumn("is_held_out", draw == 0), window)


def hint_scores(inputs: Mapping[str, DataFrame], window: Window) -> DataFrame:
    """gold/hint_scores of the window's days: each hint whose hour is over."""
    errors = _errors(inputs["gold/worker_1h"])
    known = inputs["gold/hints"].select(
        "hint_id", F.col("subject").alias("worker"), "service", "made_us", "is_held_out", "evidence_to_us"
    )
    before = errors.select("worker", (F.col("hour_us") + HOUR_US).alias("made_us"), F.col("usual").alias("predicted"))
    after = errors.select("worker", F.col("hour_us").alias("made_us"), F.col("errors").alias("observed"))
    seen = known.join(before, ["worker", "made_us"], "left").join(after, ["worker", "made_us"], "left")
    seen = seen.fillna(0.0, ["predicted", "observed"]).withColumn("control", _control())
    judged = seen.join(_enforced(inputs["silver/notes"]), "hint_id", "left")
    is_enforced = F.coalesce("is_enforced", F.lit(False)) & ~F.col("is_held_out")
    score = F.when(is_enforced & (F.col("control") > 0), 1 - F.col("observed") / F.col("control"))
    ends_us = F.col("made_us") + HOUR_US
    scored = judged.where(ends_us <= window.now_us).select(
        day_of("made_us").alias("day"),
        "hint_id",
        ends_us.alias("scored_us"),
        "predicted",
        "observed",
        "control",
        score.alias("score"),
        _verdict(is_enforced, score).alias("verdict"),
    )
    return of_the_window(scored, window)


# --- who flaps ----------------------------------------------------------------------------------------------------


def _flapping(flaps: DataFrame, completeness_1h: DataFrame) -> DataFrame:
    """Workers and hours with enough penalty, by hysteresis, on evidence that is nearly whole."""
    whole = completeness_1h.select("broker", "hour_us", "completeness")
    joined = flaps.join(whole, ["broker", "hour_us"], "left")
    at_all = joined.groupBy("worker", "hour_us").agg(
        F.sum("penalty").alias("penalty"),
        F.sum("sessions").alias("sessions"),
        F.min("completeness").alias("completeness"),
    )
    in_order = Over.partitionBy("worker").orderBy("hour_us")
    hours = (F.col("hour_us") - F.lag("hour_us").over(in_order)) / HOUR_US
    # The penalty that was left just before this hour began; without a row before, none.
    left = F.lag("penalty").over(in_order) * F.pow(F.lit(0.5), (hours - 1) / damping.HALF_LIFE_H)
    was_calm = F.coalesce(F.when(hours <= damping.EVIDENCE_H, left), F.lit(0.0)) < damping.OFF
    calm_us = F.when(F.col("penalty") < damping.OFF, F.col("hour_us")).when(was_calm, F.col("hour_us") - HOUR_US)
    marked = at_all.withColumns(
        {"bad_us": F.when(F.col("penalty") >= damping.ON, F.col("hour_us")), "calm_us": calm_us}
    )
    evidence = in_order.rangeBetween(-(damping.EVIDENCE_H - 1) * HOUR_US, 0)
    last_bad, last_calm = F.max("bad_us").over(evidence), F.max("calm_us").over(evidence)
    flapping = marked.withColumn("is_flapping", F.coalesce(last_bad > F.coalesce(last_calm, F.lit(-1)), F.lit(False)))
    is_sound = F.coalesce("completeness", F.lit(1.0)) >= damping.COMPLETENESS_MIN
    return flapping.where(F.col("is_flapping") & is_sound).drop("bad_us", "calm_us", "is_flapping")


def _choose(flapping: DataFrame, worker_1h: DataFrame) -> DataFrame:
    """Of them, those that each of their services can spare: the worst first, `damping.allowance` of each service.

    Workers count alike here; a broker, which knows their slots, checks again.
    """
    serving = worker_1h.groupBy("hour_us", "service", "worker").agg(F.sum("count").alias("tasks"))
    sizes = serving.groupBy("hour_us", "service").agg(F.count("*").alias("workers"))
    candidates = flapping.join(serving, ["hour_us", "worker"]).join(sizes, ["hour_us", "service"])
    rank = F.row_number().over(Over.partitionBy("hour_us", "service").orderBy(F.desc("penalty"), "worker"))
    allowance = F.least(F.floor(F.col("workers") * damping.SHARE_MAX), F.col("workers") - damping.SPARED)
    ranked = candidates.withColumn("is_spared", rank <= allowance)
    settled = ranked.groupBy("hour_us", "worker").agg(
        F.first("penalty").alias("penalty"),
        F.first("sessions").alias("sessions"),
        F.first("completeness").alias("completeness"),
        F.max_by("service", F.struct("tasks", "service")).alias("service"),
        F.bool_and("is_spared").alias("is_spared"),
    )
    return settled.where("is_spared")


# --- what became of it --------------------------------------------------------------------------------------------


def _errors(worker_1h: DataFrame) -> DataFrame:
    """Errors of each worker and hour, and what was usual over the day that ends with it."""
    hours = worker_1h.groupBy("worker", "hour_us").agg(F.sum("errors").cast("double").alias("errors"))
    day = Over.partitionBy("worker").orderBy("hour_us").rangeBetween(-(damping.EVIDENCE_H - 1) * HOUR_US, 0)
    return hours.withColumn("usual", F.avg("errors").over(day))


def _control() -> Column:
    """The mean of what was observed while hints of the same service were held out, over four weeks."""
    weeks = Over.partitionBy("service").orderBy("made_us").rangeBetween(-CONTROL_DAYS * DAY_US, 0)
    return F.avg(F.when(F.col("is_held_out"), F.col("observed"))).over(weeks)


def _enforced(notes: DataFrame) -> DataFrame:
    """Hints that a broker heard of and was told to enforce."""
    heard = notes.where((F.col("kind") == "hint") & (F.col("what") == "heard"))
    told = F.from_json("detail", "hint_id string, mode string")
    return heard.groupBy(told["hint_id"].alias("hint_id")).agg(
        F.bool_or(told["mode"] == "enforce").alias("is_enforced")
    )


def _verdict(is_enforced: Column, score: Column) -> Column:
    return (
        F.when(F.col("is_held_out"), "control")
        .when(~is_enforced, "shadow")
        .when(score.isNull(), "no control yet")
        .when(score >= NOTABLE, "helps")
        .when(score <= -NOTABLE, "harms")
        .otherwise("no difference")
    )
