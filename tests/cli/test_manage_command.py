"""Credentials and arguments of `scale0 manage`."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.cli import manage_command
from scale0.cli.failures import Exit
from scale0.errors import UsageError


def test_credentials_come_from_the_environment() -> None:
    found = manage_command.read_credentials(None, {"SCALE0_AUTH_ID": "ops", "SCALE0_AUTH_PASSWORD": "secret"})
    assert (found.auth_id, found.auth_password) == ("ops", "secret")


def test_a_password_is_not_shown_when_credentials_are() -> None:
    assert "secret" not in repr(manage_command.Credentials("ops", "secret"))


def test_missing_credentials_are_explained() -> None:
    with pytest.raises(UsageError, match="SCALE0_AUTH_ID"):
        manage_command.read_credentials(None, {})


def test_credentials_come_from_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text("ops:se:cret\n")
    file.chmod(0o600)
    assert manage_command.read_credentials(file).auth_password == "se:cret"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text("ops:secret")
    file.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        manage_command.read_credentials(file)


@pytest.mark.parametrize("content", ["", "ops", ":secret", "ops:"])
def test_a_file_without_credentials_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "auth"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(UsageError, match="id:password"):
        manage_command.read_credentials(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        manage_command.read_credentials(tmp_path / "nowhere")


def test_arguments_are_json_or_text() -> None:
    words = ["what=workers", "limit=10", "force=true", "text=a=b"]
    assert manage_command.read_arguments(words) == {"what": "workers", "limit": 10, "force": True, "text": "a=b"}


@pytest.mark.parametrize(
    ("command", "word", "arguments"),
    [
        ("list", "network", {"what": "network"}),
        ("failback", "eu-1", {"broker": "eu-1"}),
        ("config_rollback", "41", {"version": "41"}),
    ],
)
def test_a_word_without_a_key_means_the_commands_usual_argument(
    command: str, word: str, arguments: dict[str, str]
) -> None:
    assert manage_command.read_arguments([word], command) == arguments


def test_a_version_is_text_even_where_it_looks_like_a_number() -> None:
    assert manage_command.read_arguments(["version=1.40"]) == {"version": "1.40"}


def test_an_argument_that_comes_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="what is given twice"):
        manage_command.read_arguments(["workers", "what=clients"], "list")


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([Exit.GOOD, Exit.GOOD], Exit.GOOD),
        ([Exit.GOOD, Exit.UNREACHABLE], Exit.PARTIAL),
        ([Exit.REFUSED, Exit.UNREACHABLE], Exit.REFUSED),
    ],
)
def test_several_brokers_may_succeed_in_part(ends: list[Exit], code: Exit) -> None:
    assert manage_command.overall(ends) == code


@pytest.mark.parametrize("word", ["workers", "=1"])
def test_an_argument_without_a_key_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="key=value"):
        manage_command.read_arguments([word])
