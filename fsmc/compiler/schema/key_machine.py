"""The machine that reads an object's key: the declared names as a trie, laid over the machine of all other keys."""

from __future__ import annotations

import json

import numpy as np

from fsmc.compiler.schema.json_text import escape_json
from fsmc.compiler.schema.key_space import KeySpace
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.strings import any_string


def key_machine(keys: KeySpace, allowed: int, seen: frozenset[str] = frozenset()) -> OutcomeDFA:
    """Over the JSON text of a key between its quotes; the outcome is the key's class. Only classes in the mask ``allowed`` end.

    A declared name that is not allowed is not accepted as an undeclared one either, nor is a key in ``seen``. States from
    which no allowed key can be reached are cut off.

    >>> keys = KeySpace(("a", "b"), {}, None, (None,))  # two declared names, and one class (2) of all other keys
    >>> dfa = key_machine(keys, allowed=0b101, seen=frozenset({"c"}))
    >>> def class_of(key):
    ...     state = dfa.start
    ...     for byte in key:
    ...         state = dfa.delta[state, dfa.byte_class[byte]]
    ...     return int(dfa.outcome[state])
    >>> [class_of(key) for key in (b"a", b"b", b"c", b"d")]
    [0, -1, -1, 2]
    """
    n = keys.n_names
    others_allowed = allowed >> n
    base = None
    if others_allowed:
        base = escape_json(keys.others if keys.others is not None else any_string())
    listed = [
        (json.dumps(name, ensure_ascii=False)[1:-1].encode(), i)
        for i, name in enumerate((*keys.names, *sorted(seen)))
        if base is not None or (i < n and allowed >> i & 1)
    ]
    used = np.zeros(256, np.bool_)
    for text, _ in listed:
        used[list(text)] = True
    own = np.flatnonzero(used)
    n_base_classes = 1 if base is None else base.delta.shape[1]
    byte_class = np.zeros(256, np.uint8) if base is None else base.byte_class.copy()
    base_column = np.concatenate((np.arange(n_base_classes), byte_class[own]))
    byte_class[own] = n_base_classes + np.arange(len(own))
    present = np.unique(byte_class)  # a class all of whose bytes stand in names is no longer needed
    base_column = base_column[present]
    byte_class = np.searchsorted(present, byte_class).astype(np.uint8)

    base_delta = np.zeros((1, n_base_classes), np.int32) if base is None else base.delta
    n_base = len(base_delta)
    at_base = [0 if base is None else base.start]  # per trie node: where the base machine is after the same text
    children: dict[tuple[int, int], int] = {}
    ends: dict[int, int] = {}
    for text, i in listed:
        node = 0
        for byte in text:
            child = children.get((node, byte))
            if child is None:
                child = children[node, byte] = len(at_base)
                at_base.append(int(base_delta[at_base[node], 0 if base is None else base.byte_class[byte]]))
            node = child
        ends[node] = i
    trie = base_delta[np.ix_(at_base, base_column)]
    if children:
        branches = np.array(list(children), np.int64)
        trie[branches[:, 0], byte_class[branches[:, 1]]] = n_base + np.fromiter(children.values(), np.int32)
    delta = np.concatenate((base_delta[:, base_column], trie))
    outcome = np.full(len(delta), -1, np.int32)
    if base is not None:
        kept = np.array([n + i if others_allowed >> i & 1 else -1 for i in range(len(keys.sizes))] + [-1], np.int32)
        outcome = kept[np.concatenate((base.outcome, base.outcome[at_base]))]
    for node, i in ends.items():
        outcome[n_base + node] = i if i < n and allowed >> i & 1 else -1
    if base is not None and (0 in at_base or others_allowed != (1 << len(keys.sizes)) - 1):
        _cut_dead_ends(delta, outcome)  # else every state goes on to some undeclared key, or to a name
    return OutcomeDFA(byte_class, delta, outcome, n_base, tuple(() for _ in range(keys.n_classes)))


def _cut_dead_ends(delta: np.ndarray, outcome: np.ndarray) -> None:
    """Set edges to 0 that lead where no outcome can be reached."""
    live = outcome >= 0
    while True:
        grown = live | live[delta].any(axis=1)
        grown[0] = False
        if (grown == live).all():
            break
        live = grown
    delta[~live[delta]] = 0
