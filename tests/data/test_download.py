from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
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
        thread = threading.Thread(target=running.serve_forever)
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
