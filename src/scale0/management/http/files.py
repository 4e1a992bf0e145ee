"""The page's own files: read once, compressed once, and found by their name in a table rather than on the disk.

Nothing outside the table can be asked for, whatever a path says. A browser keeps a file and asks with its hash whether
it changed. All that there is comes from the package: nothing is fetched from elsewhere, by us or by the browser.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path as FilePath
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from scale0.management.http.routing import Answer, Call, Open, Parameter, Path
from scale0.management.http.shapes import Refused
from scale0.management.web import squeezed

WEB: Final = FilePath(__file__).parent.parent / "web"
FILES_MAX: Final = 500
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".ico": "image/x-icon",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}
"""Kinds of files that are handed out; others in the directory are not."""


class File(msgspec.Struct, frozen=True):
    media: str
    content: bytes
    packed: bytes
    tag: str


class Files:
    """The files of a directory, by their path in it."""

    def __init__(self, directory: FilePath = WEB) -> None:
        self._files: dict[str, File] = {}
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.suffix in TYPES and len(self._files) < FILES_MAX:
                name = path.relative_to(directory).as_posix()
                self._files[name] = file_of(TYPES[path.suffix], squeezed(name, path.read_bytes()))

    def answer(self, name: str, request: Request) -> Response:
        file = self._files.get(name)
        if file is None:
            raise Refused(404, f"no file {name[:80]!r} here", "the page is at /")
        return file_answer(file, request)

    def paths(self) -> list[Path]:
        async def index(call: Call) -> ASGIApp:
            return self.answer("index.html", call.request)

        async def static(call: Call) -> ASGIApp:
            return self.answer(call.request.path_params["path"], call.request)

        return [
            Path(
                method="GET",
                path="/",
                name="page",
                tag="page",
                summary="the operators' page",
                handler=index,
                needs=Open.TO_ALL,
                answers=(Answer(200, "the page", media="text/html"),),
            ),
            Path(
                method="GET",
                path="/static/{path:path}",
                name="static",
                tag="page",
                summary="a file of the page",
                handler=static,
                needs=Open.TO_ALL,
                takes=(Parameter("path", {"type": "string"}, "the file's path", "path", is_needed=True),),
                answers=(Answer(200, "the file", media="*/*"),),
            ),
        ]


def file_of(media: str, content: bytes) -> File:
    tag = hashlib.sha256(content).hexdigest()[:32]
    return File(media, content, gzip.compress(content, 9, mtime=0), f'"{tag}"')


def file_answer(file: File, request: Request) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    is_packed = "gzip" in request.headers.get("accept-encoding", "").lower() and len(file.packed) < len(file.content)
    if is_packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.packed if is_packed else file.content, 200, headers, file.media)
