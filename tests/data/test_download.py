from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from prorec import DownloadError
from prorec.data.download import RemoteFile, download

CONTENT = bytes(range(256)) * 5000


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT, with what can go wrong on the way: see the names of the paths."""

    ranges: list[str | None]
    breaks: int

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        type(self).ranges.append(asked)
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and "/deaf" not in self.path else 0
        if begin >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(CONTENT) - begin))
        self.end_headers()
        if type(self).breaks:
            type(self).breaks -= 1
            self.wfile.write(CONTENT[begin : begin + 300_000])
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(CONTENT[begin:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Server.ranges, Server.breaks = [], 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        running.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def remote(address: str) -> RemoteFile:
    return RemoteFile(address, f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")


def test_a_file_is_fetched_once(server: str, tmp_path: Path) -> None:
    path = download(remote(f"{server}/data.txt"), tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert download(remote(f"{server}/data.txt"), path.parent) == path
    assert Server.ranges == [None]
    assert list(path.parent.iterdir()) == [path]


def test_a_broken_download_goes_on_where_it_broke(server: str, tmp_path: Path) -> None:
    Server.breaks = 2
    assert download(remote(f"{server}/data.txt"), tmp_path).read_bytes() == CONTENT
    assert Server.ranges == [None, "bytes=300000-", "bytes=600000-"]


def test_a_partial_download_is_kept_for_the_next_run(server: str, tmp_path: Path) -> None:
    Server.breaks = 3
    with pytest.raises(DownloadError, match="could not be downloaded"):
        download(remote(f"{server}/data.txt"), tmp_path)
    assert not (tmp_path / "data.txt").exists()
    assert (tmp_path / "data.txt.part").stat().st_size == 900_000
    assert download(remote(f"{server}/data.txt"), tmp_path).read_bytes() == CONTENT
    assert Server.ranges[-1] == "bytes=900000-"


def test_a_server_that_cannot_resume_starts_over(server: str, tmp_path: Path) -> None:
    Server.breaks = 1
    assert download(remote(f"{server}/deaf.txt"), tmp_path).read_bytes() == CONTENT


def test_a_part_that_is_whole_already_is_taken(server: str, tmp_path: Path) -> None:
    (tmp_path / "data.txt.part").write_bytes(CONTENT)
    assert download(remote(f"{server}/data.txt"), tmp_path).read_bytes() == CONTENT


def test_a_file_with_a_wrong_digest_is_deleted(server: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="does not have the expected md5:00"):
        download(RemoteFile(f"{server}/data.txt", "md5:00"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_and_a_missing_server(server: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="404"):
        download(remote(f"{server}/missing.txt"), tmp_path)
    assert len(Server.ranges) == 1, "a clear no is not asked again"
    with pytest.raises(DownloadError, match="could not be downloaded"):
        download(remote("http://127.0.0.1:9/data.txt"), tmp_path)


# ── hostile servers ─────────────────────────────────────────────────────────────────────────────────


class HostileServer(BaseHTTPRequestHandler):
    """Answers as the part of the path after the first slash says."""

    paths: list[str]

    def do_GET(self) -> None:
        type(self).paths.append(self.path)
        if self.path.startswith("/redirect?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/redirect?"))
            self.end_headers()
        elif self.path.startswith("/announced"):
            self.send_response(200)
            self.send_header("Content-Length", str(10**15))
            self.end_headers()
        elif self.path.startswith("/endless"):
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(bytes(1 << 16))
        elif self.path.startswith("/length"):
            self.send_response(200)
            self.send_header("Content-Length", "-7 \u00e9")
            self.end_headers()
            self.wfile.write(CONTENT)
        elif self.path.startswith("/bomb"):
            content = gzip.compress(CONTENT)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        elif self.path.startswith("/words"):
            self.send_response(500, "\x1b[2J all your files are gone " * 50)
            self.end_headers()
        elif self.path.startswith("/data"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hostile() -> Iterator[str]:
    HostileServer.paths = []
    with ThreadingHTTPServer(("127.0.0.1", 0), HostileServer) as running:
        running.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("https://127.0.0.1/data.txt", "from http to https"),
        ("file:///etc/hostname", "the server answered 302"),
        ("ftp://127.0.0.1/data.txt", "from http to ftp"),
        ("http://10.0.0.1/data.txt", "from this machine to a private network"),
        ("http://169.254.169.254/latest", "from this machine to a private network"),
        ("http://8.8.8.8/data.txt", "from this machine to the internet"),
        ("http://[fe80::1]/data.txt", "from this machine to a private network"),
        ("http://[broken/data.txt", "could not be downloaded"),
    ],
)
def test_redirects_elsewhere_are_refused(target: str, message: str, hostile: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=message):
        download(remote(f"{hostile}/redirect?{target}"), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert set(HostileServer.paths) == {f"/redirect?{target}"}


def test_redirects_on_the_same_machine_are_followed(hostile: str, tmp_path: Path) -> None:
    address = RemoteFile(f"{hostile}/redirect?{hostile}/data.txt", remote("").digest)
    assert download(address, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["announced.txt", "endless.txt"])
def test_too_large_a_file_is_not_kept(path: str, hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prorec.data.download._MAX_BYTES", 3_000_000)
    with pytest.raises(DownloadError, match="must have at most 3,000,000 bytes"):
        download(remote(f"{hostile}/{path}"), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(HostileServer.paths) == 1


def test_a_strange_length_is_ignored(hostile: str, tmp_path: Path) -> None:
    assert download(remote(f"{hostile}/length.txt"), tmp_path).read_bytes() == CONTENT


def test_what_a_server_sends_is_not_decompressed(hostile: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="does not have the expected"):
        download(remote(f"{hostile}/bomb.txt"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_words_of_a_server_are_not_printed(hostile: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"the server answered 500 \(Internal Server Error\)$"):
        download(remote(f"{hostile}/words.txt"), tmp_path)


def test_a_file_in_the_cache_is_checked_too(hostile: str, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_bytes(b"something else")
    assert download(remote(f"{hostile}/data.txt"), tmp_path).read_bytes() == CONTENT
