"""The components that are built whole: strings, numbers, literals, keys and white space, as blocks of a lazy machine.

Each is entered by its first byte, which the caller's edge consumes: a string's block begins after the opening quote. A
string ends with its closing quote; a number only where something else begins, so that byte is read again by the caller.
"""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.schema.atoms import FALSE_LITERAL, NULL, NUMBER, STRING, TRUE_LITERAL, Format, Integer, StrEnum
from fsmc.compiler.schema.counted import CountedString
from fsmc.compiler.schema.counted_blocks import CountedBlocks
from fsmc.compiler.schema.formula import TRUE, Formulas
from fsmc.compiler.schema.json_text import escape_json, json_spelling
from fsmc.compiler.schema.key_rows import MAX_NODES, KeyRows, NameTrie, at_one_place, places_in_order
from fsmc.compiler.schema.key_space import UNDECLARED, KeySpace
from fsmc.compiler.schema.key_trie import KeyNode, KeyTrie, any_key
from fsmc.compiler.schema.late_keys import LateKeys
from fsmc.compiler.schema.left_out import SharedComponent, by_first_byte, split_left_out
from fsmc.compiler.schema.numbers import conditions, number_component
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA, own_class
from fsmc.compiler.schema.outcomes import Outcomes
from fsmc.compiler.schema.strings import listed_strings, split_length, string_component
from fsmc.compiler.schema.values import number_text

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine

MANY_LEFT_OUT = 4
"""Values left out of a component; fewer are multiplied out with the rest of the conditions."""

WHITE_SPACE = b" \t\n\r"
STRUCTURAL = WHITE_SPACE + b'"{}[]:,-0123456789tfn'
"""All bytes that may stand outside of strings, literals and numbers already begun."""

MAX_COUNTED_STATES = 5_000
"""A machine with more states is not run with a counter, which takes a state for each of them and each count,"""
MAX_LENGTH_AT_ONCE = 2_000
"""but multiplied with the machine of the length, for bounds up to this."""

_NOTHING = bytes(256), [0]
"""The row of a state from which nothing leads on."""

_LITERALS = {NULL: b"null", TRUE_LITERAL: b"true", FALSE_LITERAL: b"false"}
_NUMBER_ENDS = WHITE_SPACE + b",]}"


class ScalarBlocks:
    """Adds components to ``rsm``, each once; a state that they are entered at is a state of ``rsm``."""

    def __init__(self, rsm: LazyRSM, table: Formulas, outcomes: Outcomes) -> None:
        self.rsm, self.table, self.outcomes = rsm, table, outcomes
        self._number_ends = _NUMBER_ENDS
        self._values: dict[tuple[str, int, tuple[int, ...]], dict[int, int]] = {}
        self._common: dict[tuple[str, Hashable], dict[int, int]] = {}
        self._free_keys: int | None = None
        self._free_ends: npt.NDArray[np.int32] | None = None
        self._exits_of_names = np.empty(0, np.int32)
        self._shared: dict[tuple[int, tuple[int, ...]], SharedComponent] = {}
        self._tries: dict[KeySpace, KeyTrie] = {}
        self._key_roots: dict[tuple[KeySpace, int], int] = {}
        self._late: dict[tuple[KeySpace, int], int] = {}
        self._undeclared: dict[tuple[KeyTrie, int], int] = {}
        self._rows: dict[tuple[KeyTrie, int], KeyRows] = {}
        self._base_rows: dict[tuple[KeyTrie, int, int], tuple[bytes, list[int]]] = {}

    def fork(self, rsm: LazyRSM, table: Formulas, outcomes: Outcomes) -> ScalarBlocks:
        """The same for a fork of ``rsm``: what has a common name is there already."""
        twin = ScalarBlocks(rsm, table, outcomes)
        twin._common, twin._free_keys = self._common.copy(), self._free_keys
        twin._exits_of_names, twin._free_ends = self._exits_of_names, self._free_ends
        return twin

    def end_numbers_at(self, more: bytes) -> None:
        """Let numbers be followed by these bytes too, and not only by what may stand behind them in JSON."""
        ends = bytes(sorted({*self._number_ends, *more}))
        if len(ends) > len(self._number_ends):
            self._number_ends = ends
            self._common = {name: known for name, known in self._common.items() if name[0] != NUMBER}

    def value(self, type_: str, must: int, watches: tuple[int, ...]) -> dict[int, int]:
        """First byte → state after it, of the values of a scalar type of which ``must`` holds; exits with the outcome."""
        key = (type_, must, watches)
        known = self._values.get(key)
        if known is None:
            name = self._common_name(type_, must, watches)
            known = None if name is None else self._common.get(name)
            if known is None:
                if type_ == STRING:
                    known = {ord('"'): self._string(must, watches, name)}
                elif type_ == NUMBER:
                    known = self._integer_without(must, watches)
                    if known is None:
                        known = self._number(number_component(must, watches, self.table), name)
                else:
                    known = self._literal(_LITERALS[type_])
                if name is not None:
                    self._common[name] = known
            self._values[key] = known
        return known

    def _common_name(self, type_: str, must: int, watches: tuple[int, ...]) -> tuple[str, Hashable] | None:
        """A name for what occurs in many schemas: any string, a format, a range of numbers. See `Block`."""
        if watches:
            return None
        if type_ == NUMBER:
            asked = conditions(must, self.table)
            return None if asked is None else (type_, (asked, self._number_ends))
        literal = self.table.literal(must)
        payload = self.table.payload(literal[0]) if literal and literal[1] else None
        return (type_, payload) if must == TRUE or isinstance(payload, Format) else None

    def key(self, keys: KeySpace, allowed: int, seen: frozenset[str]) -> int:
        """The state after a key's opening quote; exits with the class of the key. See `KeyTrie.root`."""
        known = None if seen else self._key_roots.get((keys, allowed))
        if known is not None:
            return known
        trie = self._tries.get(keys)
        if trie is None:
            trie = self._tries[keys] = KeyTrie(keys)
        if not seen and not keys.n_names:
            return self._undeclared_keys(trie, allowed) + trie.undeclared(allowed).dfa.start
        if seen or trie.n_bytes > MAX_NODES:
            return self.rsm.new_state(trie.root(allowed, seen))
        others = allowed >> keys.n_names
        (known,) = self._key_rows(trie, others).roots(at_one_place(trie.classes, _bit_set(allowed, keys), others != 0))
        self._key_roots[keys, allowed] = known
        return known

    def late_key(self, m: SchemaMachine, keys: KeySpace, allowed: int) -> int:
        """`key`, whose row is made when a text gets there."""
        if keys.others is not None or not keys.n_names:
            return self.key(keys, allowed, frozenset())
        known = self._key_roots.get((keys, allowed)) or self._late.get((keys, allowed))
        if known is None:
            known = self._late[keys, allowed] = LateKeys(m, keys, allowed, None).first
        return known

    def late_keys_in_order(self, m: SchemaMachine, keys: KeySpace, live: int, required: int) -> list[int]:
        """`keys_in_order`, with rows that are made when a text gets there, and with a state at each place."""
        if keys.others is not None:
            return self.keys_in_order(keys, live, required)
        first = LateKeys(m, keys, live, required).first
        return list(range(first, first + keys.n_names + 1))

    def keys_in_order(self, keys: KeySpace, live: int, required: int) -> list[int]:
        """`key` for each place in the order of the names: where those from the first, the
        second, … on may come, up to the first required one; and for the place behind them all. 0 where no key may come."""
        trie = self._tries.get(keys)
        if trie is None:
            trie = self._tries[keys] = KeyTrie(keys)
        others = live >> keys.n_names
        allowed = places_in_order(trie.classes, _bit_set(live, keys), _bit_set(required, keys), others != 0)
        return self._key_rows(trie, others).roots(allowed)

    def _key_rows(self, trie: KeyTrie, others: int) -> KeyRows:
        key = (trie, others)
        known = self._rows.get(key)
        if known is None:
            exits = self.name_exits(len(trie.classes))[trie.classes]
            if others:
                dfa, offset = trie.undeclared(others).dfa, self._undeclared_keys(trie, others)
                known = KeyRows(self.rsm, trie.names, exits, dfa, offset, self._undeclared_exits(dfa))
            else:
                known = KeyRows(self.rsm, trie.names, exits, None, 0, np.zeros(1, np.int32))
            self._rows[key] = known
        return known

    def name_exits(self, n: int) -> npt.NDArray[np.int32]:
        """The codes of the ends of so many declared names, or more."""
        if n > len(self._exits_of_names):
            self._exits_of_names = np.array([self.rsm.exit(c) for c in range(n)], np.int32)
        return self._exits_of_names

    def _undeclared_exits(self, dfa: OutcomeDFA) -> npt.NDArray[np.int32]:
        """For each state of a machine of undeclared keys the code of the end there, 0 if none ends."""
        if dfa is any_key().dfa and self._free_ends is not None:
            return self._free_ends
        codes = np.array([*(self.rsm.exit(UNDECLARED + i) for i in range(len(dfa.vectors))), 0], np.int32)
        return codes[dfa.outcome]

    def build_key(self, state: int, node: KeyNode) -> None:
        """Make the row of a state in a key."""
        trie, rsm = node.trie, self.rsm
        base_class, base_codes = self._base_row(node) if node.base else _NOTHING
        targets = {byte: self._key_state(child) for byte, child in trie.children(node).items()}
        ends = trie.ends(node)
        if ends is not None:
            targets[ord('"')] = rsm.exit(node.trie.keys.outcome(ends))
        byte_class = bytearray(base_class)
        for column, byte in enumerate(targets, len(base_codes)):
            byte_class[byte] = column
        class_map = rsm.class_map(byte_class)
        rsm.set_row(state, class_map, np.array([*base_codes, *targets.values()], np.int32))

    def _base_row(self, node: KeyNode) -> tuple[bytes, list[int]]:
        """(byte → class, codes) where the text so far leads among undeclared keys: the same for most states in a key."""
        key = (node.trie, node.others, node.base)
        known = self._base_rows.get(key)
        if known is None:
            dfa, offset = node.trie.undeclared(node.others).dfa, self._undeclared_keys(node.trie, node.others)
            row = dfa.delta[node.base]
            known = self._base_rows[key] = dfa.byte_class.tobytes(), np.where(row > 0, row + offset, 0).tolist()
        return known

    def _key_state(self, node: KeyNode | None) -> int:
        if node is None:
            return 0
        if node.high or node.seen:
            return self.rsm.new_state(node)
        return self._undeclared_keys(node.trie, node.others) + node.base

    def _undeclared_keys(self, trie: KeyTrie, others: int) -> int:
        """What to add to a state of the machine of undeclared keys, which is built whole."""
        if trie.keys.others is None:
            return self.free_keys()
        key = (trie, others)
        known = self._undeclared.get(key)
        if known is None:
            dfa = trie.undeclared(others).dfa
            exits = [self.rsm.exit(UNDECLARED + i) for i in range(len(dfa.vectors))]
            known = self._undeclared[key] = self._quoted(dfa, exits) - dfa.start
        return known

    def free_keys(self) -> int:
        """What to add to a state of the machine of undeclared keys where nothing is asked of these."""
        if self._free_keys is None:
            dfa = any_key().dfa
            self._free_keys = self._quoted(dfa, [self.rsm.exit(UNDECLARED)], "key") - dfa.start
            self._free_ends = self._undeclared_exits(dfa)
        return self._free_keys

    def first_free_key(self) -> int:
        """The state before the first byte of an undeclared key, where nothing is asked of these."""
        return self.free_keys() + any_key().dfa.start

    def white_space(self, at_most: int) -> int:
        """The state after the first of at most so many white space characters."""
        byte_class, delta, final = _white_space_tables(at_most, self.rsm.exit_redo(0))
        return self.rsm.add_block(byte_class, delta, final, ("space", at_most)) + 1

    def _string(self, must: int, watches: tuple[int, ...], name: Hashable) -> int:
        """The state after the opening quote of a string."""
        if not watches:
            words = self._words(must)
            if words is not None:
                return words
        without = self._string_without(must, watches)
        if without is not None:
            return without
        listed = listed_strings(must, watches, self.table, json_spelling)
        if listed is not None:
            return self._quoted(listed, self._exits(listed))
        rest, low, high = split_length(must, self.table)
        if (low, high) == (0, None):
            dfa = escape_json(string_component(must, watches, self.table))
            return self._quoted(dfa, self._exits(dfa), name)
        content = string_component(rest, watches, self.table)
        if content.n_states > MAX_COUNTED_STATES and (high or low) <= MAX_LENGTH_AT_ONCE:
            # most of it is a list of excluded strings, of which each state has one length only
            dfa = escape_json(string_component(must, watches, self.table))
            return self._quoted(dfa, self._exits(dfa))
        counted = CountedString(content, low, high)
        name = self._common_name(STRING, rest, watches)
        return CountedBlocks(self.rsm, counted, self._exits(counted.dfa), name).start

    def _words(self, must: int) -> int | None:
        """As `_string`, where all that is asked is one of some texts, which are read as declared keys are."""
        literal = self.table.literal(must)
        payload = self.table.payload(literal[0]) if literal and literal[1] else None
        if not isinstance(payload, StrEnum):
            return None
        texts = sorted(map(json_spelling, payload.values))
        if not texts or sum(map(len, texts)) > MAX_NODES:
            return None
        exits = np.full(len(texts), self.rsm.exit(self.outcomes.number(())), np.int32)
        rows = KeyRows(self.rsm, NameTrie.of(texts), exits, None, 0, np.zeros(1, np.int32))
        return rows.roots(np.ones((1, len(texts) + 1), np.bool_))[0]

    def _string_without(self, must: int, watches: tuple[int, ...]) -> int | None:
        """As `_string`, where strings are left out of those of a component that others share."""
        rest, out = split_left_out(must, self.table)
        if len(out) < MANY_LEFT_OUT or split_length(rest, self.table)[1:] != (0, None):
            return None
        shared = self._shared.get((rest, watches))
        if shared is None:
            dfa = escape_json(string_component(rest, watches, self.table))
            shared = SharedComponent(self.rsm, dfa, self._quoted(dfa, self._exits(dfa)) - dfa.start)
            self._shared[rest, watches] = shared
        return shared.without(shared.dfa.start, (json_spelling(text) for text in out if isinstance(text, str)))

    def _integer_without(self, must: int, watches: tuple[int, ...]) -> dict[int, int] | None:
        """Numbers, where some are left out of a component of integers, which have one text each, that others share."""
        table = self.table
        rest, out = split_left_out(must, table)
        if len(out) < MANY_LEFT_OUT or table.atom(Integer()) not in table.conjuncts(rest):
            return None
        shared = self._shared.get((rest, watches))
        if shared is None:
            dfa = number_component(rest, watches, table)
            byte, state = next(iter(self._number(dfa, None).items()))
            shared = SharedComponent(self.rsm, dfa, state - int(dfa.delta[dfa.start, dfa.byte_class[byte]]))
            self._shared[rest, watches] = shared
        texts = [number_text(value).encode() for value in out if isinstance(value, Decimal)]
        texts += [b"-0"] if Decimal(0) in out else []
        start, left_out = shared.dfa.start, by_first_byte(texts)
        states = {b: int(shared.dfa.delta[start, shared.dfa.byte_class[b]]) for b in b"-0123456789"}
        found = {b: shared.without(state, left_out.get(b, ())) for b, state in states.items()}
        return {b: number for b, number in found.items() if number}

    def _exits(self, dfa: OutcomeDFA) -> list[int]:
        return [self.rsm.exit(self.outcomes.number(vector)) for vector in dfa.vectors]

    def _quoted(self, dfa: OutcomeDFA, exits: list[int], name: Hashable = None) -> int:
        """Add a machine over the text between quotes; its closing quote stands for ``exits[outcome of the state]``."""
        byte_class, delta = own_class(dfa, b'"')
        ends = dfa.outcome >= 0
        delta[ends, byte_class[ord('"')]] = np.array(exits, np.int32)[dfa.outcome[ends]]
        return self.rsm.add_block(byte_class, delta, np.full(len(delta), -1, np.int32), name) + dfa.start

    def _number(self, dfa: OutcomeDFA, name: Hashable) -> dict[int, int]:
        """Add a machine over a number's text, which ends only where something else begins, or the whole text ends."""
        byte_class, delta = own_class(dfa, self._number_ends)
        outcomes = np.array([self.outcomes.number(v) for v in dfa.vectors], np.int32)
        codes = np.array([self.rsm.exit_redo(int(o)) for o in outcomes], np.int32)
        ends = dfa.outcome >= 0
        for byte in self._number_ends:
            delta[ends, byte_class[byte]] = codes[dfa.outcome[ends]]
        final = np.full(len(delta), -1, np.int32)
        final[ends] = outcomes[dfa.outcome[ends]]
        offset = self.rsm.add_block(byte_class, delta, final, name)
        first = dfa.delta[dfa.start]
        return {b: int(first[dfa.byte_class[b]]) + offset for b in b"-0123456789" if first[dfa.byte_class[b]] > 0}

    def _literal(self, text: bytes) -> dict[int, int]:
        byte_class = np.zeros(256, np.uint8)
        letters = sorted(set(text[1:]))
        byte_class[letters] = np.arange(1, len(letters) + 1)
        delta = np.zeros((len(text), len(letters) + 1), np.int32)
        for i, byte in enumerate(text[1:], 1):
            delta[i, byte_class[byte]] = i + 1 if i + 1 < len(text) else self.rsm.exit(0)
        return {text[0]: self.rsm.add_block(byte_class, delta, np.full(len(delta), -1, np.int32), text) + 1}


def _bit_set(classes: int, keys: KeySpace) -> npt.NDArray[np.uint8]:
    """The declared names in a mask of classes, as kernels read it."""
    declared = classes & ((1 << keys.n_names) - 1)
    return np.frombuffer(declared.to_bytes(keys.n_names // 8 + 1, "little"), np.uint8)


@lru_cache(maxsize=16)
def _white_space_tables(n: int, end: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """State k: k characters have been read; what may stand after white space is ``end``."""
    byte_class = np.zeros(256, np.uint8)
    byte_class[list(STRUCTURAL)] = 2
    byte_class[list(WHITE_SPACE)] = 1
    delta = np.zeros((n + 1, 3), np.int32)
    delta[1:n, 1] = np.arange(2, n + 1)
    delta[1:, 2] = end
    final = np.zeros(n + 1, np.int32)
    final[0] = -1
    return byte_class, delta, final
