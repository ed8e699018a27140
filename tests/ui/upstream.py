"""The upstream example page (`examples/test-ui`), built and run beside Everbrook: `make upstream-page`.

It must list our streams, which it learns of by `__registry__`, and follow one. Its source comes from a checkout
(`--source`) or from GitHub at the pinned commit, its packages from npm; nothing of it is kept in this repository. It is
built, not run in development: there React mounts everything twice, and the page closes the streams that it leaves.
"""

import argparse
import contextlib
import io
import json
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect

from everbrook import Client
from tests.browser import chromium
from tests.client.conformance.source import REPOSITORY, pinned_commit
from tests.server.process import serving
from tools.node import Node, NodeUnavailable, find_node

FOLDER = Path(__file__).parent
BUILD = FOLDER / "build"
EXAMPLE = "examples/test-ui"
PORT_IN_SOURCE = ":4437"
PATIENCE_SECS = 30.0
BUILD_TIMEOUT_SECS = 900
# The packages of upstream's own repository, at the versions that the client is tried with.
VERSIONS = json.loads((FOLDER.parent / "interop" / "package.json").read_text(encoding="utf-8"))["dependencies"]


def main() -> int:
    """Build the page, look at it, and say what it showed."""
    parser = argparse.ArgumentParser(prog="python -m tests.ui.upstream", description=__doc__)
    parser.add_argument("--source", type=Path, help="a git checkout that has the pinned commit; GitHub otherwise")
    source = parser.parse_args().source
    try:
        node = find_node()
        folder = installed(node, source)
    except (NodeUnavailable, subprocess.SubprocessError) as error:
        print(f"the upstream page can't be built: {error}", file=sys.stderr)  # noqa: T201
        return 2
    port = free_port()
    build(node, folder, port)
    with tempfile.TemporaryDirectory() as data, serving(Path(data), "--port", str(port)), preview(node, folder) as url:
        look(url, f"http://127.0.0.1:{port}")
    print(f"{EXAMPLE} at {pinned_commit()[:12]} lists and follows streams of Everbrook")  # noqa: T201
    return 0


def installed(node: Node, checkout: Path | None) -> Path:
    """Fetch the source of the page, with what it needs installed beside it."""
    folder = BUILD / pinned_commit()
    if not (folder / "node_modules").is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(archive(checkout))) as tar:
            tar.extractall(folder, filter="data")
        wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        for name in wanted["dependencies"]:
            if wanted["dependencies"][name].startswith("workspace:"):
                wanted["dependencies"][name] = VERSIONS[name]
        (folder / "package.json").write_text(json.dumps(wanted), encoding="utf-8")
        run([*node.npm, "install", "--legacy-peer-deps", "--no-audit", "--no-fund"], folder, node)
    return folder


def archive(checkout: Path | None) -> bytes:
    """The example as a tar archive."""
    commit, repository = pinned_commit(), checkout or BUILD / "upstream.git"
    if checkout is None:
        repository.mkdir(parents=True, exist_ok=True)
        run(["git", "init", "--quiet", "--bare"], repository)
        run(["git", "fetch", "--quiet", "--depth=1", REPOSITORY, commit], repository)
    return run(["git", "archive", "--format=tar", f"{commit}:{EXAMPLE}"], repository)


def build(node: Node, folder: Path, port: int) -> None:
    """Build the page for a server at a port of ours."""
    source = folder.with_name(f"{folder.name}-source")
    if not source.is_dir():
        shutil.copytree(folder / "src", source)
    shutil.rmtree(folder / "src")
    shutil.copytree(source, folder / "src")
    for path in (folder / "src").rglob("*.ts*"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(PORT_IN_SOURCE, f":{port}"), encoding="utf-8")
    run([str(node.executable), "node_modules/vite/bin/vite.js", "build"], folder, node)


@contextmanager
def preview(node: Node, folder: Path) -> Iterator[str]:
    """Serve what was built."""
    port = free_port()
    command = [str(node.executable), "node_modules/vite/bin/vite.js", "preview", "--host", "127.0.0.1"]
    with subprocess.Popen([*command, "--port", str(port), "--strictPort"], cwd=folder, stdout=subprocess.DEVNULL) as it:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}/"
        finally:
            it.terminate()


def look(url: str, server: str) -> None:
    """See that the page lists a stream that was there, one that comes, and follows it."""
    with Client(server) as client, chromium() as browser:
        # The page makes this one itself only with an older client of its own.
        client.stream("__presence__").create(content_type="application/json")
        stream = client.stream("was-there", content_type="text/plain")
        stream.create()
        stream.append("first words")
        page = browser.new_page()
        page.goto(url)
        expect(page.get_by_text("was-there").first).to_be_visible(timeout=PATIENCE_SECS * 1000)
        client.stream("came-later", content_type="text/plain").create()
        expect(page.get_by_text("came-later").first).to_be_visible(timeout=PATIENCE_SECS * 1000)
        page.get_by_text("was-there").first.click()
        expect(page.get_by_text("first words").first).to_be_visible(timeout=PATIENCE_SECS * 1000)
        stream.append(" and more, live")
        expect(page.get_by_text("and more, live").first).to_be_visible(timeout=PATIENCE_SECS * 1000)
        client.stream("came-later").delete()
        expect(page.get_by_text("came-later")).to_have_count(0, timeout=PATIENCE_SECS * 1000)


def free_port() -> int:
    """A port that nobody listens at."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until somebody listens at a port."""
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody listens at port {port} after {PATIENCE_SECS:.0f} s")
        time.sleep(0.1)


def run(command: list[str], folder: Path, node: Node | None = None) -> bytes:
    """Run a command to its end; what it wrote is in the error if it fails."""
    environment = node.environment() if node else None
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, timeout=BUILD_TIMEOUT_SECS
    )
    if done.returncode:
        said = (done.stdout[-1500:] + done.stderr[-1500:]).decode(errors="replace")
        raise subprocess.SubprocessError(f"'{' '.join(command)}' ended with {done.returncode}:\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
