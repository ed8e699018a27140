"""What a person sees who runs `everbrook serve`."""

import re
import socket
import subprocess
from pathlib import Path

from tests.kit.server_process import EVERBROOK, environment, serving


def run(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [EVERBROOK, "serve", *arguments],
        cwd=folder,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )


def test_the_banner_says_where_it_listens_and_what_it_promises(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert re.fullmatch(r"everbrook listens on (http://127\.0\.0\.1:\d+); its page is \1/ui/\n", server.banner[0])
        assert server.banner[1] == "storage memory: streams are gone when this process ends\n"
        with server.connect() as wire:
            assert wire.get("/healthz").status == 200
        code, out, err = server.stop().ended()
        assert (code, out.startswith("everbrook is stopping"), err) == (0, True, "")


def test_an_ipv6_address_is_written_as_in_a_url(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "::1") as server:
        assert re.fullmatch(r"everbrook listens on (http://\[::1\]:\d+); its page is \1/ui/\n", server.banner[0])


def test_a_port_that_is_taken_is_one_line_that_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run(tmp_path, "--port", str(port))
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1
    assert str(port) in ran.stderr
    assert "in use" in ran.stderr


def test_a_host_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    ran = run(tmp_path, "--host", "no-such-host.invalid", "--port", "0")
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "no-such-host.invalid" in ran.stderr


def test_settings_of_the_environment_reach_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, DS_LIMITS__MAX_APPEND_BYTES="10") as server, server.connect() as wire:
        wire.create("/v1/stream/a")
        assert wire.append("/v1/stream/a", b"a" * 11).status == 413


def test_bad_requests_are_not_written_to_the_log(tmp_path: Path) -> None:
    """Whoever can send bytes could fill the disk."""
    with serving(tmp_path) as server:
        for request in (b"nonsense\r\n\r\n", b"GET /v1/stream/%zz HTTP/1.1\r\nHost: a\r\n\r\n"):
            with server.connect() as wire:
                assert wire.send(request).read().status == 400
        with server.connect() as wire:
            wire.ask("GET", "/healthz").reset()
        assert server.stop().ended()[2] == ""


def test_memory_beside_a_store_needs_a_flag(tmp_path: Path) -> None:
    with serving(tmp_path, DS_STORAGE__MODE="acid") as server:
        server.stop().ended()
    ran = run(tmp_path, "--port", "0", "--storage", "memory")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 1)
    assert "./data/streams holds a store of storage acid, which storage memory does not use" in ran.stderr
    with serving(tmp_path, "--storage", "memory", "--allow-unused-store") as server:
        assert server.banner[1].startswith("storage memory")


def test_the_setting_does_what_the_flag_does(tmp_path: Path) -> None:
    with serving(tmp_path, DS_STORAGE__MODE="acid") as server:
        server.stop().ended()
    with serving(tmp_path, DS_STORAGE__ALLOW_UNUSED_STORE="true") as server:
        assert server.banner[1].startswith("storage memory")
