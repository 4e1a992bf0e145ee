"""The epochs of a pair: each time that one of two begins to serve is an epoch of its own (rule 31).

An epoch is on the disk before anything is done in it, for a broker that forgot its epoch could serve in one that the
other had. Effects are carried out in order: what is kept here comes before what follows.
"""

from __future__ import annotations

from scale0.core import takeover
from scale0.core.effects import Persist
from scale0.core.star import Star, next_epoch
from scale0.core.state import State


def open_next(state: State) -> None:
    """From now on this broker serves in the next of its own epochs that is above all that anybody has told of."""
    pair = state.pair
    assert pair is not None, "only one of a pair has epochs"
    state.epoch = next_epoch(max(state.epoch, pair.epoch_seen), is_primary=pair.is_primary)
    pair.epoch_seen = state.epoch
    state.config.broker_epoch = state.epoch
    keep(state, is_serving=True)


def keep_ahead(state: State) -> None:
    """If the other has served in a higher one than ours, participants would not obey us: ours is left for the next."""
    pair = state.pair
    if pair is not None and pair.star is Star.ACTIVE and pair.epoch_seen > state.epoch:
        open_next(state)
        takeover.distrust_all(state)


def keep(state: State, *, is_serving: bool) -> None:
    state.was_serving = is_serving
    state.effects.append(Persist("active", state.epoch, is_serving))
