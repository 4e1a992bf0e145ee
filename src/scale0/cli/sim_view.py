"""What `scale0 sim` shows: the verdict, the shape of the world, its faults and what followed, and the sums.

Times are virtual, counted from the start of the run, unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from scale0.cli import render
from scale0.cli.render import Cell, Column
from scale0.cli.sim_many import Done, clock
from scale0.cli.views import count
from scale0.simulator import coverage_table
from scale0.simulator.coverage_table import Counts
from scale0.simulator.profiles import Profile
from scale0.simulator.run import Result
from scale0.simulator.scenario import KINDS, NETWORK_KINDS, PAIR_KINDS, SINGLE_KINDS, STEPS, Scenario
from scale0.simulator.shrink import Shrunk
from scale0.simulator.timeline import HEALED, Strike

REPLIES = ("OK", "FAILED", "majordomo", "req")  # outcomes that are replies; all others are errors
SEED_LINES_MAX = 50


def verdict(result: Result) -> Text:
    """The first line."""
    where = f"seed {result.seed}"
    if not result.is_good:
        return render.verdict("bad", f"{where}, step {result.failed_at_step:,}: {render.safe(result.violation)}")
    if result.is_interrupted:
        return render.verdict("warn", f"{where}: ended by Ctrl-C after {result.steps_in_all:,} steps; so far all held")
    return render.verdict("ok", f"{where}: every promise held")


def story(result: Result, strikes: Sequence[Strike], strikes_max: int) -> list[Cell]:
    """One run, from its shape to its digest."""
    shown: list[Cell] = [verdict(result), *(f"  {line}" for line in shape(result.scenario.profile())), ""]
    shown += timeline(strikes, strikes_max)
    rate = result.steps_in_all / result.took_s if result.took_s else 0.0
    speed = f"{result.steps_in_all:,} steps in {result.took_s:.2f} s: {rate:,.0f}/s"
    shown += [
        Text("TOTALS", style="bold"),
        f"  tasks     {result.tasks:,}",
        f"  outcomes  {listing(result.outcomes)}",
        f"  faults    {result.faults:,}: {listing(faults_of(result.counts))}",
        f"  time      {clock(result.virtual_s)} virtual, {speed}",
        f"  digest    {result.digest}",
        f"Again: {result.scenario.command()}",
    ]
    return shown


def shape(profile: Profile) -> list[str]:
    """Who takes part."""
    guests = {
        "Majordomo client": profile.majordomo_clients,
        "Majordomo worker": profile.majordomo_workers,
        "REQ client": profile.req_clients,
        "REQ worker": profile.req_workers,
        "nuisance": profile.nuisances,
        "twin": profile.twins,
    }
    others = [count(number, name) for name, number in guests.items() if number]
    services = ", ".join(
        f"{service.name}{' (idempotent)' if service.idempotent else ''}" for service in profile.services
    )
    return [
        f"{profile.kind} world: {brokers(profile)}",
        ", ".join([count(profile.workers, "worker"), count(profile.clients, "client"), *others]),
        f"services {services}",
        f"heartbeats each {profile.interval_s:g} s, gone after {profile.liveness}",
    ]


def brokers(profile: Profile) -> str:
    if profile.shape is None:
        return "one broker" if profile.brokers == 1 else f"{profile.brokers} brokers that do not know one another"
    groups = [
        f"{group or 'no group'} ({', '.join(broker.name for broker in profile.shape.brokers if broker.group == group)})"
        for group in profile.shape.groups
    ]
    pairs = [f"{fallback} stands by for {primary}" for primary, fallback in profile.shape.pairs]
    late = [broker.name for broker in profile.shape.brokers if broker.is_late]
    words = [f"{count(len(profile.shape.brokers), 'broker')} in {' and '.join(groups)}", *pairs]
    return "; ".join([*words, f"{', '.join(late)} joins later"] if late else words)


def timeline(strikes: Sequence[Strike], strikes_max: int) -> list[Cell]:
    """The last faults, each with what it did and what followed until the next one."""
    if not strikes or not strikes_max:
        return []
    lines: list[Cell] = [Text("FAULTS, and what followed", style="bold")]
    if len(strikes) > strikes_max:
        lines.append(Text(f"  ⋮ {count(len(strikes) - strikes_max, 'fault')} before: --timeline N", style="dim"))
    for strike in strikes[-strikes_max:]:
        number = "" if strike.number == HEALED else str(strike.number)
        told = "; ".join(render.safe(words) for words in strike.told)
        lines.append(f"  {strike.at_s:9.3f} s  {number:>3}  {strike.kind}{': ' if told else ''}{told}")
        if strike.followed:
            lines.append(Text(f"{' ' * 19}→ {listing(_short(strike.followed))}", style="dim"))
    return [*lines, ""]


def _short(followed: Mapping[str, int]) -> dict[str, int]:
    return {name.removeprefix("outcome ").removeprefix("broker mode "): number for name, number in followed.items()}


def shortest(shrunk: Shrunk, strikes: Sequence[Strike], strikes_max: int) -> list[Cell]:
    """The shortest run that was found to break the rule."""
    result = shrunk.result
    why = "nothing more can be left out" if shrunk.is_complete else "the time was over: --shrink SECONDS"
    faults = count(result.faults, "fault")
    lines: list[Cell] = [
        "",
        render.verdict("bad", f"{result.rule} is broken; the shortest trace that was found: {faults}"),
        f"  step {result.failed_at_step:,}: {render.safe(result.violation)}",
        Text(f"  {count(shrunk.attempts, 'run')} tried in {shrunk.took_s:.1f} s; {why}", style="dim"),
        *(f"  {line}" for line in shape(result.scenario.profile())[:2]),
        *timeline(strikes, strikes_max),
        Text("THE LAST MESSAGES", style="bold"),
        *(f"  {render.safe(line)}" for line in result.last_events),
        f"Replay: {result.scenario.command()}",
    ]
    return lines


# --- many ---------------------------------------------------------------------------------------------------------


def sums(done: Done) -> list[Cell]:
    total = done.sum
    seeds, steps = count(total.seeds, "seed"), f"{total.steps:,} steps"
    if total.failed:
        first = render.verdict("bad", f"{len(total.failed):,} of {seeds} broke a rule ({steps})")
    elif done.is_interrupted:
        first = render.verdict("warn", f"ended by Ctrl-C: every promise held so far, in {seeds} and {steps}")
    else:
        first = render.verdict("ok", f"every promise held in {seeds} and {steps}")
    rate = total.steps / done.took_s if done.took_s else 0.0
    lines: list[Cell] = [
        first,
        f"  tasks     {total.tasks:,}",
        f"  outcomes  {listing(total.outcomes)}",
        f"  faults    {total.faults:,}: {listing(faults_of(total.counts))}",
        f"  time      {clock(total.virtual_s)} virtual in {clock(done.took_s)}: {rate:,.0f} steps/s"
        f" on {count(done.jobs, 'core')}",
    ]
    if done.left_out:
        lines.append(f"  {count(done.left_out, 'seed')} left out: their worlds cannot be as the options want them")
    kept = [result for result in total.failed if can_be_kept(result.scenario)]
    if kept:
        lines += ["Keep them, in tests/simulation/seeds.txt:", *(seed_line(result) for result in kept[:SEED_LINES_MAX])]
    return lines


def can_be_kept(scenario: Scenario) -> bool:
    """A line of seeds.txt has a seed and its steps, and nothing else."""
    return scenario == Scenario(scenario.seed, scenario.steps)


def seed_line(result: Result) -> str:
    return f"{result.seed} {result.steps} # {render.safe(result.violation)[:90]}"


def coverage(counts: Counts, *, is_whole: bool) -> list[Cell]:
    """A line a group, with what was missed; with `is_whole` a line for each single thing."""
    lines = coverage_table.lines(counts)
    missed = [line for line in lines if line.is_missed]
    wanted = sum(not line.never for line in lines)
    sentence = f"coverage: {wanted - len(missed)} of {wanted} commands, codes, transitions and faults"
    first = render.verdict("warn" if missed else "ok", sentence + (f", {len(missed)} missed" if missed else ""))
    if is_whole:
        rows = [
            (line.group, line.name, f"{line.count:,}", f"never: {line.never}" if line.never else _hit(line.is_missed))
            for line in lines
        ]
        columns = (Column("GROUP"), Column("WHAT"), Column("COUNT", is_number=True), Column(""))
        return [first, *render.table(columns, rows)]
    rows = []
    for group in dict.fromkeys(line.group for line in lines):
        members = [line for line in lines if line.group == group and not line.never]
        absent = [line.name for line in members if line.is_missed]
        rows.append((group, str(len(members)), str(len(members) - len(absent)), ", ".join(absent)))
    columns = (Column("GROUP"), Column("ALL", is_number=True), Column("HIT", is_number=True), Column("MISSED"))
    never = sum(bool(line.never) for line in lines)
    note = f"{never} cannot happen by design; line by line, and why: --coverage"
    return [first, *render.table(columns, rows), Text(note, style="dim")]


def _hit(is_missed: bool) -> str:
    return "MISSED" if is_missed else "hit"


# --- words --------------------------------------------------------------------------------------------------------


def kinds() -> list[Cell]:
    """What `--faults` may name."""
    return [
        Text("to brokers and participants", style="bold"),
        *(f"  {kind.replace(' ', '-')}" for kind in SINGLE_KINDS),
        Text("between brokers, and by operators of a network", style="bold"),
        *(f"  {kind.replace(' ', '-')}" for kind in NETWORK_KINDS if kind not in PAIR_KINDS),
        Text("to a broker and its fallback", style="bold"),
        *(f"  {kind.replace(' ', '-')}" for kind in PAIR_KINDS),
        f"Next: scale0 sim --brokers 3 --faults {SINGLE_KINDS[0].replace(' ', '-')} --steps {STEPS}",
    ]


def faults_of(counts: Counts) -> dict[str, int]:
    """By kind; what nuisances do by themselves is not counted as faults."""
    return {name: number for (group, name), number in counts.items() if group == "fault" and name in KINDS}


def listing(members: Mapping[str, int]) -> str:
    """The most frequent first."""
    ordered: Iterable[tuple[str, int]] = sorted(members.items(), key=lambda member: (-member[1], member[0]))
    return " · ".join(f"{name} {number:,}" for name, number in ordered) or "none"
