"""The page's files: small, from nowhere else, without anything that a strict policy forbids, vendored as recorded."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from scale0.management.http.files import file_of
from scale0.management.web import squeezed
from tests.web.modules import WEB

ROOT = Path(__file__).parent.parent.parent
ALL_BYTES_MAX = 85_000  # as a browser fetches them: compressed
OWN = sorted(path for path in WEB.rglob("*") if path.suffix in (".js", ".css", ".html") and "vendor" not in path.parts)
FETCHED = sorted(path for path in WEB.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg"))
MODULE_LINES_MAX = 400


def served(path: Path) -> bytes:
    return squeezed(path.relative_to(WEB).as_posix(), path.read_bytes())


def test_all_that_is_fetched_is_small() -> None:
    sizes = {path.name: len(file_of("", served(path)).packed) for path in FETCHED}
    assert sum(sizes.values()) <= ALL_BYTES_MAX, sizes


def test_only_comments_indentation_and_space_are_left_out() -> None:
    assert (
        squeezed("a.js", b"// Why.\nconst a = 1; // more\n  call(`x  // y`);\n") == b"const a = 1;\ncall(`x  // y`);\n"
    )
    assert squeezed("a.css", b"/* Why. */\na { color: red; }\n") == b"a{color: red;}"
    assert squeezed("vendor/a.js", b"// kept\n") == b"// kept\n"


def test_nothing_is_fetched_from_elsewhere() -> None:
    found = [(path.name, url) for path in OWN for url in re.findall(r"https?://[^\s\"'`)]+", path.read_text())]
    assert [one for one in found if "www.w3.org" not in one[1]] == []


def test_nothing_is_written_that_the_policy_forbids() -> None:
    forbidden = r"dangerouslySet|innerHTML|insertAdjacent|\beval\(|new Function|document\.write|style=\"|\son[a-z]+=\""
    assert not [(path.name, hit) for path in OWN for hit in re.findall(forbidden, path.read_text())]
    inline = re.findall(r"<script(?![^>]*\bsrc=)|<style|javascript:", (WEB / "index.html").read_text())
    assert inline == []


def test_every_module_is_preloaded_so_that_the_page_comes_in_two_rounds() -> None:
    page = (WEB / "index.html").read_text()
    modules = {path.relative_to(WEB).as_posix() for path in WEB.rglob("*.js")} - {"main.js", "vendor/uplot.js"}
    assert set(re.findall(r'rel="modulepreload" href="static/([^"]+)"', page)) == modules


def test_modules_say_what_they_are_for_and_are_short() -> None:
    scripts = [path for path in OWN if path.suffix == ".js"]
    assert not [path.name for path in scripts if not path.read_text().startswith("// ")]
    assert not [path.name for path in scripts if len(path.read_text().splitlines()) > MODULE_LINES_MAX]


def test_vendored_files_are_as_they_were_recorded() -> None:
    spec = importlib.util.spec_from_file_location("vendor_web", ROOT / "tools" / "vendor_web.py")
    assert spec is not None
    assert spec.loader is not None
    vendor_web = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vendor_web)
    assert vendor_web.differences(vendor_web.PAGE) == []
    assert vendor_web.differences(vendor_web.TESTS) == []
