"""A bound in bytes for peers that do not read."""

from __future__ import annotations

from scale0.transport.unread import Unread


class Tracker:
    done = False


def test_peer_that_reads_nothing_has_no_room_beyond_its_limit() -> None:
    unread = Unread(peer_max=100)
    trackers = [Tracker(), Tracker()]
    for tracker in trackers:
        assert unread.has_room(b"a", 50)
        unread.add(b"a", 50, [tracker])
    assert not unread.has_room(b"a", 1)
    assert unread.has_room(b"b", 100), "another peer has its own limit"
    trackers[0].done = True
    assert unread.has_room(b"a", 50)
    assert not unread.has_room(b"a", 51)


def test_message_of_several_frames_is_read_when_all_of_them_are() -> None:
    unread = Unread(peer_max=100)
    first, second = Tracker(), Tracker()
    unread.add(b"a", 100, [first, second])
    first.done = True
    assert not unread.has_room(b"a", 1)
    second.done = True
    assert unread.has_room(b"a", 100)


def test_all_peers_together_have_a_limit_too() -> None:
    unread = Unread(peer_max=100, all_max=150)
    trackers = {name: Tracker() for name in (b"a", b"b")}
    unread.add(b"a", 100, [trackers[b"a"]])
    assert not unread.has_room(b"b", 60)
    trackers[b"a"].done = True
    assert unread.has_room(b"b", 60)


def test_who_has_read_everything_is_forgotten() -> None:
    unread = Unread()
    trackers = [Tracker() for _ in range(10)]
    for number, tracker in enumerate(trackers):
        unread.add(bytes((number,)), 10, [tracker])
        tracker.done = True
    unread.forget_read()
    assert unread.bytes == 0
    assert not unread._held
