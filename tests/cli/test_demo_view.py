"""What the demo shows, from canned figures."""

from __future__ import annotations

from scale0.cli import demo_view
from scale0.cli.demo_load import Figures
from scale0.cli.demo_view import Snapshot
from tests.cli.canned import service, worker


def snapshot() -> Snapshot:
    return Snapshot(
        elapsed_s=6.0,
        seconds=18.0,
        endpoint="tcp://127.0.0.1:40000",
        figures={
            "greet": Figures(300.0, 900.0, 4_000.0, 2, 0),
            "render": Figures(0.0, None, None, 4, 1),
        },
        services=[service("greet", queued=3), service("render", queued=7)],
        workers=[
            worker("greet-1", services=["greet"], lru=2),
            worker("greet-2", services=["greet"], lru=1),
            worker("greet-3", services=["greet"], lru=None, state="full"),
        ],
        brokers=[
            {"identity": "demo-1", "state": "active", "workers": 3, "forwarded": 0},
            {"identity": "demo-2", "state": "gone", "workers": None, "forwarded": 1_204},
        ],
        trends={"greet": [0.0, 150.0, 300.0]},
        events=[(5.0, "bad", "render-1 killed")],
        totals=(1_000, 990, 1, 9),
    )


def test_the_live_screen_shows_rates_queue_and_lru_order() -> None:
    lines = [line.plain for line in demo_view.draw(snapshot(), None)]
    text = "\n".join(lines)
    [greet] = [line for line in lines if line.startswith("greet")]
    assert greet.split()[1] == "300"
    assert "● greet-2  ● greet-1  ● greet-3" in greet
    assert "✗ no worker" in text
    assert "1,000 submitted = 990 replied + 1 error + 9 open" in text
    assert "5.0 s  ✗ render-1 killed" in text
    assert "● demo-1 active, 3 workers  ✗ demo-2 gone, 1,204 tasks passed on to it" in text


def test_a_narrow_screen_keeps_the_figures() -> None:
    lines = [line.plain for line in demo_view.draw(snapshot(), 60)]
    [greet] = [line for line in lines if line.startswith("greet")]
    assert "300" in greet
    assert len(greet) <= 60


def test_a_pipe_gets_one_line_with_the_same_figures() -> None:
    line = demo_view.draw_plain(snapshot()).plain
    assert "greet 300/s p50 0.9 p99 4 ms queued 3 errors 0 lru greet-2 greet-1 greet-3" in line
    assert "render 0/s p50 – p99 – ms queued 7 errors 1 lru –" in line
    assert "\n" not in line


def test_a_trend_is_scaled_to_its_highest_point() -> None:
    assert demo_view.trend([0, 50, 100]).rstrip() == "▁▅█"
    assert demo_view.trend([]).strip() == ""
    assert demo_view.trend([0, 0]).rstrip() == "▁▁"
