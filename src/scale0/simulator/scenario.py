"""What to simulate: a seed, for how long, and how it departs from the world that the seed alone would make.

A scenario is all that a run depends on, so its command line replays the run to the byte. Whatever is left to the seed
stays as the seed has it: asking for fewer workers changes no fault, and leaving a fault out changes no other. That is
what shrinking lives on.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator
from random import Random

import msgspec

from scale0.errors import UsageError
from scale0.simulator import crossing_faults, faults, moment_faults, network_faults, operator_faults, star_faults
from scale0.simulator.network_profiles import any_profile, network_profile
from scale0.simulator.profiles import NETWORKS, Profile, profile_for
from scale0.simulator.shapes import Shape, one_group
from scale0.simulator.star_profiles import paired

STEPS = 3000
BROKERS_MAX = 9
PARTICIPANTS_MAX = 500
CALM_GAP_S = 1.0  # between two faults, where the seed alone would have next to none

SINGLE_KINDS = (*faults.ORDERLY, *faults.ROUGH, *operator_faults.OPERATOR)
PAIR_KINDS = (*star_faults.ORDERLY, *star_faults.ROUGH, *moment_faults.MOMENTS, *crossing_faults.CROSSINGS)
NETWORK_KINDS = (*network_faults.JOINS, *network_faults.ORDERLY, *network_faults.ROUGH, *PAIR_KINDS)
KINDS = (*SINGLE_KINDS, *NETWORK_KINDS)
"""Every kind of fault; the second half happens between brokers only."""

GUESTS = {
    "majordomo": ("majordomo_clients", "majordomo_workers"),
    "req": ("req_clients", "req_workers"),
    "nuisances": ("nuisances",),
    "twins": ("twins",),
}
"""Participants that are not of the library, and can be left out."""


class Scenario(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run, before it has happened. None leaves it to the seed."""

    seed: int
    steps: int = STEPS  # with faults; more follow until all is well again
    hours: float = 0.0  # of virtual time with faults, instead of steps
    brokers: int | None = None
    fallbacks: int | None = None  # so many of these brokers have a fallback broker
    workers: int | None = None
    clients: int | None = None
    faults: tuple[str, ...] | None = None  # kinds
    strikes: tuple[int, ...] | None = None  # of these faults only those with these numbers
    without: tuple[str, ...] = ()  # guests that stay away

    @property
    def is_network(self) -> bool:
        return self.seed >= NETWORKS if self.brokers is None else self.brokers > 1 or bool(self.fallbacks)

    def profile(self) -> Profile:
        """The world that it makes."""
        if self.brokers is None:
            if self.fallbacks is not None:
                raise UsageError("fallback brokers of how many?\nsay how many brokers there are: --brokers N")
            profile = any_profile(self.seed)
        elif self.is_network:
            profile = _with_brokers(network_profile(self.seed), self.seed, self.brokers, self.fallbacks or 0)
        else:
            profile = msgspec.structs.replace(profile_for(self.seed), brokers=1)
        changes: dict[str, object] = {name: 0 for guest in self.without for name in GUESTS[guest]}
        if self.workers is not None:
            changes["workers"] = _enough(self.workers, profile)
        if self.clients is not None:
            changes["clients"] = self.clients
        if self.strikes is not None:
            changes["strikes"] = frozenset(self.strikes)
        if self.faults is not None:
            changes |= self._fault_changes(profile)
        return msgspec.structs.replace(profile, **changes)

    def options(self) -> list[str]:
        """Its command line, after `scale0 sim`."""
        words = ["--seed", str(self.seed)]
        words += ["--hours", f"{self.hours:g}"] if self.hours else ["--steps", str(self.steps)]
        for name in ("brokers", "fallbacks", "workers", "clients"):
            if (number := getattr(self, name)) is not None:
                words += [f"--{name}", str(number)]
        if self.faults is not None:
            words += ["--faults", ",".join(kind.replace(" ", "-") for kind in self.faults) or "none"]
        if self.strikes is not None:
            words += ["--only-faults", write_numbers(self.strikes) or "none"]
        if self.without:
            words += ["--without", ",".join(self.without)]
        return words

    def command(self) -> str:
        return " ".join(["scale0 sim", *self.options()])

    def _fault_changes(self, profile: Profile) -> dict[str, object]:
        """Where nothing may fail, only what is orderly can be asked for: with anything else it is a rough world."""
        assert self.faults is not None
        across = [kind for kind in self.faults if kind in NETWORK_KINDS]
        if across and profile.shape is None:
            text = f"{across[0]!r} happens between brokers, and this world has none that know one another"
            raise UsageError(f"{text}\nask for a network: --brokers 3, or a seed from {NETWORKS} on")
        of_pairs = [kind for kind in self.faults if kind in PAIR_KINDS]
        if of_pairs and (profile.shape is None or not profile.shape.pairs):
            text = f"{of_pairs[0]!r} happens to a broker that has a fallback, and here is none"
            raise UsageError(f"{text}\nask for one: --brokers 2 --fallbacks 1")
        orderly = {*faults.ORDERLY, *network_faults.JOINS, *network_faults.ORDERLY, *star_faults.ORDERLY}
        if profile.kind == "rough" or (profile.kind == "calm" and orderly.issuperset(self.faults)) or not self.faults:
            return {"faults": self.faults}
        return {"faults": self.faults, "kind": "rough", "fault_gap_s": min(profile.fault_gap_s, CALM_GAP_S)}


def workers_min(profile: Profile) -> int:
    """So many workers are needed that every group and every half of the services has one."""
    return max(1, len(profile.shape.groups), len(profile.shape.halves)) if profile.shape is not None else 1


def _enough(workers: int, profile: Profile) -> int:
    if workers < workers_min(profile):
        raise UsageError(f"{workers} workers cannot serve every part of this network\nat least {workers_min(profile)}")
    return workers


def _with_brokers(profile: Profile, seed: int, brokers: int, fallbacks: int) -> Profile:
    """One group of so many; where shares are looked at, the last one comes later."""
    if fallbacks > brokers:
        raise UsageError(f"{fallbacks} fallbacks for {brokers} brokers\na broker has one at most")
    late = 1 if profile.kind == "shares" and brokers > 1 else 0
    shape = one_group(Random(f"{seed}/brokers"), brokers - late, late)
    if late:
        shape = msgspec.structs.replace(shape, join="open")
    made = msgspec.structs.replace(profile, brokers=brokers - late, shape=_listed(shape) if fallbacks else shape)
    return paired(Random(f"{seed}/fallbacks"), made, fallbacks) if fallbacks else made


def _listed(shape: Shape) -> Shape:
    """All brokers are in the document from the start, so that each may have a fallback."""
    return msgspec.structs.replace(shape, joins=False)


# --- as people write it -------------------------------------------------------------------------------------------


def read_kinds(text: str) -> tuple[str, ...] | None:
    """Kinds of faults, with commas; dashes may stand for blanks. `all` leaves them to the seed."""
    words = [word.strip().lower().replace("-", " ").replace("_", " ") for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return None
    if words == ["none"]:
        return ()
    for word in words:
        if word not in KINDS:
            raise UsageError(f"no kind of fault is called {word!r}\n{_near(word, KINDS)}")
    return tuple(dict.fromkeys(words))


def read_guests(text: str) -> tuple[str, ...]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in GUESTS:
            raise UsageError(f"no participants are called {word!r}\nthere are {', '.join(GUESTS)}")
    return tuple(dict.fromkeys(words))


class Seeds(msgspec.Struct, frozen=True):
    """Seeds to run, one after the other. A range without an end goes on for ever, side by side with its like."""

    listed: tuple[range, ...] = ()
    endless: tuple[int, ...] = ()

    @property
    def number(self) -> int | None:
        """How many there are; None: no end."""
        return None if self.endless else sum(map(len, self.listed))

    def __iter__(self) -> Iterator[int]:
        yield from itertools.chain(*self.listed)
        for step in itertools.count() if self.endless else ():
            for first in self.endless:
                yield first + step


def read_seeds(text: str) -> Seeds:
    """Ranges and single seeds: `7`, `0..100` without its last, `5000..` without an end, and several with commas."""
    listed: list[range] = []
    endless: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        try:
            if dots and not last:
                endless.append(int(first))
            else:
                listed.append(range(int(first), int(last) if dots else int(first) + 1))
        except ValueError:
            what = f"{part.strip()!r} is no seed and no range of seeds"
            raise UsageError(f"{what}\nwrite 7, 0..100, 5000.. or several with commas") from None
        if listed and not listed[-1]:
            raise UsageError(f"{part.strip()} has no seed in it: a range ends before its last\n0..100 is 0 to 99")
    return Seeds(tuple(listed), tuple(endless))


def read_numbers(text: str) -> tuple[int, ...]:
    """Numbers and ranges of them, with both ends included: `3,7-9`."""
    if text.strip() == "none":
        return ()
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            numbers += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise UsageError(f"{part.strip()!r} is no number of a fault\nwrite 3,7-9") from None
    return tuple(sorted(set(numbers)))


def write_numbers(numbers: Iterable[int]) -> str:
    """What `read_numbers` reads."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in runs)


def _near(word: str, words: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(words), n=3, cutoff=0.5)
    if not near:
        return "what there is: scale0 sim --faults list"
    return f"did you mean: {', '.join(kind.replace(' ', '-') for kind in near)}?"
