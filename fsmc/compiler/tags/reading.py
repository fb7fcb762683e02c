"""From what users write to the tree: the form with structures and triggers, and the form with a tree of formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from fsmc.compiler.errors import ConstraintError, LimitExceeded, SchemaError, type_of
from fsmc.compiler.one_constraint import refuse_others
from fsmc.compiler.schema.source import parse_json, schema_of
from fsmc.compiler.tags.parameters import parameters_of
from fsmc.compiler.tags.tree import Choice, Free, GrammarText, Pattern, Repeat, Schema, Sequence, Text, Token

MAX_DEPTH = 100
"""How deeply formats may nest."""

_NEED_TOKENS = {
    "exclude_token": "any token but some",
    "any_tokens": "any tokens but some",
    "token_dispatch": "formats chosen by tokens",
}
_MISSING = object()


def nested_too_deeply() -> ConstraintError:
    """What is said of a tag that nests so deeply that it cannot even be read as JSON."""
    return ConstraintError(f"nests too deeply to be read: formats may nest {MAX_DEPTH} deep", "structural_tag")


def text_of(tag: bytes) -> str:
    """JSON text that was given as bytes."""
    try:
        return tag.decode()
    except UnicodeDecodeError as error:
        raise ConstraintError(f"is no UTF-8 text: {error}", "structural_tag") from error


def read_tag(tag: Any, check: Callable[[], None] = lambda: None) -> Any:
    """The tree of a structural tag, given as a dict, as JSON text, or as an object with ``model_dump``.

    Both forms are understood: ``{"type": "structural_tag", "format": {...}}``, or the format by itself; and
    ``{"type": "structural_tag", "structures": [{"begin", "schema", "end"}], "triggers": [...]}``.
    check: called for each format, may raise. Raises ConstraintError with the place of what is wrong.

    >>> read_tag({"type": "const_string", "value": "yes"})
    Text(value='yes')
    """
    dump = getattr(tag, "model_dump", None)
    if callable(dump):
        tag = dump()
    if isinstance(tag, (str, bytes)):
        try:
            tag = parse_json(tag if isinstance(tag, str) else text_of(tag))
        except LimitExceeded as error:
            raise nested_too_deeply() from error
        except SchemaError as error:
            raise ConstraintError(f"is read as JSON, and cannot be: {error.message}", "structural_tag") from error
    if not isinstance(tag, dict):
        raise ConstraintError(f"must be an object, not {_shown(tag)}", "structural_tag")
    is_whole = tag.get("type", "structural_tag") == "structural_tag"
    if is_whole and tag.get("format") is None and ("structures" in tag or "triggers" in tag):
        refuse_others(tag, ["structures", "triggers"])
        return _read_structures(tag, check)
    if tag.get("type") == "structural_tag" or (is_whole and "format" in tag):
        refuse_others(tag, ["format"])
        if "format" not in tag:
            raise ConstraintError('"format" is missing (or "structures" and "triggers")', "structural_tag")
        return _Reader(check).format(tag["format"], "format", 0)
    return _Reader(check).format(tag, "format", 0)


def _read_structures(tag: dict[str, Any], check: Callable[[], None]) -> Any:
    reader = _Reader(check)
    structures = reader.list_of(tag, "structures", "")
    tags = []
    for i, structure in enumerate(structures):
        check()
        place = f"structures[{i}]"
        reader.object(structure, place)
        refuse_others(structure, ["schema", "schema_"], place)
        refuse_others(structure, ["schema"], place, names=("content",))
        tags.append(
            _Tag(
                reader.text(structure, "begin", place),
                reader.schema(structure, "schema", place),
                (Text(reader.text(structure, "end", place)),),
                place,
            )
        )
    triggers = reader.texts(tag, "triggers", "")
    if not triggers:
        raise ConstraintError("at least one trigger is needed", "triggers")
    return _triggered([Text(t) for t in triggers], tags, (), False, False, "triggers", "")


class _Tag:
    """A tag of which it matters how it begins."""

    def __init__(self, begin: str | Token, content: Any, ends: tuple[Text | Token, ...], place: str) -> None:
        self.begin, self.place = begin, place
        first = begin if isinstance(begin, Token) else Text(begin)
        self.node = Sequence((first, content, Choice(ends) if len(ends) > 1 else ends[0]))


def _triggered(
    triggers: Collection[Text | Token],
    tags: list[_Tag],
    excludes: tuple[Text | Token, ...],
    at_least_one: bool,
    stop_after_first: bool,
    where: str,
    place: str,
) -> Any:
    """Free text with triggers; each tag begins with exactly one of them."""
    for i, trigger in enumerate(triggers):
        if isinstance(trigger, Text) and not trigger.value:
            raise ConstraintError("a trigger must not be empty: it would stand everywhere", f"{where}[{i}]")
    used = set()
    how_many = Counter(t.token if isinstance(t, Token) else t.value for t in triggers)
    lengths = sorted({len(t.value) for t in triggers if isinstance(t, Text)})
    for tag in tags:
        if isinstance(tag.begin, Token):
            begins: list[str | int] = [tag.begin.token]
        else:
            begins = [tag.begin[:n] for n in lengths if n <= len(tag.begin)]
        fitting = [begin for begin in begins if begin in how_many]
        n_fitting = sum(how_many[begin] for begin in fitting)
        if n_fitting != 1:
            begin = tag.begin.token if isinstance(tag.begin, Token) else tag.begin
            how = f"{n_fitting} triggers" if n_fitting else "none of the triggers"
            raise ConstraintError(f"begins with {how}, {begin!r}: exactly one has to fit", f"{tag.place}.begin")
        used.add(fitting[0])
    for i, trigger in enumerate(triggers):
        if (trigger.token if isinstance(trigger, Token) else trigger.value) not in used:
            raise ConstraintError("no tag begins with this trigger: nothing could follow it", f"{where}[{i}]")
    if not tags and at_least_one:
        raise ConstraintError("at_least_one needs a tag", f"{place}.tags")
    return Free(place, tuple(triggers), tuple(tag.node for tag in tags), excludes, at_least_one, stop_after_first)


class _Reader:
    """Reads formats; ``place`` is where one stands."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def format(self, value: Any, place: str, depth: int) -> Any:
        """The tree of a format."""
        self.check()
        if depth > MAX_DEPTH:
            raise ConstraintError(f"formats nest more than {MAX_DEPTH} deep", place[:80] + "…")
        self.object(value, place)
        type_ = value.get("type")
        if isinstance(type_, str) and type_ in _NEED_TOKENS:
            raise ConstraintError(
                f"{type_} ({_NEED_TOKENS[type_]}) speaks of tokens, not of texts, and is not supported: write the texts",
                place,
            )
        method: Callable[[dict[str, Any], str, int], Any] | None = getattr(self, f"_{type_}", None)
        if not isinstance(type_, str) or method is None:
            known = ", ".join(name[1:] for name in vars(_Reader) if name.startswith("_") and not name.startswith("__"))
            raise ConstraintError(f"the type {type_!r} is none of {known}", f"{place}.type")
        return method(value, place, depth + 1)

    # ── formats ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _const_string(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "value")
        return Text(self.text(value, "value", place))

    def _json_schema(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes")
        if value.get("excludes") not in (None, []):
            raise ConstraintError("is not supported: use a pattern in the schema", f"{place}.excludes")
        any_order = self.flag(value, "any_order", place) if "any_order" in value else None
        most = value.get("max_whitespace_cnt")
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
            raise ConstraintError(f"must be a whole number, not {_shown(most)}", f"{place}.max_whitespace_cnt")
        schema = self.schema(value, "json_schema", place, any_order, most)
        style = value.get("style", "json")
        if style == "json":
            return schema
        if style != "qwen_xml":
            raise ConstraintError(f"the style {style!r} is not supported (json, qwen_xml are)", f"{place}.style")
        return parameters_of(schema)

    def _qwen_xml_parameter(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "json_schema")
        return parameters_of(self.schema(value, "json_schema", place))

    def _any_text(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "excludes", "max_tokens", "max_chars")
        for name in ("max_tokens", "max_chars"):
            if value.get(name) is not None:
                raise ConstraintError("is not supported: limit the request's tokens", f"{place}.{name}")
        return Free(place, excludes=self.excludes(value, place))

    def _grammar(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "grammar", "syntax")
        syntax = value.get("syntax", "ebnf")
        if syntax not in ("ebnf", "lark"):
            raise ConstraintError(f"must be 'ebnf' or 'lark', not {syntax!r}", f"{place}.syntax")
        return GrammarText(self.text(value, "grammar", place), syntax, place)

    def _regex(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "pattern", "excludes")
        if value.get("excludes") not in (None, []):
            raise ConstraintError("is not supported: use look-ahead in the pattern", f"{place}.excludes")
        return Pattern(self.text(value, "pattern", place), f"{place}.pattern")

    def _sequence(self, value: dict[str, Any], place: str, depth: int) -> Any:
        return Sequence(self.elements(value, place, depth))

    def _or(self, value: dict[str, Any], place: str, depth: int) -> Any:
        return Choice(self.elements(value, place, depth))

    def _tag(self, value: dict[str, Any], place: str, depth: int) -> Any:
        return self.tag(value, place, depth).node

    def _triggered_tags(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "triggers", "tags", "at_least_one", "stop_after_first", "excludes")
        triggers: list[Text | Token] = [Text(trigger) for trigger in self.texts(value, "triggers", place)]
        return self.triggered(value, place, depth, triggers, "triggers", self.excludes(value, place))

    def _token_triggered_tags(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "trigger_tokens", "tags", "at_least_one", "stop_after_first", "exclude_tokens")
        triggers: list[Text | Token] = [*self.tokens(value, "trigger_tokens", place)]
        listed = [] if value.get("exclude_tokens") is None else self.tokens(value, "exclude_tokens", place)
        excludes: tuple[Text | Token, ...] = tuple(listed)
        return self.triggered(value, place, depth, triggers, "trigger_tokens", excludes)

    def _tags_with_separator(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "tags", "separator", "at_least_one", "stop_after_first")
        tags = [tag.node for tag in self.tags(value, place, depth)]
        if not tags:
            raise ConstraintError("at least one tag is needed", f"{place}.tags")
        one = Choice(tuple(tags))
        separator = Text(self.text(value, "separator", place))
        more = 0 if self.flag(value, "stop_after_first", place) else None
        several = Sequence((one, Repeat(Sequence((separator, one)), 0, more)))
        return several if self.flag(value, "at_least_one", place) else Repeat(several, 0, 1)

    def _optional(self, value: dict[str, Any], place: str, depth: int) -> Any:
        return self.repeated(value, place, depth, 0, 1)

    def _plus(self, value: dict[str, Any], place: str, depth: int) -> Any:
        return self.repeated(value, place, depth, 1, None)

    def _star(self, value: dict[str, Any], place: str, depth: int) -> Any:
        return self.repeated(value, place, depth, 0, None)

    def _repeat(self, value: dict[str, Any], place: str, depth: int) -> Any:
        bounds = []
        for name, least in (("min", 0), ("max", -1)):
            number = value.get(name)
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise ConstraintError(f"must be a whole number from {least} on", f"{place}.{name}")
            bounds.append(number)
        low, high = bounds
        if -1 < high < low:
            raise ConstraintError(f"is less than min, {low}", f"{place}.max")
        return self.repeated(value, place, depth, low, None if high == -1 else high, "min", "max")

    def _token(self, value: dict[str, Any], place: str, depth: int) -> Any:
        self.only(value, place, "token")
        return Token(self.token(value.get("token"), f"{place}.token"), place)

    # ── parts of formats ─────────────────────────────────────────────────────────────────────────────────────────────

    def repeated(
        self, value: dict[str, Any], place: str, depth: int, low: int, high: int | None, *names: str
    ) -> Repeat:
        self.only(value, place, "content", *names)
        return Repeat(self.format(value.get("content"), f"{place}.content", depth), low, high)

    def tag(self, value: Any, place: str, depth: int) -> _Tag:
        self.object(value, place)
        self.only(value, place, "begin", "content", "end")
        begin = value.get("begin")
        first: str | Token
        if isinstance(begin, dict) and begin.get("type") == "token":
            first = Token(self.token(begin.get("token"), f"{place}.begin.token"), f"{place}.begin")
        else:
            first = self.text(value, "begin", place)
        content = self.format(value.get("content"), f"{place}.content", depth)
        end = value.get("end", _MISSING)
        ends: tuple[Text | Token, ...]
        if isinstance(end, dict) and end.get("type") == "token":
            ends = (Token(self.token(end.get("token"), f"{place}.end.token"), f"{place}.end"),)
        elif isinstance(end, list):
            ends = tuple(Text(text) for text in self.texts(value, "end", place))
            if not ends:
                raise ConstraintError("at least one end is needed", f"{place}.end")
        else:
            ends = (Text(self.text(value, "end", place)),)
        return _Tag(first, content, ends, place)

    def tags(self, value: dict[str, Any], place: str, depth: int) -> list[_Tag]:
        found = []
        for i, tag in enumerate(self.list_of(value, "tags", place)):
            if isinstance(tag, dict) and tag.get("type", "tag") != "tag":
                raise ConstraintError(f"must be a tag, not {tag['type']!r}", f"{place}.tags[{i}].type")
            found.append(self.tag(tag, f"{place}.tags[{i}]", depth))
        return found

    def triggered(
        self,
        value: dict[str, Any],
        place: str,
        depth: int,
        triggers: Collection[Text | Token],
        name: str,
        excludes: tuple[Text | Token, ...],
    ) -> Any:
        flags = (self.flag(value, "at_least_one", place), self.flag(value, "stop_after_first", place))
        return _triggered(triggers, self.tags(value, place, depth), excludes, *flags, f"{place}.{name}", place)

    def elements(self, value: dict[str, Any], place: str, depth: int) -> tuple[Any, ...]:
        self.only(value, place, "elements")
        elements = self.list_of(value, "elements", place)
        if not elements:
            raise ConstraintError("at least one element is needed", f"{place}.elements")
        return tuple(self.format(element, f"{place}.elements[{i}]", depth) for i, element in enumerate(elements))

    def schema(
        self, value: dict[str, Any], name: str, place: str, any_order: bool | None = None, most: int | None = None
    ) -> Schema:
        where = f"{place}.{name}".lstrip(".")
        if name not in value:
            raise ConstraintError("is missing", where)
        try:
            schema = schema_of(value[name])
            read = parse_json(schema) if isinstance(schema, str) else schema
        except SchemaError as error:
            raise SchemaError(error.message, f"{where}#", "") from error
        return Schema(read, where, any_order, most)

    def excludes(self, value: dict[str, Any], place: str) -> tuple[Text, ...]:
        texts = [] if value.get("excludes") is None else self.texts(value, "excludes", place)
        if "" in texts:
            raise ConstraintError(
                "must not be empty: it would stand everywhere", f"{place}.excludes[{texts.index('')}]"
            )
        return tuple(map(Text, texts))

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def object(self, value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise ConstraintError(f"must be an object, not {_shown(value)}", place)

    def only(self, value: dict[str, Any], place: str, *names: str) -> None:
        unknown = [name for name in value if name not in names and name != "type"]
        if unknown:
            raise ConstraintError(f"is not known here (known: {', '.join(names)})", f"{place}.{unknown[0]}")

    def text(self, value: dict[str, Any], name: str, place: str) -> str:
        where = f"{place}.{name}".lstrip(".")
        if name not in value:
            raise ConstraintError("is missing", where)
        return _checked_text(value[name], where)

    def texts(self, value: dict[str, Any], name: str, place: str) -> list[str]:
        where = f"{place}.{name}".lstrip(".")
        return [_checked_text(text, f"{where}[{i}]") for i, text in enumerate(self.list_of(value, name, place))]

    def list_of(self, value: dict[str, Any], name: str, place: str) -> list[Any]:
        where = f"{place}.{name}".lstrip(".")
        if name not in value:
            raise ConstraintError("is missing", where)
        found = value[name]
        if not isinstance(found, (list, tuple)):
            raise ConstraintError(f"must be a list, not {_shown(found)}", where)
        return list(found)

    def flag(self, value: dict[str, Any], name: str, place: str) -> bool:
        found = value.get(name, False)
        if not isinstance(found, bool):
            raise ConstraintError(f"must be true or false, not {_shown(found)}", f"{place}.{name}")
        return found

    def token(self, value: Any, where: str) -> int | str:
        if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
            raise ConstraintError(f"must be a token's id or its text, not {_shown(value)}", where)
        return value

    def tokens(self, value: dict[str, Any], name: str, place: str) -> list[Token]:
        listed = self.list_of(value, name, place)
        return [Token(self.token(t, f"{place}.{name}[{i}]"), f"{place}.{name}[{i}]") for i, t in enumerate(listed)]


def _checked_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ConstraintError(f"must be a text, not {_shown(value)}", where)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConstraintError(f"half a surrogate pair at character {error.start}, which is no text", where) from error
    return value


def _shown(value: Any) -> str:
    return "missing" if value is None or value is _MISSING else type_of(value)
