"""Tool calls: structural tags for the layouts in which model families write them, from an OpenAI ``tools`` list.

What comes out is a plain dict in the form with a tree of formats, to be looked at, changed, and compiled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fsmc.compiler.errors import ConstraintError, type_of

Reasoning = Literal["none", "written", "opened", "optional"]
Format = dict[str, Any]
Tool = tuple[str, Any]
"""A tool's name, and the schema of its arguments."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a family writes calls.

    call: the tag of one call. opening, closing: what stands around all of them, with ``lead`` after the opening and ``separator``
    between (patterns). trigger: what begins a call. thinks: whether there are ``<think>`` blocks.
    """

    trigger: str
    call: Callable[[str, Any], Format]
    opening: str = ""
    closing: str = ""
    separator: str = ""
    thinks: bool = False
    lead: str = ""


def tool_call_tag(
    family: str,
    tools: Sequence[Any],
    tool_choice: Any = "auto",
    *,
    parallel_tool_calls: bool = True,
    reasoning: Reasoning = "none",
) -> Format:
    """The structural tag of what an assistant may write that has these tools.

    family: one of `FAMILIES`. tools: OpenAI's list, ``{"type": "function", "function": {"name", "parameters", "strict"}}``, also without
    the inner dict; of a tool with ``"strict": false`` the arguments are any object. tool_choice: "auto" (text, in which calls may stand), "required" (calls
    only, one at least), "none" (text without a call), ``{"type": "function", "function": {"name": ...}}`` (one call of this tool), or
    ``{"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}``. reasoning: a ``<think>`` block before all else is "written" by the
    model, was "opened" by the prompt, is "optional", or there is "none"; of gpt_oss: whether it may write its analysis.

    Raises ConstraintError with the place of what is wrong.

    >>> tools = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]
    >>> tag = tool_call_tag("qwen", tools, "required", parallel_tool_calls=False)
    >>> tag["format"]["begin"], tag["format"]["end"]
    ('<tool_call>\\n{"name": "now", "arguments": ', '}\\n</tool_call>')
    """
    if not isinstance(family, str) or family not in FAMILIES:
        raise ConstraintError(f"{family!r} is none of {', '.join(FAMILIES)}", "family")
    if not isinstance(parallel_tool_calls, bool):
        raise ConstraintError(f"must be true or false, not {parallel_tool_calls!r}", "parallel_tool_calls")
    if reasoning not in ("none", "written", "opened", "optional"):
        raise ConstraintError(f"{reasoning!r} is none of none, written, opened, optional", "reasoning")
    known = read_tools(tools)
    mode, chosen = read_choice(tool_choice, known)
    once = not parallel_tool_calls or mode == "named"
    layout = FAMILIES[family]
    if layout is None:
        return _tag(_harmony(mode, chosen, once, reasoning != "none"))
    if reasoning != "none" and not layout.thinks:
        raise ConstraintError(f"{family} writes no <think> blocks: leave it out", "reasoning")
    body = _body(layout, mode, chosen, once)
    if reasoning == "none":
        return _tag(body)
    return _tag(_sequence(_thinking(reasoning), body))


def read_tools(tools: Any) -> list[Tool]:
    """The name and the arguments' schema of each tool; ConstraintError with the place."""
    if not isinstance(tools, (list, tuple)):
        raise ConstraintError(f"must be a list, not {type_of(tools)}", "tools")
    found: dict[str, Any] = {}
    for i, tool in enumerate(tools):
        tool = tool.model_dump() if hasattr(tool, "model_dump") else tool
        function = tool.get("function", tool if "name" in tool else None) if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type", "function") != "function":
            raise ConstraintError('must be {"type": "function", "function": {...}}', f"tools[{i}]")
        name, place = function.get("name"), f"tools[{i}].function"
        if not isinstance(name, str) or not name:
            raise ConstraintError("must be a text, and not empty", f"{place}.name")
        if name in found:
            raise ConstraintError(f"{name!r} is listed twice", f"{place}.name")
        schema = function.get("parameters")
        if schema is not None and not isinstance(schema, (dict, bool)):
            raise ConstraintError(f"must be a JSON Schema, not {type_of(schema)}", f"{place}.parameters")
        found[name] = {"type": "object"} if schema is None or function.get("strict") is False else schema
    return list(found.items())


def read_choice(choice: Any, tools: list[Tool]) -> tuple[str, list[Tool]]:
    """("auto", "required", "none" or "named", the tools that may be called)."""
    if choice is None or choice in ("auto", "none"):
        return ("none", []) if choice == "none" or not tools else ("auto", tools)
    if choice == "required":
        if not tools:
            raise ConstraintError("is 'required', but there are no tools", "tool_choice")
        return "required", tools
    if (
        isinstance(choice, dict)
        and choice.get("type") == "allowed_tools"
        and isinstance(choice.get("allowed_tools"), dict)
    ):
        allowed = choice["allowed_tools"]
        listed = allowed.get("tools", [])
        if not isinstance(listed, (list, tuple)):
            raise ConstraintError(f"must be a list, not {type_of(listed)}", "tool_choice.allowed_tools.tools")
        names = [_named(entry, tools, f"tool_choice.allowed_tools.tools[{i}]") for i, entry in enumerate(listed)]
        if allowed.get("mode") not in ("auto", "required"):
            raise ConstraintError("must be 'auto' or 'required'", "tool_choice.allowed_tools.mode")
        return read_choice(allowed["mode"], [tool for tool in tools if tool[0] in names])
    if isinstance(choice, dict) and choice.get("type", "function") == "function":
        name = _named(choice, tools, "tool_choice")
        return "named", [tool for tool in tools if tool[0] == name]
    raise ConstraintError(
        'must be \'auto\', \'required\', \'none\' or {"type": "function", "function": {"name": ...}}', "tool_choice"
    )


def _named(entry: Any, tools: list[Tool], place: str) -> str:
    function = entry.get("function", entry) if isinstance(entry, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise ConstraintError("names no function", place)
    if name not in dict(tools):
        raise ConstraintError(f"{name!r} is none of the tools ({', '.join(dict(tools)) or 'there are none'})", place)
    return name


# ── what is the same for all layouts ─────────────────────────────────────────────────────────────────────────────────


def _body(layout: Layout, mode: str, tools: list[Tool], once: bool) -> Format:
    """Text and calls, or calls only."""
    refused = ["<think>", "</think>"] if layout.thinks else []
    if mode == "none":
        return {"type": "any_text", "excludes": [layout.trigger, *refused]}
    tags = [layout.call(name, schema) for name, schema in tools]
    calls = _several(tags, layout.separator, once)
    if layout.lead:
        calls = _sequence({"type": "regex", "pattern": layout.lead}, calls)
    if mode != "auto":
        if layout.opening or layout.closing:
            return _sequence(_text(layout.opening), calls, _text(layout.closing))
        return calls
    section = bool(layout.opening)
    return {
        "type": "triggered_tags",
        "triggers": [layout.trigger],
        "tags": [_call(layout.opening, calls, layout.closing)] if section else tags,
        "stop_after_first": section or once,
        **({"excludes": refused} if refused else {}),
    }


def _several(tags: list[Format], separator: str, once: bool) -> Format:
    one = tags[0] if len(tags) == 1 else {"type": "or", "elements": tags}
    if once:
        return one
    more = _sequence({"type": "regex", "pattern": separator}, one) if separator else one
    return _sequence(one, {"type": "star", "content": more})


def _thinking(reasoning: Reasoning) -> Format:
    """A block of thought, and the line breaks after it."""
    text = {"type": "any_text", "excludes": ["<think>"]}
    block = _sequence(
        _call("" if reasoning == "opened" else "<think>", text, "</think>"), {"type": "regex", "pattern": "\\n{0,2}"}
    )
    return {"type": "optional", "content": block} if reasoning == "optional" else block


def _tag(format_: Format) -> Format:
    return {"type": "structural_tag", "format": format_}


def _call(begin: str, content: Format, end: str) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _text(value: str) -> Format:
    return {"type": "const_string", "value": value}


def _sequence(*elements: Format) -> Format:
    return {"type": "sequence", "elements": list(elements)}


def _json(schema: Any, style: str = "json") -> Format:
    return {"type": "json_schema", "json_schema": schema, **({"style": style} if style != "json" else {})}


def _quoted(name: str) -> str:
    """A name as the inside of a JSON string."""
    return json.dumps(name, ensure_ascii=False)[1:-1]


# ── layouts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _llama(name: str, schema: Any) -> Format:
    return _call(f'{{"name": "{_quoted(name)}", "parameters": ', _json(schema), "}")


def _hermes(name: str, schema: Any) -> Format:
    return _call(f'<tool_call>\n{{"name": "{_quoted(name)}", "arguments": ', _json(schema), "}\n</tool_call>")


def _qwen_coder(name: str, schema: Any) -> Format:
    return _call(f"<tool_call>\n<function={name}>\n", _json(schema, "qwen_xml"), "</function>\n</tool_call>")


def _deepseek_v3(name: str, schema: Any) -> Format:
    begin = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n"
    return _call(begin, _json(schema), "\n```<｜tool▁call▁end｜>")


def _deepseek(name: str, schema: Any) -> Format:
    return _call(f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>", _json(schema), "<｜tool▁call▁end｜>")


def _mistral(name: str, schema: Any) -> Format:
    call_id = {"type": "regex", "pattern": '(, "id": "[a-zA-Z0-9]{9}")?'}
    return _call(f'{{"name": "{_quoted(name)}", "arguments": ', _sequence(_json(schema), call_id), "}")


def _mistral_named(name: str, schema: Any) -> Format:
    call_id = {"type": "optional", "content": _call("[CALL_ID]", {"type": "regex", "pattern": "[a-zA-Z0-9]{9}"}, "")}
    return _call(f"[TOOL_CALLS]{name}", _sequence(call_id, _text("[ARGS]"), _json(schema)), "")


def _kimi(name: str, schema: Any) -> Format:
    number = {"type": "regex", "pattern": "[0-9]+"}
    content = _sequence(number, _text("<|tool_call_argument_begin|>"), _json(schema))
    return _call(f"<|tool_call_begin|>functions.{name}:", content, "<|tool_call_end|>")


def _harmony(mode: str, tools: list[Tool], once: bool, thinks: bool) -> Format:
    """Messages after ``<|start|>assistant``: analysis, comments, and then a final message or calls."""
    ends = ["<|end|>", "<|return|>"]
    free = {"type": "any_text"}
    notes = [_call("<|channel|>analysis<|message|>", free, ends[0])] if thinks else []
    comment = [_call("<|channel|>commentary<|message|>", free, ends[0])] if mode == "auto" else []
    final = [{**_call("<|channel|>final<|message|>", free, ""), "end": ends}] if mode in ("auto", "none") else []
    constrain = {"type": "regex", "pattern": " ?"}
    calls = []
    for name, schema in tools:
        json_type = _sequence(constrain, {"type": "or", "elements": [_text("<|constrain|>json"), _text("json")]})
        kind = {"type": "optional", "content": json_type}
        tail = _sequence(kind, _text("<|message|>"), _json(schema))
        calls.append(_call(f"<|channel|>commentary to=functions.{name}", tail, "<|call|>"))
        calls.append(_call(f" to=functions.{name}<|channel|>commentary", tail, "<|call|>"))
    next_ = "<|start|>assistant"
    before = {"type": "star", "content": _sequence({"type": "or", "elements": notes + comment}, _text(next_))}
    last = [*final, *([_several(calls, next_.replace("|", "\\|"), once)] if calls else [])]
    ending = last[0] if len(last) == 1 else {"type": "or", "elements": last}
    return _sequence(before, ending) if notes + comment else ending


FAMILIES: dict[str, Layout | None] = {
    "llama3": Layout('{"name": ', _llama, separator="; "),
    "qwen": Layout("<tool_call>", _hermes, separator="\\n", thinks=True),
    "qwen_coder": Layout("<tool_call>", _qwen_coder, separator="\\n", thinks=True),
    "deepseek_v3": Layout(
        "<｜tool▁calls▁begin｜>", _deepseek_v3, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "\\n", thinks=True
    ),
    "deepseek": Layout(
        "<｜tool▁calls▁begin｜>", _deepseek, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", thinks=True
    ),
    "mistral": Layout("[TOOL_CALLS]", _mistral, "[TOOL_CALLS]", "]", ", ", lead=r" ?\["),
    "mistral_v11": Layout("[TOOL_CALLS]", _mistral_named),
    "kimi": Layout(
        "<|tool_calls_section_begin|>",
        _kimi,
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        thinks=True,
    ),
    "gpt_oss": None,
}
"""The layouts: Llama 3 (JSON), Qwen and all that write Hermes' form, Qwen's coder models, DeepSeek V3 and R1, DeepSeek V3.1,
Mistral up to tokenizer v7, Mistral from v11 on, Kimi K2, and gpt-oss's harmony."""
