"""`scale0 config show` and `diff` over canned answers."""

from __future__ import annotations

import io
import json
import tomllib
from pathlib import Path

import pytest

from scale0.cli import config_command
from scale0.cli.failures import Exit
from scale0.cli.render import Page
from scale0.errors import UsageError
from scale0.protocol import documents
from scale0.protocol.network import Document
from tests.cli.canned import config, document, listing, network_broker, past_config

ANSWERS = {
    "scale0.config": listing("config", config()),
    "scale0.config_history": listing(
        "config_history",
        past_config("1.42.00c0ffee", "current"),
        past_config("1.41.0badcafe", document=document(liveness=9)),
    ),
    "scale0.network": listing("network", network_broker("eu-1"), network_broker("eu-2", workers=9)),
}


def ask(service: str) -> bytes:
    return ANSWERS[service]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def shown(to: str | None = None, version: str | None = None, *, is_json: bool = False) -> str:
    file = io.StringIO()
    assert config_command.show(ask, to, version, is_json, file) == Exit.GOOD
    return file.getvalue()


def test_what_is_shown_is_a_file_that_can_be_applied() -> None:
    text = shown()
    assert text.splitlines()[:2] == [
        "# prod 1.42.00c0ffee: 3 brokers run it",
        "# by ops at 2024-05-01 12:00:00 UTC: a third broker",
    ]
    assert tomllib.loads(text)["network"] == "prod"


@pytest.mark.parametrize("to", ["json", "xml", "zpl", "toml"])
def test_a_format_gives_the_document_alone(to: str) -> None:
    told = documents.read(shown(to).encode(), to.upper(), Document, "shown").value
    assert told == documents.decode(json.dumps(document()).encode(), "JSON", Document)


def test_an_older_version_is_shown_from_the_history() -> None:
    text = shown(version="41")
    assert text.startswith("# prod 1.41.0badcafe: past\n")
    assert tomllib.loads(text)["liveness"] == 9


def test_json_is_the_brokers_answer() -> None:
    assert json.loads(shown(is_json=True)) == json.loads(ANSWERS["scale0.config"])
    assert [row["version"] for row in json.loads(shown(version="41", is_json=True))["rows"]] == ["1.41.0badcafe"]


def test_json_and_a_format_exclude_one_another() -> None:
    with pytest.raises(UsageError, match="give one of them"):
        config_command.show(ask, "toml", None, True, io.StringIO())


def test_a_file_gets_the_document_as_it_is_and_a_terminal_nothing_that_it_obeys() -> None:
    hostile = listing("config", config(comment="\x1b[2J", document=document(network="größe")))
    piped = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    config_command.show(lambda _service: hostile, "toml", None, False, piped)
    piped.seek(0)
    assert 'network = "größe"' in piped.buffer.read().decode()
    terminal = Terminal()
    config_command.show(lambda _service: hostile, None, None, False, terminal)
    assert "\x1b[2J" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"behind": ["eu-2"]}, "2 brokers run it, eu-2 is behind"),
        ({"behind": ["eu-2", "us-1"]}, "1 broker runs it, eu-2, us-1 are behind"),
        ({"unknown": ["us-1"]}, "2 brokers run it, us-1 cannot be asked"),
    ],
)
def test_it_is_told_who_runs_it(changes: dict[str, list[str]], told: str) -> None:
    answer = listing("config", config(**changes))
    file = io.StringIO()
    config_command.show(lambda _service: answer, None, None, False, file)
    assert file.getvalue().splitlines()[0].endswith(told)


# --- diff ---------------------------------------------------------------------------------------------------------


def differing(before: str, after: str | None = None, *, is_checking: bool = False) -> tuple[Exit, list[str]]:
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    code = config_command.diff(ask, before, after, is_checking, Page(file))
    file.seek(0)
    return code, file.read().splitlines()


def test_two_versions_are_compared() -> None:
    assert differing("41", "42") == (Exit.GOOD, ["● 1.41.0badcafe → 1.42.00c0ffee: 1 change", "liveness 9 → 3"])


def test_one_version_is_compared_with_what_runs() -> None:
    assert differing("41") == differing("41", "42")


def test_versions_that_say_the_same_have_no_difference() -> None:
    assert differing("42", is_checking=True) == (Exit.GOOD, ["● 1.42.00c0ffee and 1.42.00c0ffee say the same"])


def test_check_turns_a_difference_into_an_exit_code() -> None:
    assert differing("41", is_checking=True)[0] == Exit.BAD_ANSWER


def test_a_file_is_what_would_come_after_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    wanted = document()
    wanted["brokers"][1]["state"] = "disabled"
    path.write_text(json.dumps(wanted))
    _code, lines = differing(str(path))
    assert lines == [
        f"! 1.42.00c0ffee → {path}: 1 change",
        "broker.eu-2.state active → disabled  ! 9 workers move",
    ]


def test_two_files_need_no_broker(tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.zpl"
    one.write_text('network = "prod"\n')
    two.write_text("network = next\n")
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert config_command.diff_files(one, two, False, Page(file)) == Exit.GOOD
    file.seek(0)
    assert file.read().splitlines()[1] == "network prod → next"
