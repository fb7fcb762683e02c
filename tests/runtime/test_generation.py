"""The generation loop: against transformers' own, against itself without jumps, and step by step on scripted models."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="generation needs torch")
pytest.importorskip("transformers", reason="generation needs transformers")

import fsmc  # noqa: E402
from fsmc.compiler.errors import FsmcError, LimitExceeded  # noqa: E402
from fsmc.runtime.cached_model import CachedModel  # noqa: E402
from fsmc.runtime.generation import generate  # noqa: E402
from fsmc.runtime.toy_model import toy_model  # noqa: E402

PROMPT = "Please fill in the form: "

PATTERNS = [
    r'\{"name": "[A-Z][a-z]{1,8}", "occupation": "(librarian|gardener)", "can swim": (true|false), "age": [1-9][0-9]?\}',
    r"(?:白天|白头|日本)です, (?:né|nä|\U0001f389)\.",
    r"name: [A-Z][a-z]{2,5}\nage: \d{2}\n\n",
    r"the name <\|end\|> is (not )?a token",
    r"[a-c]{5}",
    r"only this",
    r"a(bc)*",
]

MODES = ("off", "canonical", "exact")


@pytest.fixture(scope="module")
def toy() -> Any:
    return toy_model(n_layers=2, hidden_size=64)


@pytest.fixture(scope="module")
def grammars(toy: Any) -> dict[str, fsmc.CompiledGrammar]:
    compiler = fsmc.GrammarCompiler(toy.vocab, cache_dir=None)
    return {pattern: compiler.compile_regex(pattern) for pattern in PATTERNS}


def run(toy: Any, grammar: Any, **options: Any) -> Any:
    """`generate`, with all that must hold of any result checked."""
    pieces: list[str] = []
    result = generate(
        toy.model, toy.tokenizer, PROMPT, grammar, on_text=lambda piece, forced: pieces.append(piece), **options
    )
    assert "".join(pieces) == result.text
    assert result.sampled_tokens + result.jumped_tokens == len(result.token_ids)
    assert not set(toy.vocab.special_token_ids) & set(result.token_ids)
    if not options.get("stop"):
        assert b"".join(map(toy.vocab.token, result.token_ids)).decode(errors="replace") == result.text
    return result


@pytest.mark.parametrize("jump", MODES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_text_matches(toy: Any, grammars: Any, pattern: str, jump: str) -> None:
    for options in ({}, {"temperature": 1.5, "seed": 3}):
        result = run(toy, grammars[pattern], jump=jump, **options)
        assert result.finish_reason == "stop" or pattern == r"a(bc)*"
        assert re.fullmatch(pattern, result.text) or result.finish_reason == "length"


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1.0, "seed": 1}, {"temperature": 2.0, "top_p": 0.8, "seed": 2}]
)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_exact_jumps_give_the_tokens_of_no_jumps(
    toy: Any, grammars: Any, pattern: str, options: dict[str, Any]
) -> None:
    off = run(toy, grammars[pattern], jump="off", max_new_tokens=60, **options)
    exact = run(toy, grammars[pattern], jump="exact", max_new_tokens=60, **options)
    assert exact.token_ids == off.token_ids
    assert exact.finish_reason == off.finish_reason
    assert exact.forward_passes <= off.forward_passes == off.sampled_tokens + (off.text in ("a", "abc", "abcbc"))


def test_jumps_save_passes(toy: Any, grammars: Any) -> None:
    off, canonical, exact = (run(toy, grammars[PATTERNS[0]], jump=jump) for jump in MODES)
    assert canonical.forward_passes < 0.35 * off.forward_passes
    assert exact.forward_passes < 0.8 * off.forward_passes
    assert off.jumped_tokens == off.retokenized_tokens == exact.retokenized_tokens == 0


def test_canonical_tokens_are_those_of_the_tokenizer(toy: Any, grammars: Any) -> None:
    """Wherever the model was free its own choice of tokens stands, so only the forced text is compared."""
    result = run(toy, grammars[PATTERNS[0]], jump="canonical")
    tokens = [toy.vocab.token(i) for i in result.token_ids]
    assert {b" occupation" if b" occupation" in tokens else b"occupation", b" swim"} <= set(tokens)


def test_without_a_constraint_it_is_transformers_generate(toy: Any) -> None:
    ids = toy.tokenizer(PROMPT, return_tensors="pt")
    theirs = toy.model.generate(**ids, max_new_tokens=40, do_sample=False)[0, ids["input_ids"].shape[1] :].tolist()
    ours = generate(toy.model, toy.tokenizer, PROMPT, max_new_tokens=40, vocab=toy.vocab)
    ended = theirs[-1] == toy.tokenizer.eos_token_id
    assert ours.token_ids == (theirs[:-1] if ended else theirs)
    assert ours.forward_passes == len(theirs)
    assert ours.finish_reason == ("stop" if ended else "length")


def test_wholly_forced_text_needs_no_model(toy: Any, grammars: Any) -> None:
    result = run(toy, grammars["only this"], jump="canonical")
    assert (result.text, result.forward_passes, result.finish_reason) == ("only this", 0, "stop")


@pytest.mark.parametrize("jump", MODES)
@pytest.mark.parametrize("pattern", PATTERNS[:4])
def test_any_limit_on_the_tokens(toy: Any, grammars: Any, pattern: str, jump: str) -> None:
    """The text is cut anywhere, inside jumps too, but the beginning of it is the same matter as without the limit."""
    whole = run(toy, grammars[pattern], jump=jump)
    for limit in range(len(whole.token_ids) + 2):
        result = run(toy, grammars[pattern], jump=jump, max_new_tokens=limit)
        assert len(result.token_ids) <= limit
        matcher = fsmc.GrammarMatcher(grammars[pattern])
        assert matcher.accept_bytes(b"".join(map(toy.vocab.token, result.token_ids)))
        assert (result.finish_reason == "stop") == bool(re.fullmatch(pattern, result.text))
    assert result.text == whole.text


def test_a_stop_string_ends_the_text_before_it(toy: Any, grammars: Any) -> None:
    for jump in MODES:
        result = run(toy, grammars[PATTERNS[0]], jump=jump, stop=['", "occ'])
        assert result.finish_reason == "stop"
        assert re.fullmatch(r'\{"name": "[A-Z][a-z]{1,8}', result.text)


def test_half_characters_are_not_streamed(toy: Any, grammars: Any) -> None:
    pieces: list[str] = []
    generate(
        toy.model,
        toy.tokenizer,
        PROMPT,
        grammars[PATTERNS[1]],
        jump="off",
        on_text=lambda piece, _: pieces.append(piece),
    )
    assert "\ufffd" not in "".join(pieces)


def test_forced_text_is_marked(toy: Any, grammars: Any) -> None:
    forced: list[str] = []
    generate(
        toy.model,
        toy.tokenizer,
        PROMPT,
        grammars[PATTERNS[0]],
        on_text=lambda piece, is_forced: forced.append(piece) if is_forced else None,
    )
    assert forced[0] == '{"name": "'
    assert forced[-1].endswith("}") or forced[-1].endswith('"age":')


@pytest.fixture
def short_context(toy: Any) -> Any:
    config = toy.model.config
    config.max_position_embeddings, whole = 24, config.max_position_embeddings
    yield
    config.max_position_embeddings = whole


def test_the_models_context_ends_the_text(toy: Any, grammars: Any, short_context: Any) -> None:
    for jump in MODES:
        result = run(toy, grammars[PATTERNS[0]], jump=jump)
        assert result.finish_reason == "length"
        assert result.prompt_tokens + len(result.token_ids) == 24
    with pytest.raises(LimitExceeded, match="24"):
        generate(toy.model, toy.tokenizer, PROMPT * 10, grammars[PATTERNS[0]])


def test_a_cropped_cache_gives_the_logits_of_a_fresh_one(toy: Any) -> None:
    cached = CachedModel(toy.model)
    random = torch.Generator().manual_seed(0)
    sequence = torch.randint(0, 300, (30,), generator=random).tolist()
    for cut, new, n in [(30, 0, 1), (30, 5, 3), (33, 4, 5), (20, 1, 1), (21, 0, 4), (0, 9, 2), (9, 12, 12)]:
        sequence = sequence[:cut] + torch.randint(0, 300, (new,), generator=random).tolist()
        with torch.inference_mode():
            fresh = toy.model(torch.tensor([sequence])).logits[0, -n:]
        assert torch.allclose(cached.logits(sequence, n), fresh, atol=1e-3)
    assert cached.n_forward == 7


class LongestToken:
    """A stand-in for a model: always prefers the longest token. Notes how many tokens each pass brought."""

    def __init__(self, vocab: fsmc.Vocabulary) -> None:
        self.scores = torch.tensor([float(len(token)) for token in vocab.tokens])
        self.config = SimpleNamespace(get_text_config=SimpleNamespace)
        self.generation_config = SimpleNamespace(eos_token_id=None)
        self.device = torch.device("cpu")
        self.passes: list[list[int]] = []

    def forward(self, input_ids: Any, cache: Any, use_cache: bool, logits_to_keep: int) -> Any:
        self.passes.append(input_ids[0].tolist())
        return SimpleNamespace(logits=self.scores.repeat(1, logits_to_keep, 1))

    __call__ = forward


class LongestFirst:
    """A tokenizer that takes the longest token each time, and leaves out what it has no token for."""

    def __init__(self, vocab: fsmc.Vocabulary) -> None:
        self.tokens = [token.decode() for token in vocab.tokens]

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = []
        while text:
            longest = max((t for t in self.tokens if text.startswith(t)), key=len)
            ids += [self.tokens.index(longest)] if longest else []
            text = text[len(longest) or 1 :]
        return ids


def scripted(tokens: list[str], pattern: str, **options: Any) -> tuple[list[str], list[list[str]]]:
    """The tokens of the text, and those of each forward pass, of the stand-ins above; the prompt is ``>``."""
    vocab = fsmc.Vocabulary.from_tokens([*tokens, ">", ""], eos_token_ids=[len(tokens) + 1])
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex(pattern)
    model = LongestToken(vocab)
    result = generate(model, LongestFirst(vocab), ">", grammar, **options)

    def names(ids: list[int]) -> list[str]:
        return [vocab.token(i).decode() for i in ids]

    return names(result.token_ids), [names(ids) for ids in model.passes]


def test_sampled_token_forced_text_and_crop_are_one_pass() -> None:
    text, passes = scripted(["x", "y", '"', "na", "me", "name", ":", "1", "2"], "[xy]name:[12]")
    assert text == ["y", "name", ":", "2"] or text == ["x", "name", ":", "1"]
    assert passes == [[">"], [text[0], "name", ":"]]


def test_a_sampled_token_that_merges_with_forced_text_leaves_the_cache() -> None:
    """ "na" is chosen (it is longer than "n"), then "me" is forced, and both become "name": the cache keeps ">" only."""
    text, passes = scripted(["n", "na", "me", "name", "no", "x", "1", "2"], "(na|x)me[12]")
    assert text[0] == "name"
    assert passes == [[">"], ["name"]]


def test_white_space_at_the_end_of_forced_text_is_left_to_the_model() -> None:
    tokens = ["k", ":", " ", " Ann", " Bob", "A", "B", "n", "o", "b", ": "]
    assert scripted(tokens[:-1], "k: (Ann|Bob)") == (["k", ":", " Ann"], [[">", "k", ":"]])
    without_words = ["k", ":", " ", "A", "B", "n", "o", "b"]
    text, passes = scripted(without_words, "k: (Ann|Bob)")
    assert text == ["k", ":", " ", "A", "n", "n"]
    assert passes == [[">", "k", ":", " "]]


def test_other_forced_text_is_not_left_open() -> None:
    """There is a token ":Ann", but the model is only asked about "A" or "B"; retokenizing puts the cut right later."""
    text, passes = scripted(["k", ":", ":Ann", "A", "B", "n", "o", "b"], "k:(Ann|Bob)")
    assert passes == [[">", "k", ":"]]
    assert text == ["k", ":Ann"]


def test_a_rejected_draft_costs_nothing() -> None:
    """The tokenizer cuts "abc" as "abc"; under the mask the model prefers nothing else: two tokens from one pass."""
    text, passes = scripted(["a", "b", "c", "abc", "1", "2"], "abc[12]", jump="exact")
    assert (text[0], passes) == ("abc", [[">", "abc"]])


def test_a_vocabulary_that_cannot_go_on_is_an_error() -> None:
    with pytest.raises(FsmcError, match="no token of the vocabulary"):
        scripted(["a", "b", "d"], "[ab]c?x", jump="off")


@pytest.mark.parametrize(
    "options", [{"jump": "sometimes"}, {"max_new_tokens": -1}, {"temperature": -1.0}, {"top_p": 2.0}]
)
def test_arguments_out_of_range(toy: Any, grammars: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        generate(toy.model, toy.tokenizer, PROMPT, grammars["only this"], **options)


def test_a_prompt_needs_tokens(toy: Any) -> None:
    with pytest.raises(ValueError, match="no tokens"):
        generate(toy.model, toy.tokenizer, [], vocab=toy.vocab)
