"""Vocabularies of large files kept on disk: the same as read, for as long as nothing they were read from changes."""

import json

import numpy as np
import pytest

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens import vocabulary
from fsmc.compiler.tokens.decoders import byte_alphabet
from fsmc.compiler.tokens.vocabulary_cache import SMALLEST


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A tokenizer of more than a megabyte, and a cache folder of its own."""
    monkeypatch.setenv("FSMC_CACHE_DIR", str(tmp_path / "cache"))
    letters = "".join(byte_alphabet())
    vocab = {letter: i for i, letter in enumerate(letters)}
    vocab |= {f"{'long' * 30}{i}": 256 + i for i in range(SMALLEST // 120)}
    vocab["</s>"] = len(vocab)
    special = [{"id": vocab["</s>"], "content": "</s>", "special": True}]
    document = {"added_tokens": special, "pre_tokenizer": None, "decoder": {"type": "ByteLevel"}}
    document["model"] = {"type": "BPE", "vocab": vocab, "merges": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    return tmp_path


def read(path, **arguments):
    return vocabulary.Vocabulary.from_file(path, **arguments)


def parts(vocab):
    return (
        *(vocab.tokens, vocab.eos_token_ids, vocab.special_token_ids, dict(vocab.special_texts), vocab.fingerprint),
        *(vocab.token_bytes.dtype, vocab.token_offsets.dtype, vocab.size),
    )


def no_reading(monkeypatch):
    monkeypatch.setattr(vocabulary, "read_table", lambda *arguments: pytest.fail("it is on disk"))


def test_the_second_process_reads_what_the_first_kept(folder, monkeypatch):
    first = read(folder)
    assert first.eos_token_ids == first.special_token_ids == (first.size - 1,)
    no_reading(monkeypatch)
    again = read(folder)
    assert parts(again) == parts(first) and again.special_texts[first.size - 1] == b"</s>"
    assert not again.token_bytes.flags.writeable
    assert len(list((folder / "cache").iterdir())) == 1


def test_whatever_it_was_read_from_counts(folder):
    plain, others = read(folder), []
    others.append(read(folder, eos_token_ids=[3]))
    others.append(read(folder, vocab_size=plain.size + 7))
    (folder / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    others.append(read(folder))
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace("longlong", "longlang", 1))
    others.append(read(folder))
    assert [vocab.eos_token_ids for vocab in others[:1]] == [(3,)]
    assert others[1].size == plain.size + 7 and {5, 6} < set(others[2].eos_token_ids)
    assert len({vocab.fingerprint for vocab in (plain, *others)}) == 5
    assert parts(read(folder, eos_token_ids=[3]))[0] != parts(others[0])[0]  # the file is another one by now


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_a_damaged_file_is_made_again(folder, damage, monkeypatch):
    expected = parts(read(folder))
    (kept,) = (folder / "cache").iterdir()
    good = kept.read_bytes()
    kept.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:] if damage is None else damage)
    assert parts(read(folder)) == expected
    no_reading(monkeypatch)
    assert parts(read(folder)) == expected


def test_another_vocabulary_under_the_same_name_is_not_believed(folder):
    expected = parts(read(folder))
    (kept,) = (folder / "cache").iterdir()
    read(folder, eos_token_ids=[3])
    (other,) = set((folder / "cache").iterdir()) - {kept}
    kept.write_bytes(other.read_bytes())
    assert parts(read(folder)) == expected


def test_a_folder_that_cannot_be_written_is_no_error(folder, monkeypatch):
    (folder / "taken").write_text("a file")
    monkeypatch.setenv("FSMC_CACHE_DIR", str(folder / "taken"))
    assert parts(read(folder)) == parts(read(folder))


def test_errors_and_small_files_leave_nothing(folder):
    with pytest.raises(VocabularyError, match="outside the vocabulary"):
        read(folder, eos_token_ids=[10**6])
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text()[:-SMALLEST])
    with pytest.raises(VocabularyError, match="not JSON, or truncated"):
        read(folder)
    small = folder / "ranks.tiktoken"
    small.write_bytes(b"YQ== 0\nYg== 1\n")
    assert read(small, eos_token_ids=[]).tokens == (b"a", b"b")
    assert not (folder / "cache").exists()


def test_bytes_are_those_of_the_file(folder):
    read(folder)
    vocab = read(folder)
    lengths = np.diff(vocab.token_offsets)
    assert lengths[:256].tolist() == [1] * 256 and sorted(vocab.tokens[:256]) == [bytes([i]) for i in range(256)]
