"""An atomic write shows the old file or the whole new one, and leaves nothing else behind."""

from __future__ import annotations

import os
import stat

import pytest

from pivec.files import atomic_write


def test_text_and_bytes_arrive_unchanged(tmp_path):
    with atomic_write(tmp_path / "a.txt", "w") as file:
        file.write("ü\r\nline\n")
    with atomic_write(tmp_path / "b.bin") as file:
        file.write(b"\x00\r\n\xff")
    assert (tmp_path / "a.txt").read_bytes() == "ü\r\nline\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\r\n\xff"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.bin"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_keeps_the_old_file_and_removes_the_temporary_one(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail_halfway():
        with atomic_write(path, "w") as file:
            file.write("half of the n")
            file.flush()
            raise error

    with pytest.raises(error):
        fail_halfway()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_old_file_is_there_until_the_block_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path, "w") as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="permission bits are POSIX")
def test_new_files_obey_the_umask_and_old_ones_keep_their_mode(tmp_path):
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "new") as file:
        file.write(b"x")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "plain").stat().st_mode
    )
    (tmp_path / "new").chmod(0o640)
    with atomic_write(tmp_path / "new") as file:
        file.write(b"y")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with atomic_write(tmp_path / "link", "w") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    """But not those that are being written, which are locked, or of other files."""
    left, other = tmp_path / ".a.txt.0123456789abcdef.tmp", tmp_path / ".b.txt.0123.tmp"
    for path in (left, other):
        path.write_text("half")
        os.utime(path, (0, 0))
    with atomic_write(tmp_path / "a.txt", "w") as first:
        first.write("first")
        [used] = set(tmp_path.iterdir()) - {other}
        os.utime(used, (0, 0))
        with atomic_write(tmp_path / "a.txt", "w") as second:
            second.write("second")
    assert (tmp_path / "a.txt").read_text() == "first"
    assert set(tmp_path.iterdir()) == {tmp_path / "a.txt", other}


def test_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "none" / "a"):
        pass
