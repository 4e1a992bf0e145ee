"""The page's files: from the package, compressed, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.management.http import reading
from scale0.management.http.files import Files
from tests.management.http.support import Running, running


@pytest.fixture
def web(tmp_path: Path) -> Path:
    (tmp_path / "web" / "vendor").mkdir(parents=True)
    (tmp_path / "web" / "index.html").write_text("<!doctype html><title>Scale0</title>")
    (tmp_path / "web" / "vendor" / "a.js").write_text("export const a = 1;\n" * 100)
    (tmp_path / "web" / "secret.key").write_text("sesame")
    (tmp_path / "outside.js").write_text("sesame")
    return tmp_path / "web"


def test_files_are_handed_out_compressed_with_their_type_and_tag(web: Path) -> None:
    with running(paths=Files(web).paths()) as page:
        answer = page.get("/static/vendor/a.js", "")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.text.startswith("export const a")
        plain = page.get("/static/vendor/a.js", "", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.text == answer.text
        again = page.get("/static/vendor/a.js", "", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert page.get("/", "").text.startswith("<!doctype html>")


@pytest.mark.parametrize(
    "path",
    ["../outside.js", "..%2foutside.js", "vendor/../../outside.js", "secret.key", "vendor", "", "%00", "a\\..\\b"],
)
def test_nothing_else_can_be_asked_for(web: Path, path: str) -> None:
    with running(paths=Files(web).paths()) as page:
        answer = page.get(f"/static/{path}", "")
        assert answer.status_code == 404
        assert "sesame" not in answer.text


def test_the_real_page_is_there(page: Running) -> None:
    answer = page.get("/", "")
    assert answer.status_code == 200
    assert "<script" not in answer.text or 'src="' in answer.text


def test_routes_that_only_look_need_no_files() -> None:
    with running(paths=reading.paths()) as page:
        assert page.get("/healthz", "").status_code == 200
