"""Replies that wait for a link."""

from __future__ import annotations

from scale0.core.kept_replies import LISTED_BYTES_MAX, KeptReplies, RecentReplies, fit_to_list
from scale0.protocol.limits import IN_FLIGHT_IDS_MAX
from scale0.protocol.messages import TaskId, TaskReply


def reply(name: str, size: int = 10, *, final: bool = True) -> TaskReply:
    return TaskReply(TaskId(name.encode()), (bytes(size),), final=final)


def names(replies: list[TaskReply]) -> list[bytes]:
    return [reply.id for reply in replies]


def test_replies_leave_in_the_order_in_which_they_were_made() -> None:
    kept = KeptReplies()
    for name in "abcd":
        kept.add(reply(name))
    assert names(kept.take(3)) == [b"a", b"b", b"c"]
    assert len(kept) == 1


def test_what_a_full_pipe_gave_back_leaves_first_and_in_order() -> None:
    kept = KeptReplies()
    for name in "abcd":
        kept.add(reply(name))
    for refused in kept.take(2):
        kept.give_back(refused)
    kept.add(reply("e"))
    assert names(kept.take(9)) == [b"a", b"b", b"c", b"d", b"e"]


def test_over_the_number_the_oldest_is_dropped() -> None:
    kept = KeptReplies(count_max=2)
    assert [kept.add(reply(name)) for name in "abc"] == [0, 0, 1]
    assert names(kept.take(9)) == [b"b", b"c"]


def test_over_the_bytes_as_many_are_dropped_as_needed() -> None:
    kept = KeptReplies(bytes_max=100)
    kept.add(reply("a", 40))
    kept.add(reply("b", 40))
    assert kept.add(reply("c", 90)) == 2
    assert names(kept.take(9)) == [b"c"]


def test_one_reply_is_kept_whatever_its_size() -> None:
    kept = KeptReplies(bytes_max=100)
    assert kept.add(reply("a", 1000)) == 0
    assert len(kept) == 1


def test_bytes_are_counted_out_again() -> None:
    kept = KeptReplies(bytes_max=100)
    for _ in range(50):
        assert kept.add(reply("a", 90)) == 0
        kept.take(1)


def test_tasks_with_a_final_reply_are_listed() -> None:
    kept = KeptReplies()
    kept.add(reply("a", final=False))
    kept.add(reply("b"))
    kept.give_back(reply("c"))
    assert kept.ids() == [b"c", b"b"]


def test_a_list_names_each_id_once_and_fits_its_frame() -> None:
    assert fit_to_list([TaskId(b"a"), TaskId(b"b"), TaskId(b"a")]) == [b"a", b"b"]
    long_ids = [TaskId(bytes(250) + number.to_bytes(4, "big")) for number in range(4000)]
    listed = fit_to_list(long_ids)
    assert LISTED_BYTES_MAX - 300 < sum(len(one) + 3 for one in listed) <= LISTED_BYTES_MAX
    short_ids = [TaskId(number.to_bytes(2, "big")) for number in range(5000)]
    assert len(fit_to_list(short_ids)) == IN_FLIGHT_IDS_MAX


# --- replies that have left lately ------------------------------------------------------------------------------------


def test_replies_that_left_lately_are_recalled_in_order_and_once() -> None:
    recent = RecentReplies()
    recent.add([reply("a")], 1.0)
    recent.add([reply("b"), reply("c")], 2.0)
    assert names(recent.take(1.5)) == [b"b", b"c"]
    assert names(recent.take(0.0)) == []
    assert len(recent) == 0


def test_recent_replies_are_bounded_in_number_and_in_bytes() -> None:
    recent = RecentReplies(count_max=2, bytes_max=25)
    recent.add([reply("a"), reply("b"), reply("c")], 1.0)
    assert names(recent.take(0.0)) == [b"b", b"c"]
    recent.add([reply("d", 10), reply("e", 20)], 1.0)
    assert names(recent.take(0.0)) == [b"e"]
    recent.add([reply("f", 26)], 1.0)
    assert len(recent) == 0, "one that is too large is not kept"


def test_recent_replies_tell_since_when_none_was_forgotten() -> None:
    recent = RecentReplies(count_max=2)
    recent.add([reply("a")], 1.0)
    recent.add([reply("b")], 2.0)
    assert recent.whole_since_s < 1.0
    recent.add([reply("c")], 3.0)
    assert recent.whole_since_s == 1.0


def test_bytes_of_recalled_replies_count_no_more() -> None:
    recent = RecentReplies(bytes_max=25)
    for _ in range(3):
        recent.add([reply("a", 20)], 1.0)
        assert names(recent.take(0.0)) == [b"a"]
    recent.add([reply("a", 20)], 1.0)
    recent.forget(0.0)
    recent.add([reply("b", 20)], 1.0)
    assert names(recent.take(0.0)) == [b"b"]
