"""Masks of what all schemas have in common: made once for a vocabulary, kept in a file, mapped by every process."""

import json

import numpy as np
import pytest

import fsmc
from fsmc.compiler.schema.machine import any_value
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.shared_masks import KIND, share_masks
from fsmc.compiler.tokens import lazy_masks
from fsmc.compiler.tokens.store import load_arrays, save_arrays
from fsmc.compiler.tokens.trie import trie_of

SCHEMA = {"properties": {"a": {"type": "string"}, "b": {"type": "number"}, "c": {"enum": [None, True]}}}
TEXT = json.dumps({"a": 'x"y', "b": -1.5e3, "c": None, "other": [1, {"z": ""}]}).encode()


def vocabulary() -> fsmc.Vocabulary:
    """A new one each time, as another process would have it."""
    tokens = [bytes([i]) for i in range(256)]
    tokens += [a + b for a in (b"", b" ", b"ab", b"1", b"\n ") for b in (b'"', b'",', b'":', b"}", b", ", b"]}", b"a1")]
    return fsmc.Vocabulary.from_tokens(list(dict.fromkeys(tokens)))


def masks_along(compiler: fsmc.GrammarCompiler) -> list[bytes]:
    matcher = fsmc.GrammarMatcher(compiler.compile_json_schema(SCHEMA))
    mask, found = fsmc.allocate_token_bitmask(1, compiler.vocab.size), []
    for byte in TEXT:
        matcher.fill_next_token_bitmask(mask)
        found.append(mask.tobytes())
        assert matcher.accept_bytes(bytes([byte]))
    return found


def shared_rows(vocab: fsmc.Vocabulary) -> dict:
    return lazy_masks._shared[trie_of(vocab)]


def test_a_file_is_made_once_and_mapped(tmp_path, monkeypatch):
    expected = masks_along(fsmc.GrammarCompiler(vocabulary(), cache_dir=None))
    assert masks_along(fsmc.GrammarCompiler(vocabulary(), cache_dir=tmp_path)) == expected
    (path,) = (tmp_path / "masks").iterdir()
    monkeypatch.setattr(lazy_masks.LazyMasks, "walk_shared", lambda self: pytest.fail("it is on disk"))
    compiler = fsmc.GrammarCompiler(vocabulary(), cache_dir=tmp_path)
    assert masks_along(compiler) == expected
    row = next(row for row in shared_rows(compiler.vocab).values() if isinstance(row, lazy_masks.SharedRow))
    assert not row.exits.flags.owndata and not row.exits.flags.writeable
    assert [path] == list((tmp_path / "masks").iterdir())
    assert compiler.cache.clear() == 0 and not list((tmp_path / "masks").iterdir())


def test_all_states_are_walked_before_a_text_gets_there():
    compiler = fsmc.GrammarCompiler(vocabulary(), cache_dir=None)
    assert compiler.compile_json_schema(True).masks.n_rows == 0
    names = {name for _, name in lazy_masks.LazyMasks.shared_states(any_value(TextOptions()))}
    assert names <= set(shared_rows(compiler.vocab)) and len(names) > 50


@pytest.mark.parametrize("damage", ["cut", "flip", "other vocabulary", "ids", "names"])
def test_a_file_that_is_not_right_is_made_again(tmp_path, damage, caplog):
    vocab = vocabulary()
    share_masks(vocab, TextOptions(), tmp_path)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    right = {name: array.copy() for name, array in load_arrays(path, kind=KIND)[0].items()}
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    else:
        arrays, metadata = load_arrays(path, kind=KIND)
        metadata = {name: value for name, value in metadata.items() if name != "checksum"}
        if damage == "ids":
            arrays = arrays | {"ids": np.full_like(arrays["ids"], vocab.size)}
        elif damage == "names":
            metadata["names"] = "[]"
        else:
            metadata["vocabulary"] = "x"
        save_arrays(path, arrays, metadata)
    again = vocabulary()
    share_masks(again, TextOptions(), tmp_path)
    assert "made again" in caplog.text
    arrays, _ = load_arrays(path, kind=KIND)
    assert all(np.array_equal(arrays[name], array) for name, array in right.items())
    assert len(shared_rows(again)) == len(shared_rows(vocab))


def test_a_folder_that_cannot_be_written_does_not_matter(tmp_path):
    (tmp_path / "file").write_text("")
    vocab = vocabulary()
    share_masks(vocab, TextOptions(), tmp_path / "file" / "masks")
    assert shared_rows(vocab)


def test_a_pattern_is_walked_once_for_all_its_callers(monkeypatch):
    """A pattern of bounded length has no loops, and yet allows most tokens: the second caller finds what stays inside it known."""
    words = [bytes([byte]) for byte in b'[]", '] + [b"%d" % n for n in range(2000)]
    vocab = fsmc.Vocabulary.from_tokens([*words, *(b'%d",' % n for n in range(50)), *(b'%d"]' % n for n in range(50))])
    schema = {"items": {"type": "string", "pattern": "^[0-9]{1,200}$"}, "type": "array", "minItems": 4, "maxItems": 9}
    text = b'["12", "12", "12", "12", "7"]'

    def rows() -> tuple[list[bytes], lazy_masks.LazyMasks, list[bytes]]:
        matcher = fsmc.GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_json_schema(schema))
        mask, found, inside = fsmc.allocate_token_bitmask(1, vocab.size), [], []
        for i in range(len(text)):
            matcher.fill_next_token_bitmask(mask)
            found.append(mask.tobytes())
            if text[:i].endswith(b'"1'):
                inside.append(mask.tobytes())
            assert matcher.accept_bytes(text[i : i + 1])
        return found, matcher.grammar.masks, inside

    expected, plain, _ = rows()
    monkeypatch.setattr(lazy_masks, "_MANY", 20)  # of this vocabulary a row has 33
    found, masks, inside = rows()
    assert found == expected and len(set(inside)) == 2  # the list may end after the fourth item
    assert not plain._heavy and masks._heavy
    split = [masks._sources.get(state) for state in masks._heavy]
    assert any(source is not None and source is not masks._whole and source.numbers[1] for source in split)
