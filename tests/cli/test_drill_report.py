"""How a drill's report reads, and which exit code it ends with."""

from __future__ import annotations

from scale0.cli import drill_report
from scale0.cli.drill_ledger import Ledger, Outcome
from scale0.cli.drill_report import Report
from scale0.cli.failures import Exit

TIMEOUT_S = 1.0


def make(ledger: Ledger, aborted_by: str = "", *, was_struck: bool = True) -> Report:
    return drill_report.make(
        ledger,
        drill="kill-broker",
        victim="eu-2",
        noticed_s=11.0 if was_struck else None,
        noticed_by="another broker",
        mended_s=None,
        aborted_by=aborted_by,
        was_struck=was_struck,
    )


def played(*, recovered_s: float | None = 12.0) -> Ledger:
    """One task in flight, taken over by another broker; one error; one reply afterwards."""
    ledger = Ledger(1.0)
    ledger.strike(10.0)
    for number, (sent_s, settled_s, outcome) in enumerate(
        [
            (8.0, 8.1, Outcome(via="a")),
            (9.9, 10.8, Outcome(via="b")),
            (10.5, 11.5, Outcome(502, via="b")),
            (12.5, 12.6, Outcome(via="b")),
        ]
    ):
        ledger.send(number, sent_s, "a" if sent_s < 10.0 else "b", TIMEOUT_S)
        ledger.settle(number, settled_s, outcome)
    ledger.recovered_s = recovered_s
    return ledger


def text_of(report: Report) -> str:
    return "\n".join(line.plain for line in drill_report.draw(report))


def test_nothing_lost_and_recovered_is_good() -> None:
    report = make(played())
    assert report.exit_code() == Exit.GOOD
    shown = text_of(report)
    assert "1 task in flight, 0 lost; recovered after 2.0 s" in shown
    assert "0.000 s  the fault struck" in shown
    assert "1.500 s  first error" in shown
    assert "1.000 s  noticed by another broker" in shown
    assert "error 502: worker lost" in shown


def test_planted_loss_is_told_and_ends_badly() -> None:
    ledger = played()
    ledger.send(99, 9.95, "a", TIMEOUT_S)  # nobody ever speaks of it
    report = make(ledger)
    assert report.lost == 1
    assert report.tasks["in flight"] == {"rerouted": 1, "lost": 1}
    assert report.exit_code() == Exit.BAD_ANSWER
    assert "2 tasks in flight, 1 lost" in text_of(report)
    assert "lost: no broker said a word of it" in text_of(report)


def test_wrong_reply_ends_badly() -> None:
    ledger = played()
    ledger.send(99, 13.0, "b", TIMEOUT_S)
    ledger.settle(99, 13.1, Outcome(via="b", is_right=False))
    report = make(ledger)
    assert (report.wrong, report.exit_code()) == (1, Exit.BAD_ANSWER)
    assert "1 answered wrongly" in text_of(report)


def test_network_that_does_not_recover_ends_badly() -> None:
    report = make(played(recovered_s=None))
    assert report.exit_code() == Exit.BAD_ANSWER
    assert "not recovered" in text_of(report)


def test_aborted_drill_has_a_code_of_its_own_and_names_the_condition() -> None:
    report = make(played(), "p99>2s")
    assert report.exit_code() == Exit.ABORTED
    assert "aborted: p99>2s" in text_of(report)


def test_drill_that_struck_nothing_says_so() -> None:
    ledger = Ledger(1.0)
    ledger.send(1, 1.0, "a", TIMEOUT_S)
    ledger.settle(1, 1.1, Outcome(via="a"))
    report = make(ledger, "interrupted", was_struck=False)
    assert report.tasks["before"] == {"replied": 1}
    assert report.timeline == drill_report.Timeline()
    assert "nothing was struck" in text_of(report)


def test_document_has_the_same_figures_with_their_units() -> None:
    document = make(played()).document()
    assert document["schema"] == "scale0.drill/1"
    assert (document["exit_code"], document["lost"], document["wrong"]) == (0, 0, 0)
    assert document["timeline"]["recovered_s"] == 2.0
    assert document["tasks"]["in flight"] == {"rerouted": 1}
    assert document["latency"]["before"]["p50_ms"] == 100.0
