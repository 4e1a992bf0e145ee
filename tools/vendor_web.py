"""Brings the libraries of the management page into the tree: `python tools/vendor_web.py`. Users never run it.

The page needs no build step, and its content security policy allows scripts from the page's own origin alone, inline
import maps included. So the few libraries that it uses are kept here as they were published, with one change: bare
specifiers (`from"preact"`) become relative paths, which browsers understand by themselves. `VENDORED.md` beside them
says for each file where it came from, its licence and its hash; `--check` compares the files with that list, offline.

What is published under a pinned version never changes, and `npm` verifies what it fetched against the registry's
checksum; the hash of the archive is written down too, so that a second run shows any difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "src" / "scale0" / "management" / "web" / "vendor"
TESTS = ROOT / "tests" / "web" / "vendor"


class Library(NamedTuple):
    """A package at a pinned version, and which of its files become which of ours."""

    package: str
    version: str
    files: dict[str, str]
    licence_file: str = "LICENSE"


FOR_THE_PAGE = (
    Library("preact", "11.2.0", {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"}),
    Library("htm", "3.1.1", {"dist/htm.mjs": "htm.js"}),
    Library("@preact/signals-core", "1.14.5", {"dist/signals-core.mjs": "signals-core.js"}),
    Library("@preact/signals", "2.11.4", {"dist/signals.mjs": "signals.js"}),
    Library("uplot", "1.6.32", {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"}),
)
FOR_TESTS = (Library("axe-core", "4.14.0", {"axe.min.js": "axe.js"}),)

SPECIFIERS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
    "htm": "./htm.js",
}
"""What a bare specifier means here."""

ROW = re.compile(r"^\| `([^`]+)` \| .* \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the files with VENDORED.md; fetch nothing")
    if parser.parse_args().check:
        wrong = [*differences(PAGE), *differences(TESTS)]
        print("\n".join(wrong) or "vendored files are as they were recorded")
        return 1 if wrong else 0
    for place, libraries in ((PAGE, FOR_THE_PAGE), (TESTS, FOR_TESTS)):
        vendor(libraries, place)
    return 0


def vendor(libraries: tuple[Library, ...], place: Path) -> None:
    """Fetches the libraries into `place` and writes its list and its licences."""
    place.mkdir(parents=True, exist_ok=True)
    rows, licences = [], []
    for library in libraries:
        with tempfile.TemporaryDirectory() as scratch:
            archive = fetch(library, Path(scratch))
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            unpacked = Path(scratch) / "package"
            licence = json.loads((unpacked / "package.json").read_text())["license"]
            for source, name in library.files.items():
                kept = rewritten((unpacked / source).read_bytes())
                (place / name).write_bytes(kept)
                origin = f"{library.package} {library.version}, {source}"
                rows.append(f"| `{name}` | {origin} | {licence} | `{sha256(archive.read_bytes())[:16]}…` "
                            f"| `{sha256(kept)}` |")  # fmt: skip
            text = (unpacked / library.licence_file).read_text().strip()
            licences.append(f"{library.package} {library.version} ({licence})\n\n{text}\n")
    (place / "LICENSES.txt").write_text(("\n" + "=" * 78 + "\n\n").join(licences))
    (place / "VENDORED.md").write_text(page(rows))
    print(f"{len(rows)} files in {place.relative_to(ROOT)}")


def fetch(library: Library, scratch: Path) -> Path:
    """The published archive, by npm, which checks it against the registry's checksum."""
    command = ["npm", "pack", "--silent", f"{library.package}@{library.version}"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: npm could not fetch {library.package} {library.version}:\n{done.stderr.strip()}")
    return scratch / done.stdout.strip().splitlines()[-1]


def rewritten(source: bytes) -> bytes:
    """With relative paths for bare specifiers, and without a pointer to a source map that is not here."""

    def relative(match: re.Match[bytes]) -> bytes:
        name = match[2].decode()
        return match[1] + b'"' + SPECIFIERS.get(name, name).encode() + b'"'

    source = re.sub(rb'\b((?:from|import)\s*)["\']([^"\']+)["\']', relative, source)
    return re.sub(rb"\n?(?://|/\*)# sourceMappingURL=[^\n*]*(?:\*/)?\s*$", b"\n", source)


def page(rows: list[str]) -> str:
    return "\n".join(
        [
            "# Vendored files",
            "",
            "Written by `python tools/vendor_web.py`; do not edit the files. Bare specifiers were made relative, and",
            "nothing else was changed. `LICENSES.txt` has the licences in full; `--check` compares with this list.",
            "",
            "| file | from npm | licence | archive's SHA-256 | file's SHA-256 |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def differences(place: Path) -> list[str]:
    """What is missing, changed or not on the list."""
    listed = dict(ROW.findall((place / "VENDORED.md").read_text()))
    found = {path.name: sha256(path.read_bytes()) for path in place.iterdir() if path.suffix in (".js", ".css")}
    return [
        f"{place.name}/{name}: recorded {listed.get(name, 'nowhere')}, found {found.get(name, 'nothing')}"
        for name in sorted(listed.keys() | found.keys())
        if listed.get(name) != found.get(name)
    ]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
