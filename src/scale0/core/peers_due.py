"""When something falls due with a peer: silence, dialing, what it is told, its wish to join.

The module that has the rule does it, in its `tick`. Here it is only found out when that must come; as this is asked for
after each message, it is one pass through the peers for all of them.
"""

from __future__ import annotations

import math

from scale0.core import dialing, peer_status, peers
from scale0.core.state import State


def next_s(state: State) -> float:
    """When one of them has something to do at the latest."""
    has_news = peer_status.is_news(state)
    next_s = told_s = math.inf
    for peer in state.network.peers.values():
        if dialing.lacks_link(peer) and (at_s := dialing.dial_at_s(state, peer)) < next_s:
            next_s = at_s
        if not peer.is_linked:
            continue
        if (at_s := peers.silent_at_s(state, peer)) < next_s:
            next_s = at_s
        if (at_s := peer.looked_s if has_news else peer.told_s) < told_s:
            told_s = at_s
        if (peer.table_due or not peer.table_seq) and peer.table_at_s < next_s:
            next_s = peer.table_at_s
        if peer.is_joining and peer.join_at_s < next_s:
            next_s = peer.join_at_s
    tell_at_s = told_s + (peer_status.pace_s(state) if has_news else peer_status.beat_s(state))
    if tell_at_s < next_s:
        next_s = tell_at_s
    return next_s
