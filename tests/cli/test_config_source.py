"""Versions as people write them, documents from files and from the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.cli import config_source
from scale0.errors import ProtocolError, SettingsError, UsageError
from scale0.protocol.network import Document
from tests.cli.canned import config, document, listing, past_config

HISTORY = [
    past_config("2.1.aaaaaaaa", "current"),
    past_config("1.42.00c0ffee"),
    past_config("1.41.0badcafe"),
    past_config("1.41.deadbeef", "lost"),
    past_config("1.40.0000beef"),
    past_config("1.1.11111111"),
]


@pytest.mark.parametrize(
    ("word", "version"),
    [
        ("42", "1.42.00c0ffee"),
        ("v42", "1.42.00c0ffee"),
        ("1.40", "1.40.0000beef"),
        ("2.1", "2.1.aaaaaaaa"),
        ("41", "1.41.0badcafe"),  # the other one is lost
        ("1.41.dead", "1.41.deadbeef"),
        ("1.41.0badcafe00000000", "1.41.0badcafe"),
        ("V1.42", "1.42.00c0ffee"),
    ],
)
def test_a_version_is_found_by_what_people_write(word: str, version: str) -> None:
    assert config_source.find(HISTORY, word)["version"] == version


def test_a_word_that_may_mean_several_versions_is_refused() -> None:
    with pytest.raises(UsageError, match=r"1 may be any of 2\.1\.aaaaaaaa, 1\.1\.11111111"):
        config_source.find(HISTORY, "1")


@pytest.mark.parametrize("word", ["43", "3.42", "1.42.ffff", "4"])
def test_an_unknown_version_says_what_there_is(word: str) -> None:
    with pytest.raises(UsageError, match=r"from 1\.1\.11111111 to 2\.1\.aaaaaaaa"):
        config_source.find(HISTORY, word)


@pytest.mark.parametrize("word", ["network.toml", "a/b.ZPL", "x.json", "../n.xml", "41.toml"])
def test_a_file_is_known_by_its_end(word: str) -> None:
    assert config_source.is_file(word)


@pytest.mark.parametrize("word", ["41", "v41", "1.41", "1.41.ab"])
def test_a_version_is_no_file(word: str) -> None:
    assert not config_source.is_file(word)


@pytest.mark.parametrize("word", ["network", "1.2.3.4", "network.yaml", "", "1.41.xyz"])
def test_what_is_neither_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(UsageError, match=r"42, 1\.42 or"):
        config_source.is_file(word)


def test_what_runs_is_read_from_the_brokers_answer() -> None:
    answer = listing("config", config(behind=["eu-2"], unknown=["us-1"]))
    now = config_source.running(lambda _service: answer)
    assert (now.version, now.network, now.brokers) == ("1.42.00c0ffee", "prod", 3)
    assert (now.behind, now.unknown) == (["eu-2"], ["us-1"])
    assert now.document.service[0].timeout_s == 10


@pytest.mark.parametrize("rows", [[], [config(), config()], [{"version": "1.1.aa"}]])
def test_an_answer_without_a_config_is_refused(rows: list[dict[str, object]]) -> None:
    with pytest.raises(ProtocolError):
        config_source.running(lambda _service: listing("config", *rows))


def test_a_document_that_cannot_be_read_here_is_refused_with_its_version() -> None:
    answer = listing("config", config(document=document(from_the_future=1)))
    with pytest.raises(ProtocolError, match=r"1\.42\.00c0ffee cannot be read here.*from_the_future"):
        config_source.running(lambda _service: answer)


def test_a_file_gives_its_document_and_says_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "network.toml"
    path.write_text('network = "prod"\nidentity = "eu-1"\n')
    source = config_source.read_file(path)
    assert (source.name, source.document) == (str(path), Document(network="prod"))
    assert "identity" in capsys.readouterr().err


def test_a_file_of_one_brokers_process_alone_is_no_document(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('identity = "eu-1"\n')
    with pytest.raises(UsageError, match="says nothing of the network's config: identity concerns one broker"):
        config_source.read_file(path)
    path.write_text("")
    assert config_source.read_file(path).document == Document(), "nothing at all: everything as by default"


def test_a_bad_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text('network = "prod"\nliveness = 0\n')
    with pytest.raises(SettingsError, match=r"line 2: liveness"):
        config_source.read_file(path)


def test_a_version_is_read_from_the_history() -> None:
    asked: list[str] = []

    def ask(service: str) -> bytes:
        asked.append(service)
        return listing("config_history", *HISTORY)

    assert config_source.read("42", ask).name == "1.42.00c0ffee"
    assert asked == ["scale0.config_history"]
