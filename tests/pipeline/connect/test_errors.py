"""A client that cannot connect is told why, at once, and what to do."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from scale0_pipeline import connect, session
from scale0_pipeline.errors import PipelineError


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(PipelineError, match=f"no Spark Connect server at sc://127.0.0.1:{port}") as raised:
        connect.connect(f"sc://127.0.0.1:{port}", "test")
    assert "start-connect-server.sh" in raised.value.cure


def test_an_address_that_is_none_is_told_too() -> None:
    with pytest.raises(PipelineError, match=r"sc://127\.0\.0\.1:many"):
        connect.connect("sc://127.0.0.1:many", "test")


def test_without_its_packages_the_error_says_how_to_add_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pyspark.sql.connect")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    # A process of xdist has a main module without a file; pyspark takes that for a doctest, and ends it.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    monkeypatch.setattr(session, "current_session", lambda: None)
    with pytest.raises(PipelineError, match=r"Spark Connect is not installed here: .*grpc") as raised:
        session.spark_session("sc://127.0.0.1:15002")
    assert "scale0[connect]" in raised.value.cure


def test_code_goes_to_a_server_as_an_artifact(tmp_path: Path) -> None:
    class Remote:
        sent: tuple[str, bool] = ("", False)

        def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802
            self.sent = (path, pyfile)

    Remote.__module__ = "pyspark.sql.connect.session"
    remote = Remote()
    path = session.ship_code(remote, tmp_path)  # type: ignore[arg-type]
    assert remote.sent == (str(path), True)
