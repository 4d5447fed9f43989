"""What cannot be read is told in one line: nothing hangs, nothing fills the memory."""

import os
from pathlib import Path

import pytest

from invlift.errors import InputError, printable
from invlift.files.input_files import read_input, read_text

LIMIT = {"remedy": "look elsewhere", "max_bytes": 100}


def refused(path, reader=read_input):
    with pytest.raises(InputError) as caught:
        reader(Path(path), "given", "a table", **LIMIT)
    assert str(caught.value).startswith("given: expected a table")
    return str(caught.value)


def test_content_is_read_whole(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbf" + "Höhe".encode())
    assert read_input(path, "a", "a table", **LIMIT) == path.read_bytes()
    assert read_text(path, "a", "a table", **LIMIT) == "Höhe"
    path.write_bytes(b"x" * 100)
    assert len(read_input(path, "a", "a table", **LIMIT)) == 100


def test_what_is_no_file(tmp_path):
    assert "no such file; look elsewhere" in refused(tmp_path / "none")
    assert "a directory" in refused(tmp_path)
    assert "null" in refused("a\0b")
    os.mkfifo(tmp_path / "pipe")
    assert "a device or a pipe" in refused(tmp_path / "pipe")
    assert "a device or a pipe" in refused("/dev/zero")
    assert "File name too long" in refused("x" * 5000)


def test_what_is_too_large_or_no_text(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 101)
    assert "a larger file" in refused(path)
    path.write_bytes(b"\xff\xfe\0")
    assert "not text in UTF-8" in refused(path, read_text)


def test_what_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "secret"
    path.write_bytes(b"x")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # not by its mode: root may read everything
    assert "Permission denied" in refused(path)


def test_messages_hold_nothing_that_a_terminal_acts_on():
    error = InputError("a\x1b[2J.toml", "a\r\nline", "\x07\u202e\udcff", "correct Höhe: ½ 温度")
    assert str(error) == (
        "a\\x1b[2J.toml: expected a line, found \\x07\\u202e\\udcff; correct Höhe: ½ 温度"
    )
    assert printable("plain text, Höhe") == "plain text, Höhe"
