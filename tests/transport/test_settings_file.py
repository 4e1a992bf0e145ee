from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scale0.core.settings import BrokerSettings, ManagementSettings
from scale0.errors import SettingsError
from scale0.protocol.network import Document, Limits
from scale0.transport.settings_file import (
    FILE_BYTES_MAX,
    BrokerFile,
    Listening,
    Local,
    from_keywords,
    listening_of,
    load,
    local_keys,
    settings_of,
)

TOML = """
identity = "eu-1"
bind = "tcp://127.0.0.1:6000"
default_heartbeat_interval = 1.5
join_addresses = ["tcp://10.0.0.2:5555"]
[limits]
sessions = 100
[service.render]
idempotent = true
timeout = 5
[management]
users = "/etc/scale0/users.json"
allowed_hosts = ["eu-1"]
"""
JSON = """{"identity": "eu-1", "bind": "tcp://127.0.0.1:6000", "hbeatinterval": 1.5, "limits": {"sessions": 100},
"join_addresses": ["tcp://10.0.0.2:5555"], "service": [{"name": "render", "idempotent": true, "timeout_s": 5}],
"management": {"users": "/etc/scale0/users.json", "allowed_hosts": ["eu-1"]}}"""
ZPL = """identity = eu-1
bind = tcp://127.0.0.1:6000
default_heartbeat_interval = 1.5
join_addresses = tcp://10.0.0.2:5555
limits
    sessions = 100
service = render
    idempotent = true
    timeout = 5
management
    users = /etc/scale0/users.json
    allowed_hosts = eu-1
"""
XML = """<scale0>
<identity>eu-1</identity><bind>tcp://127.0.0.1:6000</bind>
<default_heartbeat_interval>1.5</default_heartbeat_interval>
<join_addresses>tcp://10.0.0.2:5555</join_addresses>
<limits><sessions>100</sessions></limits>
<service><name>render</name><idempotent>true</idempotent><timeout>5</timeout></service>
<management><users>/etc/scale0/users.json</users><allowed_hosts>eu-1</allowed_hosts></management>
</scale0>"""

NETWORK = """network = "prod"
[[brokers]]
identity = "eu-1"
group = "eu"
services = ["render"]
bind = "tcp://127.0.0.1:6001"
backend_port = 6002
config_pub_port = 6003
advertise = "eu-1.example.org"
[[brokers]]
identity = "eu-2"
group = "eu"
"""


def write(directory: Path, text: str, name: str = "broker.toml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def refused(directory: Path, text: str, name: str = "broker.toml") -> str:
    with pytest.raises(SettingsError) as caught:
        load(write(directory, text, name))
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"), [("b.toml", TOML), ("b.json", JSON), ("b.zpl", ZPL), ("b.xml", XML), ("B.TOML", TOML)]
)
def test_every_format_says_the_same(tmp_path: Path, name: str, text: str) -> None:
    file = load(write(tmp_path, text, name))
    assert (file.local.identity, file.local.bind) == ("eu-1", "tcp://127.0.0.1:6000")
    assert file.local.join_addresses == ["tcp://10.0.0.2:5555"]
    assert file.local.management == ManagementSettings(users="/etc/scale0/users.json", allowed_hosts=["eu-1"])
    assert (file.document.default_heartbeat_interval_s, file.document.limits.sessions) == (1.5, 100)
    settings = settings_of(file)
    assert settings.service["render"].timeout_s == 5
    assert settings.management == file.local.management


def test_document_and_local_keys_are_parted(tmp_path: Path) -> None:
    file = load(write(tmp_path, TOML))
    assert isinstance(file.document, Document)
    assert set(Local.__struct_fields__).isdisjoint(Document.__struct_fields__), "a key means one thing"
    assert local_keys(file) == ["identity", "bind", "join_addresses", "management"]
    assert local_keys(BrokerFile()) == []


# --- which broker -------------------------------------------------------------------------------------------------


def test_a_listed_broker_gets_what_its_entry_says(tmp_path: Path) -> None:
    file = load(write(tmp_path, NETWORK))
    settings = settings_of(file, "eu-1")
    assert (settings.identity, settings.group, settings.services, settings.network) == (
        "eu-1",
        "eu",
        ["render"],
        "prod",
    )
    assert settings.advertise == ["tcp://eu-1.example.org:6001", "tcp://eu-1.example.org:6002"]
    assert settings.config_pub == "tcp://eu-1.example.org:6003"
    assert listening_of(file, "eu-1") == Listening(
        "tcp://127.0.0.1:6001", "tcp://127.0.0.1:6002", "tcp://127.0.0.1:6003"
    )
    assert listening_of(file, "eu-2") == Listening()


def test_the_processs_own_keys_win_over_the_entry(tmp_path: Path) -> None:
    local = (
        'identity = "eu-1"\nbind = "tcp://127.0.0.1:7"\nadvertise = ["tcp://x:7"]\nconfig_pub = "tcp://127.0.0.1:8"\n'
    )
    file = load(write(tmp_path, local + NETWORK))
    assert settings_of(file).identity == "eu-1"
    assert settings_of(file).advertise == ["tcp://x:7"]
    assert listening_of(file, "eu-1") == Listening("tcp://127.0.0.1:7", "tcp://127.0.0.1:6002", "tcp://127.0.0.1:8")


def test_a_broker_that_is_not_listed_gets_the_local_keys(tmp_path: Path) -> None:
    file = load(write(tmp_path, 'group = "us"\nservices = ["ocr"]\nbackend = "tcp://127.0.0.1:9"\n' + NETWORK))
    settings = settings_of(file, "us-1")
    assert (settings.identity, settings.group, settings.services) == ("us-1", "us", ["ocr"])
    assert listening_of(file, "us-1") == Listening(backend="tcp://127.0.0.1:9")


def test_a_file_for_several_brokers_asks_which_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"lists 2 brokers: eu-1, eu-2\n.*--identity eu-1"):
        settings_of(load(write(tmp_path, NETWORK)))


def test_without_a_word_it_is_the_only_broker_or_the_default(tmp_path: Path) -> None:
    assert settings_of(load(write(tmp_path, '[[brokers]]\nidentity = "only"\n'))).identity == "only"
    assert settings_of(BrokerFile()) == BrokerSettings()


# --- what is refused ----------------------------------------------------------------------------------------------


def test_unknown_key_names_file_line_and_near_names(tmp_path: Path) -> None:
    text = refused(tmp_path, 'identity = "x"\nlivenes = 3\nstate_dri = "y"\n')
    assert "broker.toml, line 2: livenes: unknown key; did you mean liveness?" in text
    assert "broker.toml, line 3: state_dri: unknown key; did you mean state_dir?" in text


def test_key_that_json_gives_twice_is_refused_as_in_every_other_format(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    brokers = '[{"identity": "a"}, {"identity": "b",\n "identity": "c"}]'
    path.write_text(f'{{"liveness": 4,\n "brokers": {brokers},\n "liveness": 5}}')
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value).splitlines() == [
        f"{path}, line 3: brokers.1.identity: given twice, first in line 2; keep one of them",
        f"{path}, line 4: liveness: given twice, first in line 1; keep one of them",
    ]


def test_unknown_key_without_near_names_lists_what_is_allowed(tmp_path: Path) -> None:
    text = refused(tmp_path, "[management]\nzzz = 1\n")
    assert "line 2: management.zzz: unknown key; allowed here: http, users, audit" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.toml", '[limits]\nsessions = "many"\n'),
        ("b.json", '{"limits":\n{"sessions": "many"}}'),
        ("b.zpl", "limits\n    sessions = many\n"),
        ("b.xml", "<scale0><limits>\n<sessions>many</sessions></limits></scale0>"),
    ],
)
def test_value_of_the_wrong_type_names_line_and_key_in_every_format(tmp_path: Path, name: str, text: str) -> None:
    assert f"{name}, line 2: limits.sessions: 'many' is not a whole number" in refused(tmp_path, text, name)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("liveness = 0", "line 1: liveness: must be above 0"),
        ("\ngrace_s = -1.0", "line 2: grace: must be above 0"),
        ("[limits]\nsessions = 0", "line 2: limits.sessions: must be above 0"),
        ("hbeatinterval = 0", "line 1: default_heartbeat_interval: must be above 0"),
        ("[service.a]\n[service.b]\ntimeout = 0", "line 3: service.b.timeout: must be above 0"),
        ('[[brokers]]\nidentity = "a"\n[[brokers]]\nidentity = "a"\n', "line 3: broker.a: listed twice"),
        ('identity = ""', "line 1: identity: must not be empty"),
        ('identity = "a\\n"', "line 1: identity: 'a\\n' has characters that cannot be printed"),
        (f'identity = "{"x" * 129}"', "line 1: identity: a name has at most 128 bytes"),
        ('advertise = ["eu-1"]', "line 1: advertise: 'eu-1' is no address"),
        ('join_addresses = ["eu-1:5"]', "line 1: join_addresses: 'eu-1:5' is no address"),
        ('services = ["mmi.x"]', "line 1: services: 'mmi.x': names that begin"),
        ('[management]\nhttp = "8480"\n', "line 2: management.http: '8480' is no address such as 127.0.0.1:8480"),
        ('[management]\nhttp = "127.0.0.1:99999"\n', "line 2: management.http: '127.0.0.1:99999' is no address"),
        ('[management]\ntls_cert = "a.pem"\n', "management.tls_key: a certificate and its key go together"),
        ('[management]\nwebhook = "http://example.com/"\n', "line 2: management.webhook: http://example.com would"),
        ('[management]\nplain_peers = "root"\n', "line 2: management.plain_peers: "),
    ],
)
def test_what_does_not_hold_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    assert told in refused(tmp_path, text)


def test_a_refusal_never_shows_a_password(tmp_path: Path) -> None:
    """As the file had them in a former version."""
    assert "hunter2" not in refused(tmp_path, '[management.passwords]\nops = "hunter2"\n')


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("a = = 1", "broker.toml", "line 1: not TOML"),
        ("{", "broker.json", "not JSON"),
        ("[1]", "broker.json", "is not a table of keys"),
        ("identity: x", "broker.yaml", "ends in .toml, .json, .zpl, .xml"),
        ("#" * (FILE_BYTES_MAX + 1), "broker.toml", "no settings file"),
    ],
)
def test_file_that_is_none_says_why(tmp_path: Path, text: str, name: str, told: str) -> None:
    assert told in refused(tmp_path, text, name)


def test_missing_file_and_wrong_encoding_say_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'identity = "\xff"')
    with pytest.raises(SettingsError, match=r"latin.toml, line 1: not UTF-8"):
        load(tmp_path / "latin.toml")


# --- Python keywords ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"sessions": 7}, Limits(sessions=7)])
def test_keywords_are_read_by_the_same_rules(limits: Any) -> None:
    settings = from_keywords({"service": {"pay": {"timeout": 3}}, "grace_s": 2, "group": "eu", "limits": limits})
    assert settings.service["pay"].timeout_s == 3
    assert (settings.grace_s, settings.group, settings.limits.sessions) == (2.0, "eu", 7)
    with pytest.raises(SettingsError, match=r"settings: identitty: unknown key; did you mean identity\?"):
        from_keywords({"identitty": "x"})
    with pytest.raises(SettingsError, match="settings: liveness: must be above 0"):
        from_keywords({"liveness": 0})
