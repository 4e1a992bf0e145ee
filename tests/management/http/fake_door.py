"""A door without a broker: it answers every command of the vocabulary as a broker would, and remembers who asked what.

Its clock and figures move with each question, so that a page that looks at it lives. `FakeDoor(workers=5_000,
services=200)` is a large one. Tests make it slow (`hold`), silent (`silence`) or let single commands fail (`refuse`).
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from scale0.errors import ProtocolError
from scale0.management.channel import Brokers
from scale0.management.vocabulary import COMMANDS, LISTINGS, Principal
from scale0.protocol.codes import Code
from tests.management.http import fake_rows

PIECE = 500
HISTORY_POINTS = 180
DOCUMENT = {"network": "prod", "brokers": [{"identity": "eu-1", "group": "eu"}], "services": [{"name": "render"}]}


class Asked(msgspec.Struct, frozen=True):
    principal: Principal
    command: str
    arguments: dict[str, Any]
    command_id: str
    brokers: Brokers


class FakeDoor:
    def __init__(self, workers: int = 51, services: int = 8, clients: int = 9, tasks: int = 40) -> None:
        self.state = "active"
        self.asked: list[Asked] = []
        self.denials: list[tuple[str, str, str, int]] = []
        self.refused: dict[str, ProtocolError] = {}
        self.opened = asyncio.Event()  # cleared: every question waits
        self.opened.set()
        self.on_push: Any = lambda topic, payload: None
        self._sizes = (workers, services, clients, tasks)
        self._seq = itertools.count(1)
        self.renew()

    def renew(self) -> None:
        """All rows as in the beginning."""
        chance = random.Random(7)
        workers, services, clients, tasks = self._sizes
        self.lists: dict[str, list[fake_rows.Row]] = {
            "services": fake_rows.services(chance, services),
            "workers": fake_rows.workers(chance, workers, services),
            "clients": fake_rows.clients(chance, clients),
            "tasks": fake_rows.tasks(chance, tasks, services),
            "network": fake_rows.network(),
            "brokers": [fake_rows.broker_row()],
            "dead_letters": fake_rows.dead_letters(),
            "gone_workers": fake_rows.gone_workers(),
            "error_clients": [
                {"connection": "00aa11", "bad": 9.0, "penalty_us": 30_000_000, "ignored": 14, "reason": "not a message"}
            ],
            "hints": [],
            "keys": [],
            "audit": [],
            "events": [],
        }
        self._add_events()

    # --- the door -----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        principal: Principal,
        command: str,
        arguments: dict[str, Any],
        *,
        command_id: str = "",
        brokers: Brokers = "own",
    ) -> Any:
        self.asked.append(Asked(principal, command, arguments, command_id, brokers))
        await self.opened.wait()
        if command in self.refused:
            raise self.refused[command]
        if brokers == "own":
            result = self._run(principal, command, arguments)
            self._note(principal, command, arguments, command_id)
            return result
        names = [row["identity"] for row in self.lists["network"]] if brokers == "all" else list(brokers)
        results = [
            {"broker": name, "code": 503, "text": "silent for 14 s"}
            if name == "us-1"
            else {"broker": name, "code": 200, "result": self._run(principal, command, arguments)}
            for name in names
        ]
        self._note(principal, command, arguments, command_id)
        is_whole = all(one["code"] == 200 for one in results)
        return {"command_id": command_id, "complete": is_whole, "results": results}

    def denied(self, user: str, source: str, what: str, code: int) -> None:
        self.denials.append((user, source, what, code))

    # --- what a test may do to it -------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Questions are not answered until `opened` is set."""
        self.opened.clear()

    def refuse(self, command: str, code: int, text: str) -> None:
        self.refused[command] = ProtocolError(code, text)

    def silence(self) -> None:
        for command in ("list", "snapshot"):
            self.refuse(command, 503, "the broker has ended")

    def count(self, command: str) -> int:
        return sum(1 for asked in self.asked if asked.command == command)

    @property
    def visitors_asked(self) -> list[Asked]:
        """What was asked for somebody, and not for all pages."""
        return [asked for asked in self.asked if asked.principal.user != "page"]

    def push(self, topic: str, payload: Any) -> None:
        self.on_push(topic, payload)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _head(self) -> dict[str, Any]:
        return {
            "identity": "eu-1",
            "state": self.state,
            "epoch": 3,
            "network": "prod",
            "group": "eu",
            "config_version": fake_rows.VERSION,
            "uptime_us": 86_400_000_000,
        }

    def _list(self, what: str) -> dict[str, Any]:
        if what not in LISTINGS:
            raise ProtocolError(Code.MALFORMED, f"no listing {what!r}; there are {', '.join(LISTINGS)}")
        document = {"schema": f"scale0.{what}/1", "at": now_text(), "complete": True, "broker": self._head()}
        if what == "overview":
            return {**document, **self._overview()}
        return {**document, "rows": self._rows(what)}

    def _rows(self, what: str) -> list[fake_rows.Row]:
        if what == "network_workers":
            return [
                {key: row[key] for key in ("identity", "broker", "state", "services", "busy", "capacity")}
                for row in self.lists["workers"]
            ]
        if what == "alarms":
            return fake_rows.alarms(now_us())
        if what in ("config", "config_history"):
            return self._configs(what)
        return self.lists[what]

    def _snapshot(self, arguments: dict[str, Any]) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for what in arguments["parts"]:
            if what not in LISTINGS:
                raise ProtocolError(Code.MALFORMED, f"no listing {what!r}; there are {', '.join(LISTINGS)}")
            if what == "overview":
                parts[what] = self._overview()
                continue
            rows, after = self._rows(what), arguments.get("after") or "0"
            start = int(after) if after.isdecimal() and len(after) < 9 else len(rows)
            end = start + PIECE
            after = str(end) if end < len(rows) else None
            parts[what] = {"rows": rows[start:end], "after": after, "total": len(rows)}
        return {"seq": next(self._seq), "at": now_text(), "broker": self._head(), "parts": parts}

    def _overview(self) -> dict[str, Any]:
        at_us = now_us()
        wave = 1 + 0.2 * math.sin(at_us / 5e6)
        points = list(range(HISTORY_POINTS))
        times = [at_us - (HISTORY_POINTS - point) * 5_000_000 for point in points]
        accepted = [round(1_200 * (1 + 0.2 * math.sin(point / 9))) for point in points]
        p50 = [round(8_000 * (1 + 0.3 * math.sin(point / 14))) for point in points]
        worst = sorted(self.lists["services"], key=lambda row: (row["state"] == "ok", -row["errors_5m"]))[:8]
        return {
            "verdict": {"level": "bad", "text": "✗ 1 broker gone, us-1b serves · ! eu-3 behind"},
            "figures": {
                "tasks_per_s": round(1_204 * wave, 1),
                "replies_per_s": round(1_201 * wave, 1),
                "p50_us": round(8_000 * wave),
                "p99_us": round(41_000 * wave),
                "queued": 12,
                "oldest_us": 8_200_000,
                "errors_per_min": 3.0,
                "free": 31,
                "capacity": 96,
            },
            "alarms": fake_rows.alarms(at_us),
            "services": worst,
            "history": {
                "at_us": times,
                "accepted": accepted,
                "replied": [value - 3 for value in accepted],
                "p50_us": p50,
                "p90_us": [value * 3 for value in p50],
                "p99_us": [value * 5 if point % 50 else None for point, value in enumerate(p50)],
                "errors": {
                    "late": [1 if point % 20 == 0 else 0 for point in points],
                    "lost": [2 if point % 70 == 0 else 0 for point in points],
                    "refused": [0 for _ in points],
                    "caller": [1 if point % 33 == 0 else 0 for point in points],
                },
            },
            "brokers": self.lists["network"],
            "counts": {name: len(self.lists[name]) for name in ("services", "workers", "clients")},
        }

    def _configs(self, what: str) -> list[fake_rows.Row]:
        versions = [
            {
                "version": f"1.{number}.eu-1",
                "author": "mara",
                "comment": f"change {number}",
                "time_us": now_us() - (43 - number) * 3_600_000_000,
                "document": {**DOCUMENT, "default_timeout_s": float(number)},
                "state": "current" if number == 42 else "replaced",
            }
            for number in range(42, 36, -1)
        ]
        if what == "config_history":
            return versions
        more = {"identity": "eu-1", "group": "eu", "services": "all", "liveness": 3, "sequencer": "eu-1"}
        more |= {"default_heartbeat_interval_us": 2_500_000}
        return [{**versions[0], **more, "brokers": 7, "behind": ["eu-3"], "unknown": ["us-1"]}]

    def _run(self, principal: Principal, command: str, arguments: dict[str, Any]) -> Any:
        known = COMMANDS.get(command)
        assert known is not None, f"{command} reached the door"
        assert principal.role >= known.role, f"{principal.role} reached the door with {command}"
        if command == "list":
            return self._list(arguments.get("what", "brokers"))
        if command == "snapshot":
            return self._snapshot(arguments)
        if command == "disable":
            self.state = "disabled"
        elif command == "enable":
            self.state = "active"
        elif command == "kick_worker":
            self._remove("workers", "identity", arguments["worker"])
        elif command in ("cancel_task", "retry_dead_letter"):
            self._remove("tasks" if command == "cancel_task" else "dead_letters", "id", arguments["task"])
        elif command == "clear_dead_letters":
            self.lists["dead_letters"] = []
        elif command == "clear_error_client":
            self.lists["error_clients"] = []
        elif command == "test_task":
            return {"code": 200, "text": "", "duration_us": 8_120, "worker": "w-7", "body": '"fine"'}
        elif command == "config_check":
            change = {"key": "service.render.timeout_s", "before": 10, "after": 5, "affects": "12 clients"}
            return {"valid": True, "problems": [], "changes": [change], "base": fake_rows.VERSION}
        return {"state": self.state}

    def _remove(self, what: str, key: str, name: str) -> None:
        left = [row for row in self.lists[what] if row[key] != name]
        if len(left) == len(self.lists[what]):
            raise ProtocolError(Code.UNKNOWN_SERVICE, f"no {name!r} among the {what}; scale0 ctl {what} lists them")
        self.lists[what] = left

    def _note(self, principal: Principal, command: str, arguments: dict[str, Any], command_id: str) -> None:
        """The event and the audit record of a command, as the gate makes them."""
        if not COMMANDS[command].is_change:
            return
        target = str(arguments.get(COMMANDS[command].target, ""))
        event = {"at": now_text(), "kind": "command", "actor": principal.user, "door": principal.door}
        event |= {"command": command, "target": target, "result": "done", "broker": "eu-1", "command_id": command_id}
        self.lists["events"].insert(0, event)
        audit: dict[str, Any] = {"seq": len(self.lists["audit"]) + 1, "at": event["at"], "user": principal.user}
        audit |= {"role": principal.role.text, "door": principal.door, "source": principal.source}
        audit |= {"command": command, "target": target, "outcome": "done", "code": 200, "hash": "00" * 32}
        self.lists["audit"].insert(0, audit)
        self.push("event", event)

    def _add_events(self) -> None:
        for number, kind in enumerate(("fail-over", "config", "alarm")):
            event = {"at": f"2026-03-01T11:0{number}:00.000Z", "kind": kind, "actor": "eu-1", "door": "process"}
            event |= {"command": "", "target": "us-1", "result": "took over", "broker": "us-1b", "command_id": ""}
            self.lists["events"].insert(0, event)


def now_us() -> int:
    return round(time.time() * 1e6)


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
