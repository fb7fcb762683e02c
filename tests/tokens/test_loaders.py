"""Tokenizer files and objects, in miniature: what each format says about bytes, special tokens and ends of text."""

import base64
import json
from pathlib import Path

import pytest

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.decoders import byte_alphabet, piece_decoder
from fsmc.compiler.tokens.tokenizer_json import parse_tokenizer_json
from fsmc.compiler.tokens.vocabulary import Vocabulary

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
SPACES = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
LLAMA2 = [SPACES, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]


def sequence(*steps):
    return {"type": "Sequence", "decoders": list(steps)}


def added(token_id, content, special):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": content, "special": special, **flags}


def document(vocab, decoder, added_tokens=(), **model):
    return {
        "version": "1.0",
        "added_tokens": list(added_tokens),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": decoder,
        "model": {"type": "BPE", **model, "vocab": vocab, "merges": ["a b", ["]", "}"]]},
    }


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="tokenizer.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write_file


# --- tokenizer.json ---------------------------------------------------------------------------------------------


def test_byte_level_pieces_are_decoded_and_added_tokens_are_not(write):
    vocab = {"a": 0, "Ġyes": 1, "Ã©": 2, "Ċ": 3, "<|end|>": 4, "raw space": 5, "猫": 6}
    more = [added(4, "<|end|>", True), added(7, "Ġé", False), added(9, "  ", False)]
    vocabulary = Vocabulary.from_file(write(document(vocab, BYTE_LEVEL, more)))
    assert vocabulary.tokens == (
        *(b"a", b" yes", "é".encode(), b"\n", b""),
        *(b"raw space", "猫".encode()),  # characters outside the alphabet: the library takes such a piece as it is
        *("Ġé".encode(), b"", b"  "),  # added tokens as written; id 8 is a hole
    )
    assert vocabulary.special_token_ids == (4,)


def test_byte_alphabet_covers_every_byte_once():
    alphabet = byte_alphabet()
    assert sorted(alphabet.values()) == list(range(256))
    assert all(c.isprintable() and c != " " for c in alphabet)


SENTENCEPIECE_CASE = {"<unk>": 0, "<s>": 1, "</s>": 2, "<0x0A>": 3, "<0x79>": 4, "▁": 5, "▁yes": 6, "yes": 7, "▁▁": 8}
SENTENCEPIECE_BYTES = (b"", b"", b"", b"\n", b"y", b" ", b" yes", b"yes", b"  ")


@pytest.mark.parametrize(
    ("decoder", "model"),
    [
        (sequence(*LLAMA2), {}),
        (sequence(*LLAMA2[:3]), {}),
        (sequence({"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}), {}),
        ({"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}, {"byte_fallback": True}),
    ],
)
def test_sentencepiece_style_pieces_keep_their_space(write, decoder, model):
    specials = [added(0, "<unk>", True), added(1, "<s>", True), added(2, "</s>", True)]
    vocabulary = Vocabulary.from_file(write(document(SENTENCEPIECE_CASE, decoder, specials, **model)))
    assert vocabulary.tokens == SENTENCEPIECE_BYTES
    assert vocabulary.special_token_ids == (0, 1, 2)


def test_byte_pieces_are_text_where_nothing_says_otherwise(write):
    decoder = {"type": "Metaspace", "replacement": "▁"}
    assert Vocabulary.from_file(write(document({"<0x0A>": 0}, decoder))).tokens == (b"<0x0A>",)


def test_byte_pieces_in_either_case_and_nothing_longer(write):
    vocab = {"<0x0a>": 0, "<0xfF>": 1, "<0x0A>": 2, "<0x0AA>": 3, "<0xG0>": 4}
    expected = (b"\n", b"\xff", b"\n", b"<0x0AA>", b"<0xG0>")
    assert Vocabulary.from_file(write(document(vocab, sequence(*LLAMA2)))).tokens == expected


def test_added_tokens_in_a_text_vocabulary(write):
    # "▁▁" is a piece of the model as well, which writes it for two spaces (Gemma); "▁x" is only ever matched as text.
    vocab = {"<unk>": 0, "▁▁": 1}
    more = [added(1, "▁▁", False), added(2, "▁x", False)]
    vocabulary = Vocabulary.from_file(write(document(vocab, sequence(*LLAMA2), more, unk_token="<unk>")))
    assert vocabulary.tokens == (b"", b"  ", "▁x".encode())
    assert vocabulary.special_token_ids == (0,)  # the unknown token is never text


def test_unigram_model(write):
    content = document([["<unk>", 0.0], ["▁a", -1.5], ["b", -2.0]], {"type": "Metaspace", "replacement": "▁"}, unk_id=0)
    vocabulary = Vocabulary.from_file(write(content))
    assert vocabulary.tokens == (b"", b" a", b"b")
    assert vocabulary.special_token_ids == (0,)


def test_ids_in_any_order_with_holes(write):
    vocabulary = Vocabulary.from_file(write(document({"c": 5, "a": 0, "b": 2}, BYTE_LEVEL)))
    assert vocabulary.tokens == (b"a", b"", b"b", b"", b"", b"c")


def test_pre_tokenizer_tells_where_there_is_no_decoder(write):
    content = document({"Ġa": 0}, None) | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL]}}
    assert Vocabulary.from_file(write(content)).tokens == (b" a",)


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, "WordPiece .*no bytes of their own"),
        ({"type": "BPEDecoder", "suffix": "</w>"}, "BPEDecoder .*no bytes of their own"),
        ({"type": "CTC"}, "CTC .*no bytes of their own"),
        ({"type": "Rot13"}, "Rot13"),
        (sequence({"type": "Replace", "pattern": {"Regex": "x+"}, "content": " "}), "Regex"),
        (sequence({"type": "Strip", "content": " ", "start": 1, "stop": 0}), "Strip"),
        (sequence({"type": "Fuse"}, SPACES), "Replace"),
        (sequence(BYTE_LEVEL, SPACES), "mixes"),
        (None, "no decoder"),
        (sequence(), "no decoder"),
    ],
)
def test_decoders_that_give_tokens_no_bytes_are_refused_by_name(write, decoder, message):
    with pytest.raises(VocabularyError, match=rf"tokenizer\.json: .*{message}"):
        Vocabulary.from_file(write(document({"a": 0}, decoder)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (document({"a": 0, "b": 0}, BYTE_LEVEL), "token id 0 is given to 2 tokens"),
        (document({"a": -1, "b": 0}, BYTE_LEVEL), "-1 is not a token id"),
        (document({"a": 10**12}, BYTE_LEVEL), "1000000000000 is not a token id"),
        (document({"a": 1.5}, BYTE_LEVEL), "must be integers"),
        (document({"a": 0}, BYTE_LEVEL, [added("7", "x", True)]), "'7' is not a token id"),
        (document({"a": 0}, BYTE_LEVEL, [{"id": 1}]), "damaged"),
        (document({"a\ud800": 0}, BYTE_LEVEL), "not Unicode"),
        (document({"a\ud800": 0}, sequence(*LLAMA2)), "not Unicode"),
        (document({"a": 0}, BYTE_LEVEL, [added(1, "\ud800", False)]), "not Unicode"),
        (document([["a", 0.0], ["a", 0.0]], BYTE_LEVEL), "twice"),
        ({"chat_template": "", "bos_token": "<s>"}, "neither a tokenizer.json nor a tekken.json.*bos_token"),
        ([1, 2], "neither"),
        (b'{"model": {"vocab": {"a"', "not JSON, or truncated"),
        (json.dumps(document({"abcdef": 0}, BYTE_LEVEL)).encode()[:-40], "not JSON, or truncated"),
        (b"", "empty"),
        (b"\x89PNG\r\n\x1a\n", "not a tokenizer file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git-lfs|expected 'base64 id'"),
    ],
)
def test_damaged_files_end_in_a_clear_error(write, content, message):
    path = write(content)
    with pytest.raises(VocabularyError, match=message) as caught:
        Vocabulary.from_file(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_empty_folder(tmp_path):
    with pytest.raises(VocabularyError, match="No such file"):
        Vocabulary.from_file(tmp_path / "tokenizer.json")
    with pytest.raises(VocabularyError, match="no tokenizer file in this folder"):
        Vocabulary.from_file(tmp_path)


def test_merges_are_skipped_only_where_nothing_follows_them():
    content = document({"a": 0, '"merges": [': 1}, BYTE_LEVEL)
    standard = json.dumps(content, indent=2).encode()
    assert parse_tokenizer_json(standard)["model"]["merges"] == []
    reordered = {"model": content.pop("model"), **content, "last": {"x": [1]}}
    assert parse_tokenizer_json(json.dumps(reordered).encode()) == reordered
    swapped = {**content, "model": {"merges": ["a b"], "vocab": {"a": 0}, "extra": []}}
    assert parse_tokenizer_json(json.dumps(swapped).encode()) == swapped


# --- ends of text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ()),
        ({"tokenizer_config.json": {"eos_token": "<|end|>"}}, (2,)),
        ({"tokenizer_config.json": {"eos_token": {"content": "<|end|>", "__type": "AddedToken"}}}, (2,)),
        ({"special_tokens_map.json": {"eos_token": "<|turn|>"}}, (3,)),
        ({"generation_config.json": {"eos_token_id": [2, 3]}, "config.json": {"eos_token_id": 1}}, (2, 3)),
        ({"generation_config.json": {"eos_token_id": 3}, "tokenizer_config.json": {"eos_token": "<|end|>"}}, (2, 3)),
        ({"config.json": {"eos_token_id": 2}}, (2,)),
        ({"config.json": {"text_config": {"eos_token_id": [3]}}}, (3,)),
        ({"generation_config.json": {"eos_token_id": None}, "tokenizer_config.json": {"eos_token": None}}, ()),
    ],
)
def test_eos_ids_come_from_the_files_beside_the_tokenizer(write, tmp_path, files, expected):
    vocab = {"a": 0, "b": 1, "<|end|>": 2}
    write(document(vocab, BYTE_LEVEL, [added(2, "<|end|>", True), added(3, "<|turn|>", False)]))
    for name, content in files.items():
        write(content, name)
    vocabulary = Vocabulary.from_file(tmp_path)
    assert vocabulary.eos_token_ids == expected
    assert all(vocabulary.token(i) == b"" for i in expected)
    assert Vocabulary.from_file(tmp_path, eos_token_ids=[1]).eos_token_ids == (1,)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer_config.json", {"eos_token": "</s>"}, "'</s>' is not in the vocabulary"),
        ("generation_config.json", {"eos_token_id": [7]}, "EOS token id 7 is outside the vocabulary of 1 ids"),
        ("tokenizer_config.json", {"eos_token": ["</s>"]}, "is not in the vocabulary"),
        ("generation_config.json", {"eos_token_id": "7"}, "'7' is not a token id"),
        ("config.json", b"{", "cannot be read as JSON"),
        ("config.json", [], "expected a JSON object"),
    ],
)
def test_wrong_eos_ids_are_reported_and_can_be_overridden(write, tmp_path, name, content, message):
    write(document({"a": 0}, BYTE_LEVEL))
    write(content, name)
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_file(tmp_path)
    assert Vocabulary.from_file(tmp_path, eos_token_ids=[]).eos_token_ids == ()


def test_vocab_size_pads_and_cuts_off_nothing_but_special_tokens(write):
    path = write(document({"a": 0, "b": 1}, BYTE_LEVEL, [added(2, "<image>", True)]))
    assert Vocabulary.from_file(path, vocab_size=8).size == 8
    assert Vocabulary.from_file(path, vocab_size=2).special_token_ids == ()  # Gemma 3's image token
    with pytest.raises(VocabularyError, match="cuts off text tokens, the vocabulary has 3 ids"):
        Vocabulary.from_file(path, vocab_size=1)


# --- tiktoken and tekken ------------------------------------------------------------------------------------------


def ranks(*tokens):
    return b"".join(base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens))


def test_tiktoken_ranks_with_special_tokens_by_argument(write):
    path = write(ranks(b"a", b"\xff", b" yes"), "x.tiktoken")
    vocabulary = Vocabulary.from_file(path, special_tokens={"<|end|>": 5}, eos_token_ids=[5])
    assert vocabulary.tokens == (b"a", b"\xff", b" yes", b"", b"", b"")
    assert vocabulary.eos_token_ids == vocabulary.special_token_ids == (5,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ranks(b"a", b"b")[:-3], "line 2: expected 'base64 id'"),
        (b"YQ== 0\nY$== 1\n", "line 2: expected 'base64 id'"),
        (b"YQ== 0\nYg== 0\n", "line 2: token id 0 occurs twice"),
        (b"YQ== 0\nYg== -2\n", "line 2: -2 is not a token id"),
        (b"YQ== 99999999999\n", "line 1: 99999999999 is not a token id"),
    ],
)
def test_damaged_tiktoken_ranks(write, content, message):
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_file(write(content, "x.tiktoken"))


def tekken(size=6, n_special=3, **more):
    words = [b"a", b"\xf0\x9f", b" yes", b"unused"]
    return {
        "config": {"default_vocab_size": size, "default_num_special_tokens": n_special},
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(w).decode(), "token_str": None} for i, w in enumerate(words)
        ],
        **more,
    }


def test_tekken_puts_special_tokens_first_and_leaves_unused_ranks_out(write):
    vocabulary = Vocabulary.from_file(write(tekken(), "tekken.json"))
    assert vocabulary.tokens == (b"", b"", b"", b"a", b"\xf0\x9f", b" yes")
    assert vocabulary.special_token_ids == (0, 1, 2)
    assert vocabulary.eos_token_ids == (2,)


def test_tekken_with_its_own_list_of_special_tokens(write):
    names = [{"rank": 0, "token_str": "<s>"}, {"rank": 1, "token_str": "</s>"}]
    assert Vocabulary.from_file(write(tekken(special_tokens=names))).eos_token_ids == (1,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tekken(size=9), "2 of 9 ids have no token, the first is 7"),
        (tekken() | {"config": {}}, "damaged .*default_num_special_tokens"),
        (tekken() | {"vocab": [{"rank": 0, "token_bytes": "!"}]}, "damaged"),
        (tekken() | {"vocab": [7]}, "damaged"),
    ],
)
def test_damaged_tekken(write, content, message):
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_file(write(content, "tekken.json"))


# --- SentencePiece --------------------------------------------------------------------------------------------------


def varint(number):
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece(pieces, trainer=b""):
    score = varint(2 << 3 | 5) + b"\0\0\x80\xbf"
    messages = [field(1, field(1, text.encode()) + score + field(3, kind)) for text, kind in pieces]
    return b"".join(messages) + field(2, trainer) + field(4, field(1, b"") + varint(9 << 3 | 1) + bytes(8))


PIECES = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<0x0A>", 6), ("<0x79>", 6)] + [
    (piece, 1) for piece in ("▁", "▁yes", "yes", "▁▁")
]


def test_sentencepiece_model(write):
    vocabulary = Vocabulary.from_file(write(sentencepiece(PIECES), "tokenizer.model"))
    assert vocabulary.tokens == SENTENCEPIECE_BYTES
    assert vocabulary.special_token_ids == (0, 1, 2)
    assert vocabulary.eos_token_ids == (2,)


def test_sentencepiece_eos_is_what_the_trainer_says(write):
    assert Vocabulary.from_file(write(sentencepiece(PIECES, field(42, 1)), "t.model")).eos_token_ids == (1,)
    none = field(42, (1 << 64) - 1)  # −1: no end of text
    assert Vocabulary.from_file(write(sentencepiece(PIECES, none), "t.model")).eos_token_ids == ()


def test_sentencepiece_long_user_piece(write):
    long = "x" * 300  # its length takes two bytes
    assert Vocabulary.from_file(write(sentencepiece([*PIECES, (long, 4)]), "t.model")).token(9) == long.encode()


@pytest.mark.parametrize("cut", [1, 3, 9, 40])
def test_truncated_sentencepiece_model(write, cut):
    content = sentencepiece(PIECES)[:-30][: -cut or None]
    try:  # a cut between two fields leaves a smaller model, all others are noticed
        size = Vocabulary.from_file(write(content, "t.model"), eos_token_ids=[]).size
    except VocabularyError as error:
        assert "SentencePiece" in str(error)
    else:
        assert size < len(PIECES)


@pytest.mark.parametrize(
    "content", [b"\n", b"\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\n\x00\x0f", b"\n\x04\n\x02\xff\xff"]
)
def test_damaged_sentencepiece_model(write, content):
    with pytest.raises(VocabularyError, match="not a SentencePiece model"):
        Vocabulary.from_file(write(content, "t.model"))


# --- folders and objects ----------------------------------------------------------------------------------------------


def test_a_folder_prefers_tokenizer_json(write, tmp_path):
    write(sentencepiece(PIECES), "tokenizer.model.v3")
    assert Vocabulary.from_file(tmp_path).size == len(PIECES)
    write(ranks(b"a", b"b"), "x.tiktoken")
    assert Vocabulary.from_file(tmp_path).size == 2
    write(document({"only": 0}, BYTE_LEVEL))
    assert Vocabulary.from_file(tmp_path).tokens == (b"only",)


def test_tokenizers_library_object_equals_its_file(write, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = {character: i for i, character in enumerate(byte_alphabet())}
    content = document({**alphabet, "Ġa": 256}, BYTE_LEVEL, [added(257, "<|end|>", True), added(258, "Ġé", False)])
    content["model"]["merges"] = ["Ġ a"]
    path = write(content)
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    write({"eos_token": "<|end|>"}, "tokenizer_config.json")
    from_file = Vocabulary.from_file(path)
    assert Vocabulary.from_huggingface(tokenizer, eos_token_ids=[257]).fingerprint == from_file.fingerprint

    class Fast:  # what transformers' fast tokenizers offer
        backend_tokenizer = tokenizer
        eos_token_id = 257
        name_or_path = str(tmp_path)

    assert Vocabulary.from_huggingface(Fast()).fingerprint == from_file.fingerprint
    write({"eos_token_id": [257, 0]}, "generation_config.json")
    assert Vocabulary.from_huggingface(Fast()).eos_token_ids == (0, 257)


def test_tiktoken_encoding():
    tiktoken = pytest.importorskip("tiktoken")
    letters = {bytes([i]): i for i in range(256)} | {b"ab": 256}
    encoding = tiktoken.Encoding("t", pat_str=r"\w+|\W", mergeable_ranks=letters, special_tokens={"<|endoftext|>": 300})
    vocabulary = Vocabulary.from_huggingface(encoding)
    assert vocabulary.size == 301
    assert vocabulary.tokens[:257] == tuple(letters)
    assert vocabulary.eos_token_ids == vocabulary.special_token_ids == (300,)
    assert b"".join(vocabulary.token(i) for i in encoding.encode("abba, é")) == "abba, é".encode()


def test_python_byte_level_tokenizer():
    class Token:
        content, special = "<|end|>", True

    class Slow:
        eos_token_id = 2

        def __init__(self):
            self.byte_decoder = byte_alphabet()
            self.encoder = {"Ġa": 0, "b": 1}
            self.added_tokens_decoder = {2: Token()}
            self.all_special_ids = [2]

        def get_vocab(self):
            return {**self.encoder, "<|end|>": 2}

    vocabulary = Vocabulary.from_huggingface(Slow())
    assert vocabulary.tokens == (b" a", b"b", b"")
    assert vocabulary.eos_token_ids == (2,)


def test_objects_that_are_no_tokenizers_are_refused():
    with pytest.raises(VocabularyError, match="a dict is no tokenizer that can be read"):
        Vocabulary.from_huggingface({})


def test_piece_decoder_without_any_hint():
    assert piece_decoder(None, None, True).byte_fallback
    with pytest.raises(VocabularyError, match="no decoder"):
        piece_decoder(None, {"type": "Whitespace"}, False)


def test_paths_may_be_strings(write):
    path = write(document({"a": 0}, BYTE_LEVEL))
    assert Vocabulary.from_file(str(path)).fingerprint == Vocabulary.from_file(Path(path)).fingerprint
