"""`scale0 config check` and `scale0 config convert`, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.cli.config_command import text_of
from scale0.cli.config_files import check, convert
from scale0.cli.failures import Exit
from scale0.errors import UsageError
from scale0.transport import settings_file

NETWORK = """network = "prod"
[[brokers]]
identity = "eu-1"
group = "eu"
[[brokers]]
identity = "us-1"
group = "us"
[[brokers]]
identity = "us-2"
group = "us"
[service.render]
timeout = 5
[service.ocr]
"""

Capture = pytest.CaptureFixture[str]


def write(directory: Path, text: str, name: str = "network.toml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_a_good_file_is_said_to_be_good_and_what_it_describes(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, NETWORK)
    assert check(path) is Exit.GOOD
    assert capsys.readouterr().out == f"{path}: good: network prod, 3 brokers in 2 groups, 2 services\n"


def test_a_short_file_is_good_too(tmp_path: Path, capsys: Capture) -> None:
    assert check(write(tmp_path, 'identity = "x"\n[[brokers]]\nidentity = "x"\n')) is Exit.GOOD
    assert capsys.readouterr().out.endswith("good: network scale0, 1 broker, 0 services\n")


def test_every_mistake_is_told_with_file_line_and_key(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "livenes = 3\ngrace = true\n")
    assert check(path) is Exit.BAD_ANSWER
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"error: {path}, line 1: livenes: unknown key; did you mean liveness?\n"
        f"error: {path}, line 2: grace: True is not a number\n"
    )


def test_rules_of_the_network_are_checked_with_their_lines(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, NETWORK.replace('identity = "us-2"', 'identity = "us-1"'))
    assert check(path) is Exit.BAD_ANSWER
    assert f"{path}, line 8: broker.us-1: listed twice" in capsys.readouterr().err


def test_what_is_no_settings_file_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        check(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="ends in"):
        check(write(tmp_path, "", "network.yaml"))


def test_a_file_passes_through_all_formats_and_stays_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, NETWORK)
    first = settings_file.load(path).document
    for to in ("json", "xml", "zpl", "toml"):
        out = tmp_path / f"converted.{to}"
        assert convert(path, to, out) is Exit.GOOD
        assert settings_file.load(out).document == first
        path = out


def test_zfl_is_the_earlier_name_of_zpl_for_files_and_options(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "network = prod\n", "network.zfl")
    assert check(path) is Exit.GOOD
    capsys.readouterr()
    assert convert(path, "zfl", None) is Exit.GOOD
    assert capsys.readouterr().out == 'network = "prod"\n'
    assert convert(path, "zfl", tmp_path / "again.zfl") is Exit.GOOD
    assert text_of(settings_file.load(path).document, "zfl") == 'network = "prod"\n'


def test_a_converted_file_goes_to_stdout_laid_out_for_people(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, 'network = "prod"\n')
    assert convert(path, "json", None) is Exit.GOOD
    assert capsys.readouterr().out == '{\n  "network": "prod"\n}\n'
    assert convert(path, "zpl", None) is Exit.GOOD
    assert capsys.readouterr().out == 'network = "prod"\n'


def test_local_keys_are_left_out_and_named(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, 'identity = "x"\nnetwork = "prod"\n[management]\nusers = "users.json"\n')
    assert convert(path, "json", None) is Exit.GOOD
    told = capsys.readouterr()
    assert told.err == (
        f"warning: {path}: left out, for they concern one broker's process alone: identity, management\n"
    )
    assert told.out == '{\n  "network": "prod"\n}\n'


def test_a_value_that_a_format_cannot_carry_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, '{"network": "\'#\\""}', "network.json")
    out = tmp_path / "network.zpl"
    assert convert(path, "zpl", out) is Exit.BAD_ANSWER
    assert "ZPL cannot carry it; use JSON or XML" in capsys.readouterr().err
    assert not out.exists()


def test_a_bad_file_is_not_converted(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "network.json"
    assert convert(write(tmp_path, "liveness = 0"), "json", out) is Exit.BAD_ANSWER
    assert "line 1: liveness: must be above 0" in capsys.readouterr().err
    assert not out.exists()


def test_wrong_usage_of_convert_says_what_is_right(tmp_path: Path) -> None:
    path = write(tmp_path, NETWORK)
    with pytest.raises(UsageError, match="there are json, xml, zpl, toml"):
        convert(path, "yaml", None)
    with pytest.raises(UsageError, match=r"end it in \.json"):
        convert(path, "json", tmp_path / "network.xml")
    with pytest.raises(UsageError, match="cannot be written"):
        convert(path, "json", tmp_path / "none" / "network.json")
