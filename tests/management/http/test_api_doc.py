"""What `docs/api.md` says: its commands are run, and its tables compared with the code."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from scale0.management.http.attempts import BURST, REFILL_S
from scale0.management.http.metrics import gather
from scale0.management.http.sessions import IDLE_S, LIFETIME_S
from scale0.management.http.shapes import BODY_BYTES_MAX, DEPTH_MAX
from scale0.management.http.streams import STREAMS_MAX, WRITE_WITHIN_S
from scale0.management.http.tables import ROWS_MAX
from tests.management.http.fake_door import FakeDoor
from tests.management.http.fake_page import make_site
from tests.management.http.support import LIMIT_S, Running

TEXT = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("curl ")
]
TIME_IS_OVER = 28  # an exit code of curl: a stream that was watched for so long


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_document_works(page: Running, tmp_path: Path, command: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl to run the document's commands with: apt install curl")
    page.do(page.door.renew)
    (tmp_path / "mara.curl").write_text('user = "admin:adminadmin"\n')
    words = shlex.split(command.replace("http://127.0.0.1:8480", page.url))
    done = subprocess.run([*words, "--fail"], cwd=tmp_path, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode in (0, TIME_IS_OVER), done.stderr
    assert done.stdout


def test_every_metric_is_in_the_document_and_no_other() -> None:
    async def names() -> set[str]:
        families = await gather(make_site(FakeDoor()))
        return {sample.name for family in families for sample in family.samples}

    assert set(re.findall(r"`(scale0_[a-z0-9_]+)`", TEXT)) == asyncio.run(names())


def test_the_limits_are_those_of_the_code() -> None:
    for said in (
        f"after {LIFETIME_S / 3600:.0f}\nhours",
        "one hour without use",
        f"{BODY_BYTES_MAX >> 20} MiB and {DEPTH_MAX} levels",
        f"{STREAMS_MAX} streams",
        f"{WRITE_WITHIN_S:.0f} seconds is dropped",
        f"one attempt each {REFILL_S:.0f} seconds",
        f"{ROWS_MAX:,} rows",
    ):
        assert said in TEXT, said
    assert (IDLE_S, BURST) == (3600.0, 10)
