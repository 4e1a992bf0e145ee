"""`scale0 keys`: files and the list of allowed keys, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scale0.cli import keys_command
from scale0.cli.failures import Exit
from scale0.cli.main import main
from scale0.core.permissions import Permission, read_time
from scale0.errors import UsageError
from scale0.transport import allowed_file, key_files


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "scale0"


def secrets_of(home: Path) -> list[str]:
    files = [json.loads(path.read_text()) for path in (home / "keys").glob("*.key")]
    return [file[name] for file in files for name in ("secret", "next_secret") if name in file]


def listed(home: Path) -> list[Permission]:
    return allowed_file.load(home / "allowed.json")


def public(name: str) -> str:
    return key_files.load(key_files.path_of(name)).public


def test_a_new_key_is_a_private_file_and_the_next_command_is_told(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "pay", "--kind", "worker"]) == Exit.GOOD
    told = capsys.readouterr().out
    assert f"public key: {public('pay')}" in told
    assert f"scale0 keys allow '{public('pay')}' --name pay --kind worker" in told
    assert not any(secret in told for secret in secrets_of(home))
    assert (home / "keys" / "pay.key").stat().st_mode & 0o077 == 0
    assert main(["keys", "new", "pay"]) == Exit.USAGE, "it is not overwritten"


def test_a_broker_s_key_is_followed_by_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "new", "eu-1", "--kind", "peer"])
    told = capsys.readouterr().out
    assert "next: scale0 broker --key eu-1" in told
    assert f"--server-key '{public('eu-1')}'" in told


def test_show_prints_the_public_key_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "new", "pay"])
    capsys.readouterr()
    assert main(["keys", "show", "pay"]) == Exit.GOOD
    assert capsys.readouterr().out == f"{public('pay')}\n"
    main(["keys", "show", "pay", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["key"], told["kind"], told["next"]) == (public("pay"), "any", None)
    assert not any(secret in json.dumps(told) for secret in secrets_of(home))


def test_allowing_writes_an_entry_with_its_limits(home: Path) -> None:
    key = key_files.make_pair().public
    limits = ["--kind", "worker", "--serve", "pay", "--serve", "pay.*", "--identity", "pay-*"]
    assert main(["keys", "allow", key, "--name", "pay", *limits]) == Exit.GOOD
    (entry,) = listed(home)
    assert entry == Permission(
        key=key, name="pay", kind="worker", serve=["pay", "pay.*"], identities=["pay-*"], call=["*"]
    )


def test_allowing_again_adds_and_changes(home: Path) -> None:
    key = key_files.make_pair().public
    main(["keys", "allow", key, "--serve", "pay", "--name", "p"])
    main(["keys", "allow", "p", "--serve", "ocr", "--manage", "--kind", "worker"])
    (entry,) = listed(home)
    assert (entry.serve, entry.manage, entry.kind, entry.key) == (["pay", "ocr"], True, "worker", key)
    main(["keys", "allow", key, "--no-manage"])
    assert not listed(home)[0].manage


def test_a_key_of_this_machine_is_allowed_by_its_name(home: Path) -> None:
    main(["keys", "new", "pay", "--kind", "client"])
    main(["keys", "allow", "pay"])
    (entry,) = listed(home)
    assert (entry.key, entry.name, entry.kind) == (public("pay"), "pay", "client")


def test_a_key_may_have_an_end(home: Path) -> None:
    key = key_files.make_pair().public
    main(["keys", "allow", key, "--until", "2031-05-01T12:00:00Z"])
    assert listed(home)[0].until == "2031-05-01T12:00:00Z"
    main(["keys", "allow", key, "--until", "30d"])
    assert read_time(listed(home)[0].until) > 0
    assert main(["keys", "allow", key, "--until", "soon"]) == Exit.USAGE


def test_what_is_no_key_is_not_allowed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "allow", "nobody"]) == Exit.USAGE
    assert "scale0 keys show NAME" in capsys.readouterr().err
    assert listed(home) == []


def test_revoking_by_key_by_name_and_by_file(home: Path) -> None:
    keys = [key_files.make_pair().public for _ in range(3)]
    for number, key in enumerate(keys):
        main(["keys", "allow", key, "--name", "twice" if number else "once"])
    assert main(["keys", "revoke", keys[0]]) == Exit.GOOD
    assert main(["keys", "revoke", "twice"]) == Exit.GOOD
    assert listed(home) == []
    main(["keys", "new", "pay"])
    main(["keys", "allow", "pay", "--name", "other"])
    assert main(["keys", "revoke", "pay"]) == Exit.GOOD
    assert listed(home) == []
    assert main(["keys", "revoke", "pay"]) == Exit.USAGE, "there is nothing to revoke"


def test_the_list_is_shown_to_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "list"])
    assert "allow one: scale0 keys allow KEY" in capsys.readouterr().out
    key = key_files.make_pair().public
    main(["keys", "allow", key, "--name", "p", "--kind", "worker", "--until", "2020-01-01T00:00:00Z"])
    capsys.readouterr()
    main(["keys", "list"])
    told = capsys.readouterr().out
    assert key in told
    assert "ended 2020-01-01T00:00:00Z" in told
    main(["keys", "list", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in document["rows"]] == [key]


def test_a_participant_s_key_is_rotated_and_both_are_allowed(home: Path) -> None:
    main(["keys", "new", "pay", "--kind", "worker"])
    main(["keys", "allow", "pay", "--serve", "pay"])
    old = public("pay")
    assert main(["keys", "rotate", "pay", "--keep", "24h"]) == Exit.GOOD
    former, current = listed(home)
    assert (former.key, current.key) == (old, public("pay"))
    assert former.until
    assert not current.until
    assert (current.name, current.serve, current.kind) == ("pay", ["pay"], "worker")


def test_a_rotation_far_from_the_broker_tells_the_command_for_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["keys", "new", "pay"])
    old = public("pay")
    capsys.readouterr()
    main(["keys", "rotate", "pay", "--keep", "2h"])
    told = f"scale0 keys allow '{public('pay')}' --instead-of '{old}' --keep 2h"
    assert told in capsys.readouterr().out
    main(["keys", "allow", old, "--name", "pay"])
    assert main(["keys", "allow", public("pay"), "--instead-of", old, "--keep", "2h"]) == Exit.GOOD
    assert [entry.key for entry in listed(home)] == [old, public("pay")]


def test_a_rotation_never_lengthens_a_key_s_time(home: Path) -> None:
    key, new = key_files.make_pair().public, key_files.make_pair().public
    main(["keys", "allow", key, "--until", "2020-01-01T00:00:00Z"])
    main(["keys", "allow", new, "--instead-of", key])
    assert listed(home)[0].until == "2020-01-01T00:00:00Z"


def test_a_broker_s_rotation_keeps_both_keys_in_the_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "new", "eu-1", "--kind", "peer"])
    old = public("eu-1")
    capsys.readouterr()
    assert main(["keys", "rotate", "eu-1", "--keep", "24h"]) == Exit.GOOD
    file = key_files.load(key_files.path_of("eu-1"))
    assert file.public == old
    told = capsys.readouterr().out
    assert file.next_public in told
    assert f"restart the broker after {file.next_from}" in told
    assert not any(secret in told for secret in secrets_of(home))
    assert main(["keys", "rotate", "eu-1"]) == Exit.USAGE, "one rotation at a time"


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1y"])
def test_lengths_of_time_are_checked(text: str) -> None:
    with pytest.raises(UsageError, match="90s, 24h or 30d"):
        keys_command.lasting_s(text)
