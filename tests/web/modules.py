"""Runs the page's pure modules by themselves: in node where there is one, else in the browser's own tests' way."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).parent.parent.parent / "src" / "scale0" / "management" / "web"
NODE = shutil.which("node")


class Modules:
    """A copy of the page's modules that node takes as such: a package.json beside them says so."""

    def __init__(self, place: Path) -> None:
        self._place = place / "web"
        shutil.copytree(WEB, self._place)
        (self._place / "package.json").write_text('{"type": "module"}')

    def run(self, module: str, body: str, given: object = None) -> Any:
        """What the function body returns; `m` is the module, `given` comes from Python."""
        if NODE is None:
            pytest.skip("no node here; the browser's tests go through the same modules. Install it: apt install nodejs")
        script = (
            f'import * as m from "./{module}";\n'
            f"const given = {json.dumps(given)};\n"
            f"const told = (() => {{ {body} }})();\n"
            "console.log(JSON.stringify(told === undefined ? null : told));\n"
        )
        command = [NODE, "--input-type=module", "-"]
        done = subprocess.run(command, input=script, cwd=self._place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
