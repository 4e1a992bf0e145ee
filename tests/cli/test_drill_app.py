"""What can be typed after `scale0 drill`, and what is refused before any broker is asked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from scale0.cli import drill_app, main
from scale0.cli.drill import TASKS_MAX, Terms
from scale0.cli.drill_load import SERVICE, Ask
from scale0.cli.failures import Exit
from scale0.errors import UsageError

NOBODY = "tcp://127.0.0.1:9"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["partition", "eu-1", "--dry-run"], "between two brokers"),
        (["kill-worker", "--body", "1"], "--service"),
        (["kill-worker", "--service", "greet", "--body", "{"], "JSON"),
        (["kill-worker", "--rate", "fast"], "200/s"),
        (["kill-worker", "--abort-if", "late"], "errors>5%"),
        (["kill-broker", "--for", "soon"], "10s"),
        (["kill-broker", "--signal", "HUP"], "KILL"),
        (["partition", "eu-1", "eu-2"], "SCALE0_AUTH_ID"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALE0_AUTH_ID", raising=False)
    monkeypatch.delenv("SCALE0_AUTH_FILE", raising=False)
    assert main.main(["drill", *words, "--broker", NOBODY]) == Exit.USAGE
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("command", ["kill-broker", "kill-worker", "partition"])
def test_every_drill_has_the_shared_options_and_its_own(command: str) -> None:
    result = CliRunner().invoke(main.app, ["drill", command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for option in ("--rate", "--abort-if", "--dry-run", "--yes", "--json", "--service", "--for"):
        assert option in result.stdout
    assert ("--one-way" in result.stdout) == (command == "partition")


def test_terms_are_what_was_typed() -> None:
    typed = drill_app.Typed(rate="50/s", timeout="2s", before="1s", limit="9s", abort_if=["lost>0"])
    terms = typed.terms()
    assert terms.ask == Ask(50.0, 2.0, SERVICE)
    assert (terms.before_s, terms.limit_s) == (1.0, 9.0)
    assert [condition.text for condition in terms.conditions] == ["lost>0"]
    own = drill_app.Typed(service="greet", body='["Ada"]').terms()
    assert (own.ask.service, own.ask.args, own.ask.has_echo) == ("greet", ["Ada"], False)


def test_drill_of_more_tasks_than_can_be_kept_is_refused() -> None:
    Terms(Ask(rate_per_s=100.0)).check(10.0)
    with pytest.raises(UsageError, match="lower --rate"):
        Terms(Ask(rate_per_s=float(TASKS_MAX))).check(10.0)
