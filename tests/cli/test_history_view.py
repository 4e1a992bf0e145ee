"""The history of the config as it is listed."""

from __future__ import annotations

from scale0.cli import listings
from scale0.cli.history_view import HISTORY
from scale0.cli.views import Row
from tests.cli.canned import document, listing, past_config


def drawn(*rows: Row, is_wide: bool = False) -> list[str]:
    lines = listings.draw(listings.parse(listing("config_history", *rows)), HISTORY, width=None, is_wide=is_wide)
    return [line.plain for line in lines]


def test_each_version_says_what_it_changed() -> None:
    newest = document(liveness=4, service=[{"name": "render", "timeout": 5.0}])
    rows = [
        past_config("1.42.00c0ffee", "current", document=newest, comment="faster"),
        past_config("1.41.0badcafe", document=document(liveness=4), comment=""),
        past_config("1.40.0000beef", author="file", comment="first", time_us=0),
    ]
    assert drawn(*rows) == [
        "● prod: 3 versions, v42 current",
        "VERSION STATE     TIME UTC            AUTHOR CHANGES                       COMMENT",
        "v42     ● current 2024-05-01 12:00:00 ops    service.render.timeout 10 → 5 faster",
        "v41     ○ past    2024-05-01 12:00:00 ops    liveness 3 → 4                –",
        "v40     ○ past    –                   file   –                             first",
    ]


def test_several_changes_are_counted() -> None:
    newest = document(liveness=4, network="next")
    rows = [past_config("1.2.aaaaaaaa", "current", document=newest), past_config("1.1.bbbbbbbb")]
    assert "network prod → next and 1 more" in drawn(*rows)[2]


def test_a_version_that_lost_is_a_warning_and_can_be_looked_at() -> None:
    rows = [
        past_config("1.42.00c0ffee", "current"),
        past_config("1.42.0000beef", "lost", document=document(liveness=9)),
        past_config("1.41.0badcafe"),
    ]
    lines = drawn(*rows)
    assert lines[0] == "! prod: 3 versions, v42 current, 1 lost in a partition"
    assert "liveness 3 → 9" in lines[3]  # against v41, which both sides knew
    assert lines[-1] == "Next: scale0 config diff 1.42.0000beef   (what was lost)"


def test_a_document_that_cannot_be_read_shows_no_changes() -> None:
    rows = [past_config("1.2.aaaaaaaa", "current", document={"from_the_future": 1}), past_config("1.1.bbbbbbbb")]
    assert "v2 " in drawn(*rows)[2]
    assert drawn(*rows, is_wide=True)[2].endswith("1.2.aaaaaaaa")
