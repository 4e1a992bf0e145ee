from __future__ import annotations

import pytest

from scale0.protocol.document_fields import OLDER_NAMES, field_for, fields_of, name_of, naming_key
from scale0.protocol.network import BrokerEntry, Document, GroupEntry, Limits, Part, ServiceEntry


def test_every_key_of_the_model_has_a_shape() -> None:
    shapes = {key: field.shape for key, field in fields_of(BrokerEntry).items()}
    assert shapes["identity"] == "text"
    assert shapes["services"] == "services"
    assert shapes["endpoints"] == "texts"
    assert shapes["frontend_port"] == "whole"
    assert shapes["state"] == "choice"
    assert shapes["peers"] == "entries"
    assert fields_of(Document)["limits"].inner is Limits
    assert fields_of(ServiceEntry)["timeout"].shape == "number"
    assert fields_of(ServiceEntry)["idempotent"].shape == "flag"


def test_a_key_is_known_with_its_unit_and_by_older_names() -> None:
    field = fields_of(Document)["default_heartbeat_interval"]
    for name in ("default_heartbeat_interval", "default_heartbeat_interval_s", "hbeatinterval"):
        assert field_for(Document, name) == field
    assert field_for(Document, "prefered_broker") is None, "it is a key of a part"
    assert field_for(Document, "network_s") is None


@pytest.mark.parametrize(("older", "key"), OLDER_NAMES.items())
def test_an_older_name_means_a_key_that_there_is(older: str, key: str) -> None:
    assert any(key in fields_of(kind) for kind in (Document, Part, BrokerEntry))
    assert not any(older in fields_of(kind) for kind in (Document, Part, BrokerEntry))


def test_entries_are_named_by_name_or_identity() -> None:
    assert (naming_key(BrokerEntry), naming_key(GroupEntry), naming_key(Limits)) == ("identity", "name", None)
    assert name_of(GroupEntry(name="eu")) == "eu"


def test_defaults_are_recognised_by_value() -> None:
    fields = fields_of(Document)
    assert fields["grace"].is_default(5)
    assert fields["limits"].is_default(Limits(sessions=20_000))
    assert not fields["liveness"].is_default(4)
    assert not fields_of(GroupEntry)["name"].is_default("")
