"""Files are complete or absent."""

import errno

import pytest

from invlift.files.atomic import replace_on_success


def test_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def interrupted():
        with replace_on_success(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_unfinished_file_has_the_ending_but_not_the_name_of_the_finished_one(tmp_path):
    path = tmp_path / "new" / "chain-0-00000010.npz"
    with replace_on_success(path) as temporary:
        temporary.write_bytes(b"half")
        assert temporary.suffix == ".npz"
        assert list(path.parent.glob("chain-*.npz")) == []
    assert list(path.parent.iterdir()) == [path]


def test_an_error_of_the_system_names_the_file(tmp_path):
    path = tmp_path / "draws.npz"
    with pytest.raises(OSError, match="No space left") as caught, replace_on_success(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(path)
    with pytest.raises(PermissionError) as caught, replace_on_success(path) as temporary:
        raise PermissionError(errno.EACCES, "Permission denied", str(temporary))
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught, replace_on_success(path):
        pass  # there is nothing to rename
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught, replace_on_success(path):
        (tmp_path / "mine").read_bytes()
    assert caught.value.filename == str(tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []
