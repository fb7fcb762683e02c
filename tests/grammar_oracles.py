"""What the tests of grammars share: random derivations of a tree, mutations, and small grammars with their language by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.cfg.terminals import Terminal
from fsmc.compiler.syntax.grammar_tree import Choice, GrammarTree, Leaf, Node, Ref, Seq, Times

LIMITS = (100_000, 1 << 28, 20.0)


class Derivations:
    """Random texts of a grammar, drawn from its tree: what the machine must accept, whatever it is."""

    def __init__(self, tree: GrammarTree, seed: int) -> None:
        self.tree, self.random = tree, random.Random(seed)
        self.dfas: dict[int, DFA] = {}
        self.heights = dict.fromkeys(tree.rules, 1_000)
        for _ in tree.rules:
            self.heights = {name: min(1_000, self._height(rule.body)) for name, rule in tree.rules.items()}

    def text(self, fuel: int = 60) -> bytes:
        """One text. The more steps are taken, the likelier the shortest way out."""
        self.fuel = fuel
        return b"".join(self._derive(self.tree.rules[self.tree.start].body, 0))

    def _derive(self, node: Node, depth: int) -> Iterator[bytes]:
        self.fuel -= 1
        if isinstance(node, Leaf):
            yield self._leaf(node)
        elif isinstance(node, Ref):
            yield from self._derive(self.tree.rules[node.name].body, depth + 1)
        elif isinstance(node, Seq):
            for part in node.parts:
                yield from self._derive(part, depth)
        elif isinstance(node, Choice):
            branches = list(node.branches)
            if self.fuel < 0:
                least = min(self._height(branch) for branch in branches)
                branches = [branch for branch in branches if self._height(branch) == least]
            yield from self._derive(self.random.choice(branches), depth)
        elif isinstance(node, Times):
            most = node.minimum + 3 if node.maximum is None else node.maximum
            n = node.minimum if self.fuel < 0 else self.random.randint(node.minimum, min(most, node.minimum + 3))
            for _ in range(n):
                yield from self._derive(node.body, depth)

    def _height(self, node: Node) -> int:
        """How many rules deep the shallowest derivation is."""
        if isinstance(node, Ref):
            return 1 + self.heights[node.name]
        if isinstance(node, Seq):
            return max((self._height(part) for part in node.parts), default=0)
        if isinstance(node, Choice):
            return min(self._height(branch) for branch in node.branches)
        if isinstance(node, Times):
            return self._height(node.body) if node.minimum else 0
        return 0

    def _leaf(self, leaf: Leaf) -> bytes:
        dfa = self.dfas.get(id(leaf))
        if dfa is None:
            dfa = self.dfas[id(leaf)] = Terminal(LIMITS, expr=leaf.expr).dfa
        state, out = dfa.start, bytearray()
        while not (dfa.accepting[state] and (self.random.random() < 0.4 or not dfa.delta[state].any())):
            ways: dict[int, list[int]] = {}
            for byte in range(256):
                ways.setdefault(int(dfa.delta[state, dfa.byte_class[byte]]), []).append(byte)
            ways.pop(0, None)
            live = ways[self.random.choice(sorted(ways))]
            ascii_live = [b for b in live if 32 <= b < 127]
            byte = self.random.choice(ascii_live or live)
            out.append(byte)
            state = int(dfa.delta[state, dfa.byte_class[byte]])
        return bytes(out)


def mutated(text: str, alphabet: str, chance: random.Random) -> str:
    """The text with a character or two deleted, inserted, replaced or swapped, or with a piece doubled."""
    characters = list(text)
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(characters) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            del characters[at : at + 1]
        elif kind == 1:
            characters.insert(at, chance.choice(alphabet))
        elif kind == 2:
            characters[at : at + 1] = chance.choice(alphabet)
        elif kind == 3:
            characters[at : at + 2] = characters[at : at + 2][::-1]
        else:
            end = at + chance.randint(1, 4)
            characters[at:at] = characters[at:end]
    return "".join(characters)


def language(tree: GrammarTree, longest: int) -> set[str]:
    """All texts of at most ``longest`` characters: the least fixed point over sets of texts, as the definition says."""
    texts: dict[str, frozenset[str]] = dict.fromkeys(tree.rules, frozenset())

    def of(node: Node) -> frozenset[str]:
        if isinstance(node, Leaf):
            from fsmc.compiler.syntax.expr import listed_texts

            listed = listed_texts(node.expr)
            assert listed is not None
            return frozenset(text for text in listed if len(text) <= longest)
        if isinstance(node, Ref):
            return texts[node.name]
        if isinstance(node, Seq):
            found = frozenset([""])
            for part in node.parts:
                found = joined(found, of(part))
            return found
        if isinstance(node, Choice):
            return frozenset().union(*map(of, node.branches))
        assert isinstance(node, Times)
        body, found = of(node.body), frozenset([""])
        for _ in range(node.minimum):
            found = joined(found, body)
        n = node.minimum
        while node.maximum is None or n < node.maximum:
            more = found | joined(found, body)
            if more == found:
                break
            found, n = more, n + 1
        return found

    def joined(a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
        return frozenset(x + y for x in a for y in b if len(x) + len(y) <= longest)

    while True:
        found = {name: of(rule.body) for name, rule in tree.rules.items()}
        if found == texts:
            return set(texts[tree.start])
        texts = found
