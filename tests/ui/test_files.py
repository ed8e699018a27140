"""The files of the page, as any client gets them."""

import gzip
import http.client
import re
from importlib.resources import files
from pathlib import Path

import pytest

from tests.kit.server_process import ServerProcess, serving

STATIC = Path(str(files("everbrook.server.ui") / "static"))


def get(server: ServerProcess, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(*server.address, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_the_address_without_a_slash_leads_to_the_page(server: ServerProcess) -> None:
    status, headers, _ = get(server, "/ui")
    assert (status, headers["location"]) == (308, "ui/")


def test_everything_is_fenced_in_by_a_strict_policy(server: ServerProcess) -> None:
    policy = get(server, "/ui/")[1]["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_whole_page_is_under_100_kb_compressed(server: ServerProcess) -> None:
    shipped = [path for path in STATIC.rglob("*") if path.is_file() and path.suffix != ".txt"]
    sizes = [len(get(server, f"/ui/{path.relative_to(STATIC)}", **{"Accept-Encoding": "gzip"})[2]) for path in shipped]
    assert sum(sizes) < 100_000


def test_a_file_is_sent_compressed_to_whoever_takes_that(server: ServerProcess) -> None:
    _, headers, body = get(server, "/ui/js/app.js", **{"Accept-Encoding": "gzip, br"})
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == (STATIC / "js/app.js").read_bytes()


def test_a_file_that_is_at_hand_is_not_sent_again(server: ServerProcess) -> None:
    etag = get(server, "/ui/")[1]["etag"]
    status, _, body = get(server, "/ui/", **{"If-None-Match": etag})
    assert (status, body) == (304, b"")


@pytest.mark.parametrize("path", ["/ui/../pages.py", "/ui/%2e%2e/pages.py", "/ui/js", "/ui/nothing.js", "/uix"])
def test_nothing_else_of_the_package_can_be_had(server: ServerProcess, path: str) -> None:
    assert get(server, path)[0] == 404


def imported(module: Path) -> set[Path]:
    """The modules that one can't begin without, itself included."""
    needed = {module}
    for name in re.findall(r'^import[^;]*?from "([^"]+)"', module.read_text(encoding="utf-8"), re.MULTILINE):
        needed |= imported((module.parent / name).resolve())
    return needed


def test_what_the_first_view_needs_is_announced_so_that_nothing_waits_for_another(server: ServerProcess) -> None:
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    announced = set(re.findall(r'(?:modulepreload" href|module"[^>]* src)="([^"]+)"', index))
    assert announced == {str(path.relative_to(STATIC.resolve())) for path in imported((STATIC / "js/app.js").resolve())}


def test_the_first_view_takes_few_files(server: ServerProcess) -> None:
    """A browser has six connections for a server, and every file costs it milliseconds."""
    index = get(server, "/ui/")[2].decode()
    assert len(set(re.findall(r'(?:href|src)="([^"]+)"', index))) <= 13


def test_no_file_names_another_host(server: ServerProcess) -> None:
    own = [
        path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts and path.suffix != ".svg"
    ]
    assert not [path.name for path in own if re.search(r"https?://(?!127)[\w.]", path.read_text(encoding="utf-8"))]


def test_a_setting_turns_the_page_off(tmp_path: Path) -> None:
    with serving(tmp_path, DS_UI__ENABLED="false") as server:
        assert get(server, "/ui/")[0] == 404
