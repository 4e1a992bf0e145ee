"""Which class each command's parameters are read into, and the older names of parameters."""

from __future__ import annotations

from typing import Final

from scale0.protocol.messages import (
    Cancel,
    ChangeBroker,
    Command,
    Config,
    ConfigAck,
    ConfigChange,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    ManagementRep,
    ManagementReq,
    NeedBroker,
    PeerStatus,
    Rare,
    Ready,
    ReadyOk,
    Snapshot,
    SnapshotReq,
    StreamAck,
    Table,
    TableReq,
)

COMMANDS: Final[dict[Command, type[Rare]]] = {
    Command.CONNECT: Connect,
    Command.CONFIG: Config,
    Command.CONFIGACK: ConfigAck,
    Command.READY: Ready,
    Command.READYOK: ReadyOk,
    Command.CANCEL: Cancel,
    Command.NEEDBROKER: NeedBroker,
    Command.CHANGEBROKER: ChangeBroker,
    Command.FORCENEGOTIATE: ForceNegotiate,
    Command.DISCONNECT: Disconnect,
    Command.MANAGEMENTREQ: ManagementReq,
    Command.MANAGEMENTREP: ManagementRep,
    Command.ERROR: Error,
    Command.PEERSTATUS: PeerStatus,
    Command.TABLE: Table,
    Command.TABLEREQ: TableReq,
    Command.SNAPSHOT: Snapshot,
    Command.SNAPSHOTREQ: SnapshotReq,
    Command.STREAMACK: StreamAck,
    Command.CONFIGCHANGE: ConfigChange,
}
"""The commands that travel as a map; TASK, TASKREPLY, PING, PONG and STREAM are packed."""

ALIASES: Final[dict[str, str]] = {
    "hbeatinterval": "heartbeat_interval",
    "configversion": "config_version",
    "work_request_indentifier": "id",
    "prefered_broker": "preferred_broker",
    "heartbeat_interval": "heartbeat_interval_ms",
    "time": "time_us",
}
"""Older and shorter parameter names, accepted wherever parameters are read."""
