from __future__ import annotations

from pathlib import Path

import pytest

from scale0.core.settings import BrokerSettings
from scale0.errors import SettingsError
from scale0.transport.settings_file import FILE_BYTES_MAX, convert, load

TOML = """
identity = "eu-1"
bind = "tcp://127.0.0.1:6000"
default_heartbeat_interval = 1.5
[limits]
sessions = 100
[service.render]
idempotent = true
timeout = 5
"""


def write(directory: Path, text: str, name: str = "broker.toml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def refused(directory: Path, text: str, name: str = "broker.toml") -> str:
    with pytest.raises(SettingsError) as caught:
        load(write(directory, text, name))
    return str(caught.value)


def test_toml_file_is_read_with_or_without_units(tmp_path: Path) -> None:
    settings = load(write(tmp_path, TOML))
    assert (settings.identity, settings.bind, settings.limits.sessions) == ("eu-1", "tcp://127.0.0.1:6000", 100)
    assert settings.default_heartbeat_interval_s == 1.5
    assert settings.service["render"].timeout_s == 5
    assert isinstance(settings, BrokerSettings)


def test_json_file_says_the_same(tmp_path: Path) -> None:
    text = '{"identity": "eu-1", "hbeatinterval": 1.5, "limits": {"sessions": 100}}'
    settings = load(write(tmp_path, text, "broker.json"))
    assert (settings.identity, settings.default_heartbeat_interval_s, settings.limits.sessions) == ("eu-1", 1.5, 100)


def test_unknown_key_names_file_line_and_near_names(tmp_path: Path) -> None:
    text = refused(tmp_path, 'identity = "x"\nlivenes = 3\n')
    assert "broker.toml, line 2" in text
    assert "did you mean liveness?" in text


def test_unknown_key_without_near_names_lists_what_is_allowed(tmp_path: Path) -> None:
    text = refused(tmp_path, "[management]\nzzz = 1\n")
    assert "line 2" in text
    assert "management.zzz" in text
    assert "allowed here: passwords" in text


def test_value_of_the_wrong_type_names_key_and_type(tmp_path: Path) -> None:
    text = refused(tmp_path, '[limits]\nsessions = "many"\n')
    assert "line 2" in text
    assert "limits.sessions" in text
    assert "expected `int`, got `str`" in text


@pytest.mark.parametrize("line", ["liveness = 0", "grace_s = -1.0", "[limits]\nsessions = 0", "max_clock_skew = inf"])
def test_number_that_is_not_above_zero_is_refused(tmp_path: Path, line: str) -> None:
    assert "must be above 0" in refused(tmp_path, line)


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("a = = 1", "broker.toml", "line 1"),
        ("{", "broker.json", "not JSON"),
        ("[1]", "broker.json", "expected `object`"),
        ("identity: x", "broker.yaml", "ends in .toml or .json"),
        ('identity = ""', "broker.toml", "must not be empty"),
        ("#" * (FILE_BYTES_MAX + 1), "broker.toml", "no settings file"),
    ],
)
def test_file_that_is_none_says_why(tmp_path: Path, text: str, name: str, told: str) -> None:
    assert told in refused(tmp_path, text, name)


def test_missing_file_and_wrong_encoding_say_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'identity = "\xff"')
    with pytest.raises(SettingsError, match="not UTF-8"):
        load(tmp_path / "latin.toml")


def test_keywords_are_converted_by_the_same_rules() -> None:
    assert convert({"service": {"pay": {"timeout": 3}}}, BrokerSettings).service["pay"].timeout_s == 3
    with pytest.raises(SettingsError, match=r"settings: unknown key identitty; did you mean identity\?"):
        convert({"identitty": "x"}, BrokerSettings)
