"""Where a broker may listen, whom it joins by, what it calls itself and where it keeps its state."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from scale0.cli import broker_command
from scale0.cli.broker_command import BrokerOptions, Plan, TelemetryOptions
from scale0.core.broker import Broker
from scale0.core.settings import BrokerSettings
from scale0.errors import SettingsError, UsageError
from scale0.protocol.network import BrokerEntry, Document
from scale0.transport import settings_file
from scale0.transport.recording import Telemetry
from scale0.transport.server import Server
from scale0.transport.settings_file import BrokerFile

HOME = {"HOME": "/home/ada"}
SEED = "tcp://10.0.0.1:5555"
BROKERS = Path("/home/ada/.local/state/scale0/brokers")
NETWORK = """
network = "prod"

[[brokers]]
identity = "eu-1"
group = "eu"
bind = "tcp://127.0.0.1:6001"

[[brokers]]
identity = "eu-2"
group = "eu"
bind = "127.0.0.1"
frontend_port = 6002
backend_port = 6003
peer_port = 6004
config_pub_port = 6005
"""


def planned(text: str = "", tmp_path: Path | None = None, **options: object) -> Plan:
    """The plan for these options, and a file with this text if there is any."""
    config = None
    if text:
        assert tmp_path is not None
        config = tmp_path / "network.toml"
        config.write_text(text)
    asked = BrokerOptions(config=config, **options)  # type: ignore[arg-type]
    return broker_command.make_plan(asked, broker_command.read_file(asked), HOME)


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://127.0.0.1:5555", "tcp://127.9.9.9:0", "tcp://localhost:*", "tcp://[::1]:5555", "ipc:///run/scale0"],
)
def test_this_machine_needs_no_permission(endpoint: str) -> None:
    broker_command.check_bind([endpoint], is_insecure=False)


@pytest.mark.parametrize("endpoint", ["tcp://0.0.0.0:5555", "tcp://*:5555", "tcp://[::]:1", "tcp://example.org:5555"])
def test_other_machines_are_refused_unless_that_is_wanted(endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--insecure-bind"):
        broker_command.check_bind([endpoint], is_insecure=False)
    broker_command.check_bind([endpoint], is_insecure=True)
    assert "warning:" in capsys.readouterr().err


@pytest.mark.parametrize("endpoint", ["5555", "127.0.0.1:5555", "tcp://127.0.0.1", "http://127.0.0.1:80"])
def test_what_is_no_address_is_refused_with_an_example(endpoint: str) -> None:
    with pytest.raises(UsageError, match="it looks like tcp://"):
        broker_command.check_bind([endpoint], is_insecure=False)


def test_the_ready_line_is_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    broker_command.announce("eu-1", ["tcp://127.0.0.1:5555"])
    assert capsys.readouterr().out == "scale0 broker eu-1 ready on tcp://127.0.0.1:5555\n"


@pytest.mark.parametrize(("identity", "waits"), [("a", "waits for b"), ("b", "standby of a"), ("c", "")])
def test_the_ready_line_says_of_one_of_a_pair_that_it_does_not_serve_yet(
    identity: str, waits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = [BrokerEntry(identity="a", fallback_broker="b"), BrokerEntry(identity="b"), BrokerEntry(identity="c")]
    broker = Broker(BrokerSettings(identity=identity), now=0.0, wall_s=1e9, document=Document(brokers=brokers))
    server = cast("Server", SimpleNamespace(broker=broker))
    assert broker_command.waiting_for(server) == waits
    broker_command.announce(identity, ["tcp://127.0.0.1:5555"], waits)
    assert capsys.readouterr().out.partition("5555")[2] == (f" ({waits})\n" if waits else "\n")


def test_the_ready_line_says_of_one_that_is_disabled_how_it_is_enabled() -> None:
    broker = Broker(BrokerSettings(identity="a"), now=0.0, wall_s=1e9, state="disabled")
    assert broker_command.waiting_for(cast("Server", SimpleNamespace(broker=broker))) == "disabled: scale0 ctl enable"


def test_a_fallback_that_served_last_waits_for_the_primary() -> None:
    brokers = [BrokerEntry(identity="a", fallback_broker="b"), BrokerEntry(identity="b")]
    settings, document = BrokerSettings(identity="b"), Document(brokers=brokers)
    broker = Broker(settings, now=0.0, wall_s=1e9, document=document, was_serving=True, epoch=4)
    assert broker_command.waiting_for(cast("Server", SimpleNamespace(broker=broker))) == "waits for a"


def test_a_broker_that_joins_is_said_to_be_joining(capsys: pytest.CaptureFixture[str]) -> None:
    broker = Broker(BrokerSettings(identity="b"), now=0.0, wall_s=1e9, seeds=[SEED])
    broker_command.say_joining([SEED], cast("Server", SimpleNamespace(broker=broker)), Path("/kept"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"joining by {SEED}; ")


def test_a_broker_that_is_of_a_network_already_says_which_and_how_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    document = Document(network="shop", brokers=[BrokerEntry(identity="a"), BrokerEntry(identity="b")])
    before = Broker(BrokerSettings(identity="b"), now=0.0, wall_s=1e9, document=document)
    kept = before.state.config.records()
    broker = Broker(BrokerSettings(identity="b"), now=0.0, wall_s=1e9, records=kept, seeds=[SEED])
    broker_command.say_joining([SEED], cast("Server", SimpleNamespace(broker=broker)), Path("/kept"))
    assert capsys.readouterr().err == (
        "of network shop already, as kept in /kept; to join another one: remove that, or give --no-state\n"
    )


# --- the plan -----------------------------------------------------------------------------------------------------


def test_a_broker_that_is_alone_keeps_and_publishes_nothing() -> None:
    plan = planned()
    assert (plan.settings.identity, plan.bind) == ("broker", broker_command.DEFAULT_BIND)
    assert (plan.publish, plan.state_dir, plan.document, plan.seeds) == (None, None, None, [])


def test_a_broker_that_joins_is_named_after_machine_and_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "ada")
    plan = planned(join=[SEED])
    assert plan.settings.identity == "ada-5555"
    assert plan.state_dir == BROKERS / "ada-5555"
    assert (plan.seeds, plan.publish) == ([SEED], "tcp://127.0.0.1:0")


def test_a_name_that_would_be_another_one_at_the_next_start_keeps_no_state() -> None:
    assert planned(join=[SEED], bind="tcp://127.0.0.1:0").state_dir is None
    assert planned(join=[SEED], bind="tcp://127.0.0.1:0", identity="eu-3").state_dir == BROKERS / "eu-3"


@pytest.mark.parametrize("seed", ["tcp://127.0.0.1:5555", "tcp://localhost:5555", "tcp://[::1]:5555"])
def test_a_second_broker_on_a_machine_takes_a_free_port(seed: str) -> None:
    assert planned(join=[seed]).bind == "tcp://127.0.0.1:0"
    assert planned(join=[seed], bind="tcp://127.0.0.1:7777").bind == "tcp://127.0.0.1:7777"


def test_the_document_says_where_each_of_its_brokers_listens(tmp_path: Path) -> None:
    plan = planned(NETWORK, tmp_path, identity="eu-2")
    assert plan.addresses == [f"tcp://127.0.0.1:{port}" for port in (6002, 6003, 6004, 6005)]
    assert (plan.settings.group, plan.state_dir) == ("eu", BROKERS / "eu-2")
    assert plan.document is not None
    assert plan.document.network == "prod"


def test_a_document_of_several_brokers_needs_to_know_which_one_this_is(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--identity eu-1"):
        planned(NETWORK, tmp_path)


def test_a_document_s_broker_is_one_of_those_that_it_lists_unless_it_joins(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"lists eu-1, eu-2, and no eu-3\nsay which one .*--join"):
        planned(NETWORK, tmp_path, identity="eu-3")
    assert planned(NETWORK, tmp_path, identity="eu-3", join=[SEED]).settings.identity == "eu-3"


def test_a_broker_of_a_network_publishes_beside_its_port(tmp_path: Path) -> None:
    assert planned(NETWORK, tmp_path, identity="eu-1").publish == "tcp://127.0.0.1:0"
    assert planned(NETWORK, tmp_path, identity="eu-1", publish="tcp://127.0.0.1:7001").publish == "tcp://127.0.0.1:7001"
    assert broker_command.beside("tcp://[::1]:5555") == "tcp://[::1]:0"
    assert broker_command.beside("ipc:///run/scale0") == "tcp://127.0.0.1:0"


def test_addresses_to_join_by_may_stand_in_the_file(tmp_path: Path) -> None:
    text = f'identity = "eu-9"\njoin_addresses = ["{SEED}"]\n'
    assert planned(text, tmp_path).seeds == [SEED]
    assert planned(text, tmp_path, join=["tcp://10.0.0.2:5555"]).seeds == ["tcp://10.0.0.2:5555"]


def test_a_broker_does_not_join_itself(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its own address"):
        planned(join=[SEED], bind=SEED)
    text = f'identity = "eu-9"\nbind = "{SEED}"\njoin_addresses = ["{SEED}", "tcp://10.0.0.2:5555"]\n'
    assert planned(text, tmp_path).seeds == ["tcp://10.0.0.2:5555"]


def test_a_group_is_taken_from_the_command_line() -> None:
    assert planned(join=[SEED], group="us").settings.group == "us"


def test_the_document_has_the_last_word_on_groups(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lists eu-1 in group eu, not in us"):
        planned(NETWORK, tmp_path, identity="eu-1", group="us")
    assert planned(NETWORK, tmp_path, identity="eu-1", group="eu").settings.group == "eu"


def test_the_state_is_kept_where_one_is_told_or_nowhere(tmp_path: Path) -> None:
    assert planned(state_dir=tmp_path).state_dir == tmp_path
    assert planned(join=[SEED], is_stateless=True).state_dir is None
    text = 'identity = "eu-9"\nstate_dir = "/var/lib/scale0"\n'
    assert planned(text, tmp_path).state_dir == Path("/var/lib/scale0")
    assert planned(text, tmp_path, is_stateless=True).state_dir is None
    with pytest.raises(UsageError, match="exclude one another"):
        planned(state_dir=tmp_path, is_stateless=True)


@pytest.mark.parametrize("seed", ["10.0.0.1:5555", "tcp://10.0.0.1", "tcp://10.0.0.1:0", "tcp://10.0.0.1:*"])
def test_what_cannot_be_joined_by_is_refused_with_an_example(seed: str) -> None:
    with pytest.raises(UsageError, match="it looks like tcp://"):
        planned(join=[seed])


def test_a_broker_records_nothing_unless_it_is_told_to() -> None:
    assert planned().telemetry is None


def test_recorders_have_a_directory_each_and_one_data_place() -> None:
    plan = planned(identity="eu/1", telemetry=TelemetryOptions(keep_days=2, samples=["pay=100"]))
    assert plan.telemetry is not None
    home = "/home/ada/.local/state/scale0"
    assert (plan.telemetry.directory, plan.telemetry.data) == (f"{home}/telemetry/eu%2F1", f"{home}/data")
    assert (plan.telemetry.keep_s, plan.telemetry.rates) == (172_800.0, {"pay": 100})


def test_a_recorder_whose_directory_is_named_has_its_data_there() -> None:
    plan = planned(telemetry=TelemetryOptions(Path("/srv/t")))
    assert plan.telemetry is not None
    assert (plan.telemetry.directory, plan.telemetry.data) == ("/srv/t", "/srv/t/data")
    plan = planned(telemetry=TelemetryOptions(Path("/srv/t"), "s3://bucket/x"))
    assert plan.telemetry is not None
    assert plan.telemetry.data == "s3://bucket/x"


def test_a_broker_without_a_lasting_name_must_name_a_directory_to_record() -> None:
    with pytest.raises(UsageError, match="--identity or --telemetry-dir"):
        planned(bind="tcp://127.0.0.1:0", join=[SEED], telemetry=TelemetryOptions())


@pytest.mark.parametrize("told", ["pay", "=5", "pay=0", "pay=x", "pay=100000"])
def test_a_sample_that_is_none_is_refused(told: str) -> None:
    with pytest.raises(UsageError, match="SERVICE=N"):
        broker_command.read_sample(told)


def test_what_recording_needs_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_command, "NEEDED", ("pyarrow", "no_such_module"))
    with pytest.raises(UsageError, match=r"recording needs no_such_module\nadd it: pip install 'scale0\[pipeline\]'"):
        broker_command.check_telemetry(Telemetry("t", "data"))


def test_a_key_encrypts_and_needs_no_switch_for_other_machines(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    options = BrokerOptions(key="eu-1", bind="tcp://10.0.0.1:5555")
    plan = broker_command.make_plan(options, BrokerFile(), environ)
    assert plan.security is not None
    assert plan.security.key == str(tmp_path / "scale0" / "keys" / "eu-1.key")
    assert plan.security.allowed == str(tmp_path / "scale0" / "allowed.json")
    broker_command.check_bind(plan.addresses, is_insecure=False, is_encrypted=True)
    with pytest.raises(UsageError, match="scale0 keys new broker"):
        broker_command.check_bind(plan.addresses, is_insecure=False)


def test_a_file_s_own_paths_begin_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "eu-1.toml"
    path.write_text('[security]\nkey = "eu-1.key"\nallowed = "who.json"\n')
    plan = broker_command.make_plan(BrokerOptions(config=path), settings_file.load(path), {"HOME": str(tmp_path)})
    assert plan.security is not None
    assert (plan.security.key, plan.security.allowed) == (str(tmp_path / "eu-1.key"), str(tmp_path / "who.json"))


def test_options_of_keys_are_checked_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="for a broker with a key"):
        broker_command.make_plan(BrokerOptions(server_key="0" * 40), BrokerFile(), {})
    with pytest.raises(UsageError, match="is no public key"):
        broker_command.make_plan(BrokerOptions(key="a.key", server_key="k"), BrokerFile(), {})
    with pytest.raises(UsageError, match="whose key it knows"):
        broker_command.make_plan(BrokerOptions(key="a.key", join=["tcp://10.0.0.1:5555"]), BrokerFile(), {})
