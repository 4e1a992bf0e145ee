"""How long sessions last, and what ends them."""

from __future__ import annotations

from scale0.management.http.door import Principal
from scale0.management.http.sessions import IDLE_S, LIFETIME_S, SESSIONS_MAX, SESSIONS_PER_USER_MAX, Sessions, hashed
from scale0.management.vocabulary import Role

MARA = Principal("mara", Role.OPERATE, "http")


def with_stamps(**stamps: str) -> tuple[Sessions, dict[str, str]]:
    return Sessions(lambda user: stamps.get(user, "")), stamps


def test_a_session_is_found_by_its_id_alone_and_its_id_is_kept_nowhere() -> None:
    sessions, _ = with_stamps(mara="1")
    name = sessions.open(MARA, "1", 0.0)[0]
    assert len(name) >= 43  # 256 bits
    found = sessions.use(name, 1.0)
    assert found is not None
    assert found[1].principal == MARA
    assert found[0] == hashed(name)
    assert name not in repr(vars(sessions))
    assert sessions.use(name[:-1], 1.0) is None
    assert sessions.use("", 1.0) is None


def test_two_sessions_have_different_ids() -> None:
    sessions, _ = with_stamps(mara="1")
    assert len({sessions.open(MARA, "1", 0.0)[0] for _ in range(40)}) == 40


def test_a_session_ends_an_hour_after_its_last_use() -> None:
    sessions, _ = with_stamps(mara="1")
    name = sessions.open(MARA, "1", 0.0)[0]
    assert sessions.use(name, IDLE_S - 1) is not None
    assert sessions.use(name, 2 * IDLE_S - 2) is not None
    assert sessions.use(name, 3 * IDLE_S) is None
    assert len(sessions) == 0


def test_a_session_ends_twelve_hours_after_its_login_however_much_it_is_used() -> None:
    sessions, _ = with_stamps(mara="1")
    name = sessions.open(MARA, "1", 0.0)[0]
    for hour_s in range(0, int(LIFETIME_S), 1800):
        assert sessions.use(name, float(hour_s)) is not None
    assert sessions.use(name, LIFETIME_S) is None


def test_an_open_page_counts_as_use_and_a_look_does_not() -> None:
    sessions, _ = with_stamps(mara="1")
    key = hashed(sessions.open(MARA, "1", 0.0)[0])
    assert sessions.holds(key, IDLE_S - 1, is_used=True)
    assert sessions.holds(key, 2 * IDLE_S - 2)
    assert not sessions.holds(key, 2 * IDLE_S)


def test_a_changed_or_removed_user_has_no_session_any_more() -> None:
    for change in ({"mara": "2"}, {}):
        stamps = {"mara": "1"}
        sessions = Sessions(lambda user, stamps=stamps: stamps.get(user, ""))  # type: ignore[misc]
        name = sessions.open(MARA, "1", 0.0)[0]
        stamps.clear()
        stamps.update(change)
        sessions.sweep(1.0)
        assert len(sessions) == 0
        assert sessions.use(name, 1.0) is None


def test_a_session_of_a_token_does_not_depend_on_users() -> None:
    sessions, _ = with_stamps()
    assert sessions.use(sessions.open(MARA, None, 0.0)[0], 1.0) is not None


def test_a_session_that_was_closed_is_over() -> None:
    sessions, _ = with_stamps(mara="1")
    name = sessions.open(MARA, "1", 0.0)[0]
    sessions.close(hashed(name))
    assert sessions.use(name, 0.0) is None


def test_sessions_are_bounded_and_the_least_used_go_first() -> None:
    sessions, _ = with_stamps(mara="1")
    names = [sessions.open(MARA, "1", float(second))[0] for second in range(SESSIONS_PER_USER_MAX + 1)]
    assert len(sessions) == SESSIONS_PER_USER_MAX
    assert sessions.use(names[0], 100.0) is None
    assert sessions.use(names[1], 100.0) is not None
    for number in range(SESSIONS_MAX + 10):
        sessions.open(Principal(f"user-{number}", Role.VIEW, "http"), None, 200.0)
    assert len(sessions) == SESSIONS_MAX


def test_whoever_opens_a_session_too_many_learns_which_were_ended() -> None:
    sessions, _ = with_stamps(mara="1")
    opened = [sessions.open(MARA, "1", float(second)) for second in range(SESSIONS_PER_USER_MAX)]
    assert all(ended == [] for _, ended in opened)
    sessions.use(opened[0][0], 100.0)
    _, ended = sessions.open(MARA, "1", 101.0)
    assert [(session.principal, session.begun_s) for session in ended] == [(MARA, 1.0)]
