from __future__ import annotations

from scale0.protocol.document_lines import of_json, of_toml
from scale0.protocol.problems import Path

JSON = """{
  "network": "a",
  "config_brokers": [
    "x",
    "y"
  ],
  "brokers": [
    {"identity": "a", "group": "g"},
    {
      "identity": "b {[,",
      "peers": [{"identity": "a"},
                {"identity": "c"}]
    }
  ],
  "service": {"render":
    {"timeout": 5}}
}"""

TOML = """network = "a"
# liveness = 3
config_brokers = [
  "x",
]
peers = [
  { identity = "p" },
  { identity = "q" },
]
[[brokers]]
identity = "a"
[[brokers]]
"identity" = "b"
limits.x = 3
[[brokers.peers]]
identity = "a"
[[ brokers.peers ]]
identity = "c"
[service.render]
timeout = 5
"""


def test_lines_of_json_are_those_of_keys_and_items() -> None:
    lines = of_json(JSON)
    expected: dict[Path, int] = {
        ("network",): 2,
        ("config_brokers",): 3,
        ("config_brokers", 1): 5,
        ("brokers",): 7,
        ("brokers", 0, "group"): 8,
        ("brokers", 1): 9,
        ("brokers", 1, "identity"): 10,
        ("brokers", 1, "peers", 1, "identity"): 12,
        ("service", "render", "timeout"): 16,
    }
    assert {path: lines.get(path) for path in expected} == expected


def test_lines_of_toml_are_those_of_tables_and_keys() -> None:
    lines = of_toml(TOML)
    expected: dict[Path, int] = {
        ("network",): 1,
        ("config_brokers",): 3,
        ("peers", 0): 7,
        ("peers", 1): 8,
        ("brokers", 0): 10,
        ("brokers", 0, "identity"): 11,
        ("brokers", 1, "identity"): 13,
        ("brokers", 1, "limits", "x"): 14,
        ("brokers", 1, "peers", 0): 15,
        ("brokers", 1, "peers", 1, "identity"): 18,
        ("service", "render"): 19,
        ("service", "render", "timeout"): 20,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert ("liveness",) not in lines


def test_lines_of_scalars_and_of_nothing_are_none() -> None:
    assert of_json("3") == {}
    assert of_json("") == {}
    assert of_toml("") == {}
