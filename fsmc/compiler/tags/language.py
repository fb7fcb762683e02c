"""From the tree of a structural tag to one regular language over bytes.

Two kinds of letters are no text, and are written with bytes that no UTF-8 text has:

- FF k, a special token that the tag names: beside each place where its name could be spelled out stands the token itself.
  Special tokens are nowhere else: not in free text, not in a JSON string.
- FE i j, a call of schema (or grammar) number 128 i + j. What a schema allows is no regular language, but where it is called is.

(k, i, j < 128, so that no letter begins inside another.) So all that a tag has besides schemas is a DFA, determinized and minimized like that of a pattern; `machine` then puts the
schemas in place of their letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.algebra import all_text, intersection
from fsmc.compiler.automata.determinize import MAX_SECONDS, determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.edges import byte_edges, nfa_from_edges
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import MAX_NFA_STATES, thompson
from fsmc.compiler.errors import ConstraintError, EmptyLanguageError, LimitExceeded, PatternSyntaxError
from fsmc.compiler.syntax.regex import parse_regex
from fsmc.compiler.tags.calls import TagLanguage
from fsmc.compiler.tags.clock import TagClock
from fsmc.compiler.tags.embedded import Embedded
from fsmc.compiler.tags.excluding import Excluding
from fsmc.compiler.tags.free_text import CALL, MARKER, MAX_SOUGHT
from fsmc.compiler.tags.reached import Reached
from fsmc.compiler.tags.tree import Automaton, Choice, Free, GrammarText, Pattern, Repeat, Schema, Sequence, Text, Token

MAX_CALLS = 1 << 14

Marker = tuple[bytes, int]
"""The name of a special token, and the k of its letter."""


def tag_language(
    tree: Any,
    markers: Mapping[str | int, Marker],
    grammar: Callable[[GrammarText], DFA | Embedded],
    *,
    max_sought: int = MAX_SOUGHT,
    clock: TagClock | None = None,
    **limits: Any,
) -> TagLanguage:
    """The language of a tree.

    markers: the special tokens that it names, by name and by id. grammar: makes the machine of one. max_sought: see `FirstOf`; ``limits``
    are those of `determinize`. clock: what is left of ``max_seconds`` (default: all). Raises ConstraintError where it is not said where free text ends, or a token has a text of its own;
    EmptyLanguageError, LimitExceeded, and what patterns raise.

    >>> from fsmc.compiler.tags.reading import read_tag
    >>> tag = {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"}
    >>> dfa = tag_language(read_tag(tag), {}, lambda grammar: None).dfa
    >>> dfa.matches(b"<t>a < b</t>"), dfa.matches(b"<t></t></t>")
    (True, False)
    """
    clock = TagClock(limits.get("max_seconds", MAX_SECONDS)) if clock is None else clock
    builder = _Builder(dict(markers), grammar, max_sought, limits, clock)
    end = builder.build(tree, 0, ())
    builder.finish(end)
    nfa = nfa_from_edges(builder.all_edges(), builder.epsilons, builder.n_states, [0], [end, builder.end_of_text])
    minimal = minimize(determinize(nfa, **builder.left))
    dfa = intersection(minimal, _letters(), **builder.left)
    return TagLanguage(dfa, tuple(builder.calls), tuple(builder.nothing.values())).checked()


@lru_cache(maxsize=1)
def _letters() -> DFA:
    """Well-formed text with letters between its characters."""
    text = all_text()
    start, n = text.start, text.n_states
    delta = np.full((n + 3, 256), 0, np.int32)
    delta[:n] = text.delta[:, text.byte_class]
    delta[start, MARKER], delta[n] = n, start
    delta[start, CALL], delta[n + 1], delta[n + 2] = n + 1, n + 2, start
    delta[delta == 0] = -1
    accepting = np.arange(n + 3) == start
    return minimize(DFA.from_arrays(np.arange(256), delta, accepting, start))


@dataclass(slots=True)
class _Dispatch:
    """A state of the NFA that goes on as texts in ``strings`` do, read from ``entries``; what follows is ``rest`` after them."""

    state: int
    entries: tuple[int, ...]
    strings: tuple[bytes, ...]


@dataclass(slots=True)
class _Builder:
    """Builds an NFA; ``after``: the nodes that follow the one that is built."""

    markers: dict[str | int, Marker]
    grammar: Callable[[GrammarText], DFA | Embedded]
    max_sought: int
    limits: dict[str, Any]
    clock: TagClock
    n_states: int = 2
    end_of_text: int = 1
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    pieces: list[npt.NDArray[np.int32]] = field(default_factory=list)
    epsilons: list[tuple[int, int]] = field(default_factory=list)
    calls: list[Schema | Embedded] = field(default_factory=list)
    dispatches: list[_Dispatch] = field(default_factory=list)
    insides: dict[tuple[int, int], int] = field(default_factory=dict)
    known: dict[str, DFA] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    nothing: dict[str, str] = field(default_factory=dict)

    @property
    def left(self) -> dict[str, Any]:
        """The limits of a machine that is made now."""
        return {**self.limits, "max_seconds": self.clock.remaining}

    def all_edges(self) -> npt.NDArray[np.int32]:
        """Of the NFA."""
        own = np.array(self.edges, np.int32).reshape(-1, 4)
        return np.concatenate([own, *self.pieces])

    def new(self) -> int:
        """A new state."""
        if self.n_states >= MAX_NFA_STATES:
            raise LimitExceeded("max_nfa_states", MAX_NFA_STATES, self.n_states + 1, "the structural tag is too large")
        self.n_states += 1
        return self.n_states - 1

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def build(self, node: Any, start: int, after: tuple[Any, ...]) -> int:
        """Add what a node reads from ``start`` on; returns the state at its end."""
        self.clock.check()
        if isinstance(node, Text):
            return self.literal(node.value.encode(), start)
        if isinstance(node, Token):
            return self.letter(start, (MARKER, self.marker_of(node)[1]))
        if isinstance(node, Sequence):
            for i, part in enumerate(node.parts):
                start = self.build(part, start, (*node.parts[i + 1 :], *after))
            return start
        if isinstance(node, Choice):
            end = self.new()
            self.epsilons += [(self.build(part, self.begin(start), after), end) for part in node.parts]
            return end
        if isinstance(node, Repeat):
            return self.repeat(node, start, after)
        if isinstance(node, Free):
            return self.free(node, start, after)
        if isinstance(node, Schema):
            return self.call(node, node, start)
        if isinstance(node, GrammarText):
            try:
                machine = self.grammar(node)
            except EmptyLanguageError as error:
                return self.no_text(node.place, str(error))
            if isinstance(machine, Embedded):
                return self.call(node, machine, start)
            return self.piece(Automaton(machine, node.place), start)
        if isinstance(node, Embedded):
            return self.call(node, node, start)
        return self.piece(node, start)

    def call(self, node: Schema | GrammarText | Embedded, called: Schema | Embedded, start: int) -> int:
        """The letter of a call."""
        number = self.numbers.setdefault(id(node), len(self.calls))
        if number == len(self.calls):
            self.calls.append(called)
        if number >= MAX_CALLS:
            raise LimitExceeded("max_calls", MAX_CALLS, number + 1, "schemas and grammars in one structural tag")
        return self.letter(start, (CALL, number >> 7, number & 127))

    def no_text(self, place: str, why: str) -> int:
        """The end of a part that has no text: nothing leads there."""
        self.nothing.setdefault(place, f"{place}: {why}")
        return self.new()

    def begin(self, start: int) -> int:
        """A state of its own after ``start``."""
        state = self.new()
        self.epsilons.append((start, state))
        return state

    def letter(self, start: int, letter: Iterable[int]) -> int:
        """A path of single bytes, which nothing else shares but its first."""
        first, *rest = letter
        state = self.insides.get((start, first))
        if state is None:
            state = self.insides[start, first] = self.new()
            self.edges.append((start, first, first, state))
        for byte in rest:
            below = self.insides.get((state, byte))
            if below is None:
                below = self.insides[state, byte] = self.new()
                self.edges.append((state, byte, byte, below))
            state = below
        return state

    def literal(self, text: bytes, start: int) -> int:
        """A text, and in place of each special token's name in it the token."""
        most = self.limits.get("max_states", MAX_NFA_STATES)
        if len(text) >= most:
            raise LimitExceeded(
                "max_states", most, len(text) + 1, "a text of the structural tag alone has so many bytes"
            )
        states = [self.begin(start)]
        for byte in text:
            states.append(self.new())
            self.edges.append((states[-2], byte, byte, states[-1]))
        for name, number in set(self.markers.values()):
            place = text.find(name)
            while name and place >= 0:
                self.epsilons.append((self.letter(states[place], (MARKER, number)), states[place + len(name)]))
                place = text.find(name, place + 1)
        return states[-1]

    def marker_of(self, token: Token) -> Marker:
        """The letter of a token."""
        found = self.markers.get(token.token)
        if found is None:
            raise ConstraintError(
                f"{token.token!r} is no special token of the vocabulary: of a token that is text, write the text",
                token.place,
            )
        return found

    def repeat(self, node: Repeat, start: int, after: tuple[Any, ...]) -> int:
        again = (*((node,) if node.max is None or node.max > 1 else ()), *after)
        for _ in range(node.min):
            start = self.build(node.content, self.begin(start), again)
        end = self.new()
        if node.max is None:
            loop = self.begin(start)
            self.epsilons += [(self.build(node.content, self.begin(loop), again), loop), (loop, end)]
            return end
        self.epsilons.append((start, end))
        for _ in range(node.max - node.min):
            start = self.build(node.content, self.begin(start), again)
            self.epsilons.append((start, end))
        return end

    def piece(self, node: Pattern | Automaton, start: int) -> int:
        """A regular part that has a machine of its own."""
        if isinstance(node, Pattern):
            dfa = self.known.get(node.pattern)
            if dfa is None:
                try:
                    expr = parse_regex(node.pattern)
                except PatternSyntaxError as error:
                    raise error.placed(node.place) from None
                raw = determinize(thompson(expr), **self.left)
                dfa = self.known[node.pattern] = minimize(raw)
            if dfa.is_empty:
                return self.no_text(node.place, "the pattern matches no text at all")
        else:
            dfa = node.dfa
        first = self.n_states
        self.n_states += dfa.n_states
        if self.n_states > MAX_NFA_STATES:
            raise LimitExceeded("max_nfa_states", MAX_NFA_STATES, self.n_states, "the structural tag is too large")
        self.pieces.append(byte_edges(dfa) + np.array([first, 0, 0, first], np.int32))
        end = self.new()
        self.epsilons.append((start, first + dfa.start))
        self.epsilons += [(first + int(q), end) for q in np.flatnonzero(dfa.accepting)]
        return end

    # ── free text ────────────────────────────────────────────────────────────────────────────────────────────────────

    def free(self, node: Free, start: int, after: tuple[Any, ...]) -> int:
        """Free text, see `Free`. Where the text may end with it, each of its states leads to ``end_of_text``."""
        tags_start, tags_end, end = self.new(), self.new(), self.new()
        following = after if node.stop_after_first else (node, *after)
        self.epsilons += [(self.build(tag, self.begin(tags_start), following), tags_end) for tag in node.tags]
        if node.at_least_one:
            self.epsilons.append((start, tags_start))
        if node.stop_after_first:
            self.epsilons.append((tags_end, end))
            if node.at_least_one:
                return end
        ends, may_end = first_texts(after, self.marker_of, node.place)
        refused = {self.as_bytes(text) for text in node.excludes}
        triggers = {self.as_bytes(text) for text in node.triggers}
        found = Excluding({*triggers, *ends}, refused, self.max_sought, self.clock.check)
        complete = found.complete
        states = [self.new() if not strings else -1 for strings in complete]
        entries = (tags_start, end)

        def lead(q: int, rest: bytes = b"") -> int | None:
            """The state of the NFA for a state of the automaton, once it is followed by ``rest``."""
            if q == Excluding.DEAD:
                return None
            if not complete[q]:
                return states[q]
            dispatch = _Dispatch(self.new(), entries, tuple(sorted(string + rest for string in complete[q])))
            self.dispatches.append(dispatch)
            return dispatch.state

        leads = [lead(q) for q in range(len(states))]
        for q, state in enumerate(states):
            if state < 0:
                continue
            self.clock.check()
            for low, high, target in found.row(q):
                to = leads[target]
                if to is not None:
                    self.edges.append((state, low, high, to))
            if may_end and q not in found.late:
                self.epsilons.append((state, self.end_of_text))
            for name, number in set(self.markers.values()):
                to = self.after_name(found, complete, q, name, lead)
                if to is not None:
                    self.epsilons.append((self.letter(state, (MARKER, number)), to))
        if not node.at_least_one:
            self.epsilons.append((start, states[0]))
        if not node.stop_after_first:
            self.epsilons.append((tags_end, states[0]))
        return end

    @staticmethod
    def after_name(
        found: Excluding,
        complete: list[frozenset[bytes]],
        q: int,
        name: bytes,
        lead: Callable[[int, bytes], int | None],
    ) -> int | None:
        """Where a special token leads from free text: as its name would, if that is (part of) one of the strings."""
        if not name:
            return None
        for i, byte in enumerate(name, 1):
            q = found.step(q, byte)
            if q == Excluding.DEAD:
                return None
            if complete[q]:
                return lead(q, name[i:])
        return lead(q, b"") if found.lengths[q] >= len(name) else None

    def as_bytes(self, text: Text | Token) -> bytes:
        """A text of those that end free text; a token as its letter."""
        return bytes((MARKER, self.marker_of(text)[1])) if isinstance(text, Token) else text.value.encode()

    # ── what free text leads to ──────────────────────────────────────────────────────────────────────────────────────

    def finish(self, end: int) -> None:
        """Link the places where free text ends to where the strings found there lead, now that all states are there."""
        reached = Reached(self.edges, self.epsilons, self.clock)
        for dispatch in self.dispatches:
            for string in dispatch.strings:
                self.epsilons += [(dispatch.state, target) for target in reached.after(dispatch.entries, string)]


def first_texts(after: tuple[Any, ...], marker_of: Callable[[Token], Marker], place: str) -> tuple[set[bytes], bool]:
    """The texts with which what follows free text begins, and whether nothing may follow. ConstraintError if it is not a text."""
    found: set[bytes] = set()

    def begin(nodes: tuple[Any, ...]) -> bool:
        """Collect; whether all of the nodes may be empty."""
        return all(one(node) for node in nodes)

    def one(node: Any) -> bool:
        if isinstance(node, Text):
            if node.value:
                found.add(node.value.encode())
            return not node.value
        if isinstance(node, Token):
            found.add(bytes((MARKER, marker_of(node)[1])))
            return False
        if isinstance(node, Sequence):
            return begin(node.parts)
        if isinstance(node, Choice):
            may_be_empty = [one(part) for part in node.parts]  # all of them, also those behind one that is
            return any(may_be_empty)
        if isinstance(node, Repeat):
            return (node.max is not None and node.max == 0) or one(node.content) or node.min == 0
        what = {Free: "free text", Schema: "a JSON text"}.get(type(node), "a pattern or grammar")
        raise ConstraintError(
            f"free text is followed by {what} ({node.place}), so nothing says where it ends: put a const_string or a tag between",
            place,
        )

    return found, begin(after)
