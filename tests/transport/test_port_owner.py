from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from scale0.transport.port_owner import owner_of

needs_proc = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells who has a port")


@needs_proc
def test_process_that_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner = owner_of(f"tcp://127.0.0.1:{server.getsockname()[1]}")
    assert owner is not None
    assert f"(process {os.getpid()})" in owner


@needs_proc
def test_port_that_nobody_has_has_no_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    assert owner_of(endpoint) is None


def test_without_proc_or_port_the_answer_is_none(tmp_path: Path) -> None:
    assert owner_of("tcp://127.0.0.1:5555", tmp_path) is None
    assert owner_of("ipc:///somewhere") is None
