"""From the tree of a grammar to its network: what is regular becomes terminals, what is left a few nets that call each other.

On the way the classic troubles of grammars go: rules that derive nothing, left recursion, recursion that only lists things. Rules are
looked at callees first, by strongly connected components of "is made of":

- no recursion: a terminal, if it is not too large;
- *left recursion*: A → A x | y is read from the left: start with what begins no recursion, and whenever a rule is complete go on in the
  rules that it may begin (`without_left_recursion`);
- recursion only at the end of rules (*linear*): the same place again, so an automaton (`without_end_recursion`);
- what is left recurs in the middle. Of those rules as many as possible are put into their callers (`Inliner`), so that few call.
"""

from __future__ import annotations

from fsmc.compiler.cfg.end_recursion import without_end_recursion, without_left_recursion
from fsmc.compiler.cfg.inlining import inline
from fsmc.compiler.cfg.nets import SYMBOL, Draft, Limits, Net, components
from fsmc.compiler.cfg.terminals import Terminal, net_to_dfa, nullable
from fsmc.compiler.errors import EmptyLanguageError, GrammarError, LimitExceeded
from fsmc.compiler.syntax.ebnf import children
from fsmc.compiler.syntax.expr import NOTHING, Alternate, Concat, Expr, counted, listed_texts, surely_matches
from fsmc.compiler.syntax.grammar_tree import Choice, GrammarTree, Leaf, Node, Ref, Schema, Seq, Times
from fsmc.compiler.syntax.simplify import alternate, concat, repeat

MAX_WEIGHT = 2_000_000
"""Characters of a regular rule, written out; larger ones stay rules that call others,"""
MAX_TOTAL_WEIGHT = 6_000_000
"""and so do those that come when others have had so many together."""
_BYTES_PER_WEIGHT = 1000
"""About what is needed for each of these characters until there is a DFA."""
MAX_DEEP = 64
"""Levels of the tree of a regular rule: what is deeper is put together from machines."""
MAX_LISTED_BYTES = 256
"""Short lists of texts are spelled in bytes inside of nets."""
MAX_EAGER_STATES = 20_000
"""States of the DFA of a rule that turned out to be regular; where it takes more it stays a net."""


MAX_TOTAL_EAGER = 200_000
"""States of such DFAs together."""


class Network:
    """The nets, terminals and embedded schemas of a grammar, by symbol number.

    root: the symbol of the start rule. names: of the symbols. text: of the grammar. notes: what a user should know.
    """

    def __init__(self) -> None:
        self.nets: dict[int, Net] = {}
        self.terminals: dict[int, Terminal] = {}
        self.schemas: dict[int, Schema] = {}
        self.text = ""
        self.root = 0
        self.root_nullable = False
        self.names: list[str] = []
        self.notes: list[str] = []


def network(tree: GrammarTree, limits: Limits) -> Network:
    """The network of a grammar.

    Raises EmptyLanguageError where no text can be derived, LimitExceeded.
    """
    return _Builder(tree, limits).build()


class _Builder:
    def __init__(self, tree: GrammarTree, limits: Limits) -> None:
        self.tree, self.limits = tree, limits
        self.automata = limits.max_states, limits.max_bytes, limits.max_seconds
        self.eager = min(limits.max_states, MAX_EAGER_STATES), limits.max_bytes, limits.max_seconds
        self.network = Network()
        self.number: dict[str, int] = {}
        self.productive: dict[str, bool] = {}
        self.nullable: dict[str, bool] = {}
        self.depths: dict[str, int] = {}  # how deep these are
        self.exprs: dict[str, tuple[Expr, int]] = {}  # of rules that are visibly regular, with their weight
        self.known: dict[int, tuple[Expr, int] | None] = {}  # the same of nodes, by id
        self.anonymous: dict[Expr | str, int] = {}
        self.called: dict[Expr | str, str] = {}  # of those: the one rule that they are, with what is ignored behind it
        self.leaf_facts: dict[int, tuple[bool, bool]] = {}
        # What is repeated is drawn many times. By id, with what has it, so that the id stays its own:
        self.merged: dict[int, tuple[tuple[Node, ...], list[Node | Expr]]] = {}  # parts of sequences, see `_merged`
        self.texts: dict[int, tuple[Expr, list[str] | None]] = {}  # see `_texts`
        self.terminal_of: dict[int, tuple[Expr, int]] = {}  # the symbols of anonymous terminals
        self.facts: dict[int, tuple[bool, bool]] = {}  # of these: empty, and with the empty text
        self.total_weight = 0
        self.total_eager = 0

    def build(self) -> Network:
        tree, out = self.tree, self.network
        for name in tree.rules:
            self.number[name] = len(out.names)
            out.names.append(name)
        out.notes += tree.notes
        out.text = tree.text
        graph: dict[int, list[int]] = {}
        names = list(tree.rules)
        pending = [self.number[tree.start]]
        while pending:
            symbol = pending.pop()
            if symbol not in graph:
                graph[symbol] = [self.number[name] for name in _names(tree.rules[names[symbol]].body)]
                pending += graph[symbol]
        unused = [name for name in names if self.number[name] not in graph and not name.startswith("%")]
        if unused:
            listed = ", ".join(unused[:5]) + (f" and {len(unused) - 5} more" if len(unused) > 5 else "")
            out.notes.append(f"rules that nothing uses: {listed}")
        for members in components(graph):
            self._facts([names[symbol] for symbol in members])
            self.limits.check(len(self.nullable))
        if not self.productive[tree.start]:
            rule = tree.rules[tree.start]
            fault = GrammarError("no text can be derived", tree.text, rule.span, tree.start)
            raise EmptyLanguageError(str(fault))
        dead = [name for name in self.productive if not self.productive[name]]
        if dead:
            out.notes.append(f"rules that derive no text: {', '.join(dead[:5])}")
        component_of: dict[int, int] = {}
        listed_components = list(components(graph))
        for i, members in enumerate(listed_components):
            component_of.update(dict.fromkeys(members, i))
        entered = {self.number[tree.start]}
        for symbol, called in graph.items():
            entered.update(other for other in called if component_of[other] != component_of[symbol])
        for members in listed_components:
            live = sorted(symbol for symbol in members if self.productive[names[symbol]])
            if live:
                recursive = len(members) > 1 or members[0] in graph[members[0]]
                self._component([names[symbol] for symbol in live], recursive, entered)
            self.limits.check(0)
        out.root = self.number[tree.start]
        out.root_nullable = self.nullable[tree.start]
        if out.root not in out.terminals:
            inline(out.nets, out.root, self.limits)
        return out

    # ── facts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _facts(self, members: list[str]) -> None:
        """Find which rules derive some text, and which the empty one: the least fixed point."""
        for name in members:
            self.productive[name] = self.nullable[name] = False
        for table, of in ((self.productive, self._is_productive), (self.nullable, self._is_nullable)):
            changed = True
            while changed:
                changed = False
                for name in members:
                    if not table[name] and of(self.tree.rules[name].body):
                        table[name] = changed = True
                self.limits.check(0)

    def _leaf(self, leaf: Leaf) -> tuple[bool, bool]:
        """Whether a leaf matches something, and the empty text."""
        known = self.leaf_facts.get(id(leaf))
        if known is None:
            self.limits.check(len(self.nullable))
            weight = 1 + _weight(leaf.expr, self.limits.max_states)
            if weight > self.limits.max_states:
                hint = "characters of one literal or regex, repeats written out"
                raise LimitExceeded("max_states", self.limits.max_states, weight, hint)
            may_be_empty = nullable(leaf.expr)
            if leaf.alone or may_be_empty is None or not surely_matches(leaf.expr):
                dfa = Terminal(self.automata, expr=leaf.expr).dfa
                known = not dfa.is_empty, bool(dfa.accepting[dfa.start])
            else:
                known = True, may_be_empty
            self.leaf_facts[id(leaf)] = known
        return known

    def _is_productive(self, node: Node) -> bool:
        if isinstance(node, Leaf):
            return self._leaf(node)[0]
        if isinstance(node, Ref):
            return self.productive[node.name]
        if isinstance(node, Seq):
            return all(map(self._is_productive, node.parts))
        if isinstance(node, Choice):
            return any(map(self._is_productive, node.branches))
        if isinstance(node, Times):
            return node.minimum == 0 or self._is_productive(node.body)
        return True  # a schema that allows nothing is refused when its machine is made

    def _is_nullable(self, node: Node) -> bool:
        if isinstance(node, Leaf):
            return self._leaf(node)[1]
        if isinstance(node, Ref):
            return self.nullable[node.name]
        if isinstance(node, Seq):
            return all(map(self._is_nullable, node.parts))
        if isinstance(node, Choice):
            return any(map(self._is_nullable, node.branches))
        if isinstance(node, Times):
            return node.minimum == 0 or self._is_nullable(node.body)
        return False

    # ── what is visibly regular ──────────────────────────────────────────────────────────────────────────────────────

    def _expr(self, node: Node) -> tuple[Expr, int] | None:
        """The tree of a regular node and its weight; None where it is not visibly regular, or too large."""
        if id(node) not in self.known:
            found = self._find_expr(node)
            # As much as may be written out, and for that there is room.
            most = min(MAX_WEIGHT, self.limits.max_states, self.limits.max_bytes // _BYTES_PER_WEIGHT)
            self.known[id(node)] = found if found is None or found[1] <= most else None
        return self.known[id(node)]

    def _find_expr(self, node: Node) -> tuple[Expr, int] | None:
        if isinstance(node, Leaf):
            return None if node.alone else (node.expr, _weight(node.expr)) if self._leaf(node)[0] else (NOTHING, 0)
        if isinstance(node, Ref):
            return self.exprs.get(node.name) if self.productive[node.name] else (NOTHING, 0)
        if isinstance(node, Times):
            inner = self._expr(node.body)
            if inner is None:
                return None
            times = max(node.minimum, node.maximum or 1, 1)
            return repeat(inner[0], node.minimum, node.maximum), inner[1] * times
        if isinstance(node, (Seq, Choice)):
            parts = []
            for child in children(node):
                part = self._expr(child)
                if part is None:
                    return None
                parts.append(part)
            exprs, weight = [part[0] for part in parts], sum(part[1] for part in parts)
            return (concat(exprs) if isinstance(node, Seq) else alternate(exprs)), weight
        return None

    def _depth(self, node: Node) -> int:
        """How deep the tree of a regular node is: sequences in sequences are one, and choices in choices."""
        if isinstance(node, Ref):
            return self.depths.get(node.name, 1)
        if isinstance(node, Times):
            return 1 + self._depth(node.body)
        if not isinstance(node, (Seq, Choice)):
            return 1
        kind, deepest = Concat if isinstance(node, Seq) else Alternate, 1
        for child in children(node):
            found = self._expr(child)
            deepest = max(deepest, self._depth(child) + (found is None or not isinstance(found[0], kind)))
        return deepest

    # ── components ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _component(self, members: list[str], recursive: bool, entered: set[int]) -> None:
        """Make terminals or nets of rules that are made of each other. entered: the symbols that rules of other components call."""
        rules, out = self.tree.rules, self.network
        if not recursive:
            found = self._expr(rules[members[0]].body) if self.total_weight < MAX_TOTAL_WEIGHT else None
            depth = 0 if found is None else self._depth(rules[members[0]].body)
            if found is not None and depth <= MAX_DEEP:
                self.total_weight += found[1]
                self.exprs[members[0]], self.depths[members[0]] = found, depth
                out.terminals[self.number[members[0]]] = Terminal(self.automata, expr=found[0])
                return
        nets: dict[int, Net] = {}
        for name in members:
            draft = Draft(self.limits)
            start = draft.place()
            draft.final.add(self._draw(draft, rules[name].body, start))
            nets[self.number[name]] = draft.to_net()
        if recursive:
            nets = without_left_recursion(nets, entered, self.limits)
            nets = without_end_recursion(nets, self.limits)
        for symbol, net in nets.items():
            if self.total_eager < MAX_TOTAL_EAGER and net.symbols() <= out.terminals.keys():
                try:
                    dfa = net_to_dfa(net, out.terminals, self.eager)
                except LimitExceeded as error:
                    if error.name == "max_seconds":
                        raise
                    out.nets[symbol] = net
                else:
                    self.total_eager += dfa.n_states
                    out.terminals[symbol] = Terminal(self.automata, dfa=dfa)
            else:
                out.nets[symbol] = net

    def _draw(self, draft: Draft, node: Node, start: int) -> int:
        """Write a node into a draft from ``start`` on; where it ends."""
        found = self._expr(node)
        if found is not None:
            if isinstance(node, Ref):
                return self._draw_rule(draft, node.name, found[0], start)
            self._recall(node, found[0])
            return self._draw_expr(draft, found[0], start)
        if isinstance(node, Leaf):
            return self._draw_terminal(draft, node.expr, start)
        if isinstance(node, Ref):
            if not self.productive[node.name]:
                return draft.place()
            return self._call(draft, self.number[node.name], self.nullable[node.name], start)
        if isinstance(node, Schema):
            symbol = self._anonymous(node.text)
            self.network.schemas[symbol] = node
            return self._call(draft, symbol, False, start)
        if isinstance(node, Seq):
            for part in self._merged(node.parts):
                start = (
                    self._draw_expr(draft, part, start) if isinstance(part, Expr) else self._draw(draft, part, start)
                )
            return start
        if isinstance(node, Choice):
            end = draft.place()
            for branch in node.branches:
                begin = draft.place()
                draft.skips[start].append(begin)
                draft.skips[self._draw(draft, branch, begin)].append(end)
            return end
        assert isinstance(node, Times)
        self.limits.check_places(max(node.minimum, node.maximum or 0))  # before so many copies are made
        for _ in range(node.minimum):
            self.limits.check(len(draft.edges))
            start = self._draw(draft, node.body, start)
        if node.maximum is None:
            loop = draft.place()
            draft.skips[start].append(loop)
            draft.skips[self._draw(draft, node.body, loop)].append(loop)
            end = draft.place()
            draft.skips[loop].append(end)
            return end
        end = draft.place()
        draft.skips[start].append(end)
        for _ in range(node.maximum - node.minimum):
            self.limits.check(len(draft.edges))
            start = self._draw(draft, node.body, start)
            draft.skips[start].append(end)
        return end

    def _merged(self, parts: tuple[Node, ...]) -> list[Node | Expr]:
        """The parts of a sequence, with regular pieces that have no name of their own put together, but for texts before them."""
        if id(parts) not in self.merged:
            self.merged[id(parts)] = parts, self._merge(parts)
        return self.merged[id(parts)][1]

    def _merge(self, parts: tuple[Node, ...]) -> list[Node | Expr]:
        merged: list[Node | Expr] = []
        run: list[Expr] = []

        def flush() -> None:
            n_listed = 0
            while n_listed < len(run) and self._texts(run[n_listed]) is not None:
                n_listed += 1
            merged.extend(run[:n_listed])
            if run[n_listed:]:
                merged.append(concat(run[n_listed:]))
            run.clear()

        for part in parts:
            found = None if isinstance(part, Ref) else self._expr(part)
            if found is None:
                flush()
                merged.append(part)
            else:
                self._recall(part, found[0])
                run.append(found[0])
        flush()
        return merged

    def _draw_rule(self, draft: Draft, name: str, expr: Expr, start: int) -> int:
        """A regular rule by its name: the same terminal wherever it is used."""
        if self._texts(expr) is not None:
            return self._draw_expr(draft, expr, start)
        if not self.productive[name]:
            return draft.place()
        return self._call(draft, self.number[name], self.nullable[name], start)

    def _draw_expr(self, draft: Draft, expr: Expr, start: int) -> int:
        texts = self._texts(expr)
        if texts is None:
            return self._draw_terminal(draft, expr, start)
        end = draft.place()
        for text in texts:
            draft.word(start, text.encode(), end)
        return end

    def _texts(self, expr: Expr) -> list[str] | None:
        """The texts of a short list of them."""
        if id(expr) not in self.texts:
            is_short = _weight(expr, 64 * MAX_LISTED_BYTES) <= 64 * MAX_LISTED_BYTES
            texts = listed_texts(expr) if is_short else None
            few = None if texts is None or sum(map(len, texts)) > MAX_LISTED_BYTES else sorted(texts)
            self.texts[id(expr)] = expr, few
        return self.texts[id(expr)][1]

    def _draw_terminal(self, draft: Draft, expr: Expr, start: int) -> int:
        if id(expr) not in self.terminal_of:
            self.terminal_of[id(expr)] = expr, self._anonymous(expr)  # which hashes all of the tree
        symbol = self.terminal_of[id(expr)][1]
        terminal = self.network.terminals.get(symbol)
        if terminal is None:
            terminal = self.network.terminals[symbol] = Terminal(self.automata, expr=expr)
        if symbol not in self.facts:
            self.facts[symbol] = not surely_matches(expr) and terminal.dfa.is_empty, terminal.is_nullable
        is_empty, is_nullable = self.facts[symbol]
        return draft.place() if is_empty else self._call(draft, symbol, is_nullable, start)

    def _anonymous(self, key: Expr | str) -> int:
        symbol = self.anonymous.get(key)
        if symbol is None:
            symbol = self.anonymous[key] = len(self.network.names)
            self.network.names.append(self.called.get(key, ""))
        return symbol

    def _recall(self, node: Node, expr: Expr) -> None:
        """Keep the name of a rule that is followed by what is ignored, and by nothing else."""
        if isinstance(node, Seq) and all(isinstance(part, Ref) for part in node.parts):
            names = [part.name for part in node.parts if isinstance(part, Ref) and not part.name.startswith("%")]
            if len(names) == 1:
                self.called.setdefault(expr, names[0])

    def _call(self, draft: Draft, symbol: int, may_be_empty: bool, start: int) -> int:
        end = draft.place()
        draft.edges[start].append((SYMBOL + symbol, end))
        if may_be_empty:
            draft.skips[start].append(end)
        return end


def _names(node: Node) -> list[str]:
    found, pending = [], [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Ref):
            found.append(current.name)
        else:
            pending.extend(children(current))
    return found


def _weight(expr: Expr, most: int = MAX_WEIGHT) -> int:
    """About how many characters a tree has, written out, or more than ``most``."""
    total, pending = 0, [(expr, 1)]
    while pending and total <= most:
        node, n = pending.pop()
        parts = getattr(node, "parts", None) or getattr(node, "branches", None)
        body = getattr(node, "body", None)
        if parts is not None:
            if n * len(parts) > most:
                return most + 1
            pending += [(part, n * times) for part, times in counted(parts)]
        elif body is not None:
            pending.append((body, n * max(getattr(node, "minimum", 1), getattr(node, "maximum", None) or 1, 1)))
        else:
            total += n
    return total
