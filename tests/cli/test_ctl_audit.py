"""ctl audit --verify: a chain that is whole, one that is not, and where the files are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scale0.cli import ctl_audit
from scale0.cli.failures import Exit
from scale0.errors import UsageError
from scale0.management.audit import Audit, Record

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    audit = Audit(path)
    for command in ("drain", "enable", "disable"):
        audit.write(
            [
                Record(
                    at="2024-05-01T12:00:00Z",
                    user="ops",
                    role="admin",
                    door="http",
                    source="::1",
                    command=command,
                    outcome="done",
                    code=200,
                )
            ]
        )
    audit.close()
    return path


def test_a_whole_chain_is_told_with_its_last_hash(log: Path, capsys: Capture) -> None:
    assert ctl_audit.verify(str(log), False) == Exit.GOOD
    out = capsys.readouterr().out
    assert "● 3 records in " in out
    assert f"last: 3 {json.loads(log.read_text().splitlines()[-1])['hash']}" in out


def test_a_changed_line_breaks_it_and_is_named(log: Path, capsys: Capture) -> None:
    log.write_text(log.read_text().replace("enable", "elbane"))
    assert ctl_audit.verify(str(log), False) == Exit.BAD_ANSWER
    assert "audit.log:2: this line was changed" in capsys.readouterr().out
    assert ctl_audit.verify(str(log), True) == Exit.BAD_ANSWER
    assert json.loads(capsys.readouterr().out)["is_good"] is False


def test_the_logs_of_this_accounts_brokers_are_found(log: Path, tmp_path: Path, capsys: Capture) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with pytest.raises(UsageError, match="--file"):
        ctl_audit.verify(None, False, environ)
    for place in (tmp_path / "state/scale0/brokers/eu-1/audit.log", tmp_path / "config/scale0/audit-eu-2.log"):
        place.parent.mkdir(parents=True)
        place.write_bytes(log.read_bytes())
    assert ctl_audit.verify(None, False, environ) == Exit.GOOD
    assert capsys.readouterr().out.count("3 records") == 2


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        ctl_audit.verify(str(tmp_path / "nowhere"), False)
