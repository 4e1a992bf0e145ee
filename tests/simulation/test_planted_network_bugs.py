"""Testing the test: bugs planted in the rules between brokers, each of which the simulator must find."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.core import afar, config_service, delivery, dialing, groups, modes, peer_dialect, peers, routing
from scale0.core.effects import HangUp, KeepConfig, Persist
from scale0.core.ledger import Entry
from scale0.core.network import Dialing, Peer
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import Worker
from scale0.protocol.dialects import PEER, Role
from scale0.protocol.ids import sequence_of
from scale0.protocol.messages import Error, PeerService, Task, TaskReply
from scale0.protocol.network import BrokerEntry
from scale0.simulator.profiles import NETWORKS
from tests.simulation.planting import Bugs

STEPS = 2500
SEEDS = range(NETWORKS, NETWORKS + 40)

bug = Bugs()


@bug("credit")
def a_peer_is_sent_more_than_it_grants(patch: pytest.MonkeyPatch) -> None:
    right = afar._take_one

    def wrong(state: State, peer: Peer, offer: PeerService) -> None:
        right(state, peer, msgspec.structs.replace(offer, credit=offer.credit + 2))

    patch.setattr(afar, "_take_one", wrong)


@bug("rule 28")
def a_forwarded_task_is_passed_on(patch: pytest.MonkeyPatch) -> None:
    right = routing.offer

    def wrong(state: State, entry: Entry) -> None:
        entry.is_forwarded, was_forwarded = False, entry.is_forwarded
        farther = afar.pick(state, entry) if was_forwarded else None
        if farther is None:
            entry.is_forwarded = was_forwarded
            right(state, entry)
        else:
            state.ledger.accept(entry)
            afar.send(state, entry, farther)

    patch.setattr(routing, "offer", wrong)


@bug("rule 28")
def a_broker_queues_what_is_not_its_own(patch: pytest.MonkeyPatch) -> None:
    right = peer_dialect.SAYS[Task]

    def wrong(state: State, session: Session, message: Task) -> None:
        service = state.services.by_name.get(message.service)
        if service is None or service.lru or state.mode != "active" or message.id in state.ledger.entries:
            right(state, session, message)
            return
        deadline_s = state.now + message.remaining_ms / 1000
        entry = Entry(message.id, sequence_of(message.id), message, session, service, 0, state.now, deadline_s)
        entry.is_forwarded = True
        state.network.of(session).held[message.id] = message.service
        routing.offer(state, entry)

    says: dict[Any, Any] = peer_dialect.SAYS
    patch.setitem(says, Task, wrong)


@bug("at most once", "rule 7", "502")
def a_lost_peer_counts_as_one_that_never_started(patch: pytest.MonkeyPatch) -> None:
    right = peers.lose

    def wrong(state: State, peer: Peer, why: str) -> None:
        afar.take_all_back(state, peer)
        right(state, peer, why)

    patch.setattr(peers, "lose", wrong)


@bug("I2")
def a_reply_goes_to_another_broker(patch: pytest.MonkeyPatch) -> None:
    right, seen = delivery.deliver, [0]

    def wrong(state: State, client: Session, message: TaskReply | Error, service: str) -> None:
        others = [peer.session for peer in state.network.linked() if peer.session not in (None, client)]
        seen[0] += client.dialect is PEER
        is_wrong = client.dialect is PEER and bool(others) and seen[0] % 10 == 0
        right(state, others[0] or client if is_wrong else client, message, service)

    patch.setattr(delivery, "deliver", wrong)


@bug("I7")
def a_disabled_broker_still_dispatches(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State) -> dict[str, Any]:
        state.effects.append(Persist("disabled"))
        return {"state": "disabled"}

    patch.setattr(modes, "disable", wrong)


@bug("I6")
def a_config_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    right = config_service._apply

    def wrong(state: State, *arguments: Any, **named: Any) -> None:
        right(state, *arguments, **named)
        state.effects = [effect for effect in state.effects if not isinstance(effect, KeepConfig)]

    patch.setattr(config_service, "_apply", wrong)


@bug("I6")
def a_newer_config_is_not_fetched(patch: pytest.MonkeyPatch) -> None:
    right = config_service.heard

    def wrong(state: State, identity: str, version: bytes) -> None:
        if state.mode == "joining":
            right(state, identity, version)

    patch.setattr(config_service, "heard", wrong)


@bug("I6")
def a_change_that_lost_is_not_told(patch: pytest.MonkeyPatch) -> None:
    right = config_service._apply

    def wrong(state: State, *arguments: Any, is_lost: bool = False) -> None:
        right(state, *arguments)

    patch.setattr(config_service, "_apply", wrong)
    patch.setattr(config_service, "_losers", lambda state, known: [])
    patch.setattr(config_service, "_remember_lost", lambda *arguments: None)


@bug("I8")
def workers_are_moved_again_and_again(patch: pytest.MonkeyPatch) -> None:
    right = groups._balance

    def balance(state: State) -> None:
        state.network.balance_until_s = state.now + 1.0
        right(state)

    patch.setattr(groups, "_balance", balance)
    patch.setattr(groups, "surplus", lambda counts, own: [(other, 1) for other in counts if other != own][:1])


@bug("rule 27")
def one_who_was_tried_is_named_again(patch: pytest.MonkeyPatch) -> None:
    right = groups.pick

    def wrong(
        state: State, services: list[str], role: Role, tried: list[str] | None = None, *, may_be_us: bool = True
    ) -> BrokerEntry | None:
        return right(state, services, role, may_be_us=may_be_us)

    patch.setattr(groups, "pick", wrong)


@bug("rule 28")
def a_fallback_group_is_asked_before_the_own(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State, entry: Entry) -> Worker | None:
        may_be_sent = state.mode != "disabled" and not entry.is_forwarded
        return max(entry.service.afar_lru, key=lambda worker: worker.tier, default=None) if may_be_sent else None

    patch.setattr(afar, "pick", wrong)


@bug("shares")
def a_newcomer_gets_no_share(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(groups, "surplus", lambda counts, own: [])


@bug("one link")
def a_link_is_not_hung_up(patch: pytest.MonkeyPatch) -> None:
    right = dialing.hang_up

    def wrong(state: State, link: Dialing, *, is_failure: bool) -> None:
        right(state, link, is_failure=is_failure)
        state.effects = [effect for effect in state.effects if not isinstance(effect, HangUp)]

    patch.setattr(dialing, "hang_up", wrong)


@bug("I14")
def a_lost_link_is_not_dialed_again(patch: pytest.MonkeyPatch) -> None:
    right = dialing.lacks_link

    def wrong(peer: Peer) -> bool:
        return right(peer) and peer.session is None

    patch.setattr(dialing, "lacks_link", wrong)


@pytest.mark.parametrize("name", sorted(bug.by_name))
def test_a_planted_bug_between_brokers_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.must_be_found(name, monkeypatch, SEEDS, STEPS)
