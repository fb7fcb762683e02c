"""General categories, and the tables' cache files: exact, shared, and never trusted blindly."""

import os
import stat
import unicodedata

import pytest

from fsmc.compiler.syntax import unicode_tables
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.unicode_tables import general_category, unicode_table, unicode_word


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("FSMC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["Lu", "Nd", "Sm", "Cn", "Co", "L", "C", "LC", "P"])
def test_categories_character_by_character(name):
    members = ("Lu", "Ll", "Lt") if name == "LC" else (name,)
    expected = [c for c in map(chr, range(0x110000)) if unicodedata.category(c).startswith(members)]
    assert general_category(name) == CharClass.from_ranges((ord(c), ord(c)) for c in expected)


def test_categories_part_all_characters():
    groups = [general_category(name) for name in "LMNPSZC"]
    assert sum(map(len, groups)) == len(general_category("Any"))
    assert general_category("Assigned") == ~general_category("Unassigned")
    assert not general_category("Cs"), "surrogates are no characters"


@pytest.mark.parametrize("name", ["Lx", "", "Greek", "L&", "Lu Ll"])
def test_unknown_category(name):
    with pytest.raises(KeyError):
        general_category(name)


def digits():
    return unicode_tables._spans(r"\d+")


def never():
    raise AssertionError("the file should have been read")


def test_written_once_then_read(cache_dir):
    table = unicode_table("digit", digits)
    assert (unicode_table("digit", never) == table).all()
    (file,) = cache_dir.iterdir()  # no temporary file is left
    assert unicodedata.unidata_version in file.name


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "foreign", "other table", "directory"])
def test_damaged_file_is_replaced(cache_dir, damage):
    table = unicode_table("digit", digits)
    (path,) = cache_dir.iterdir()
    data = path.read_bytes()
    if damage == "other table":
        unicode_table("word", lambda: unicode_tables._spans(r"\w+"))
        (other,) = set(cache_dir.iterdir()) - {path}
        os.replace(other, path)
    elif damage == "directory":
        path.unlink()
        path.mkdir()
    else:
        middle = len(data) // 2
        changed = {"truncated": data[:middle], "empty": b"", "foreign": b"not a table" * 100}
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes(changed.get(damage, flipped))
    assert (unicode_table("digit", digits) == table).all()
    if damage != "directory":
        assert (unicode_table("digit", never) == table).all()
    assert len(list(cache_dir.iterdir())) == 1


def test_folder_that_cannot_be_written(cache_dir):
    cache_dir.parent.mkdir(exist_ok=True)
    cache_dir.write_text("a file where the folder should be")
    assert len(unicode_table("digit", digits)) > 50


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_read_only_folder(cache_dir):
    cache_dir.mkdir()
    cache_dir.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert len(unicode_table("digit", digits)) > 50
    assert not list(cache_dir.iterdir())


def test_word_is_letters_numbers_and_underscore():
    # not by definition but in fact: str.isalnum is what re asks
    assert unicode_word() == general_category("L") | general_category("N") | CharClass.of("_")
