"""Which formulas some JSON value satisfies: exact, so that a machine never enters what it cannot leave.

A recursive schema asks about itself ("a node whose child is a node"). Values are finite, so the answer is the *least*
fixed point: a question that is still open counts as "no value". A "no" found that way holds only as long as the question is
open, and is not remembered; a "yes" names a value and is final.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fsmc.compiler.errors import LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema.atoms import ARRAY, NUMBER, OBJECT, STRING, All, Const, El, StrEnum, Unique
from fsmc.compiler.schema.domains import Domains
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.keywords import Keywords
from fsmc.compiler.schema.numbers import number_satisfiable
from fsmc.compiler.schema.obvious import Obvious
from fsmc.compiler.schema.string_emptiness import string_conceivable, string_satisfiable

MAX_OPEN = 30
"""Questions inside each other that are answered by recursion; what nests deeper is answered from the inside out."""


class Emptiness:
    """Satisfiability of value formulas.

    of_object, of_array: given a formula over that type's atoms, whether there is such an object or array; who builds those
    sets them, and asks back about their members. count_at_least: whether so many different values satisfy a value formula
    (`Counts`). All questions raise LimitExceeded where they are too hard.

    A list that has to have a tail, which is such a list, has no end, and so there is none:

    >>> from fsmc.compiler.schema.document import SchemaDocument
    >>> from fsmc.compiler.schema.objects import ObjectShape
    >>> def question(schema):
    ...     document = SchemaDocument(schema)
    ...     keywords = Keywords(document, Formulas())
    ...     emptiness = Emptiness(keywords)
    ...     emptiness.of_object = lambda f: ObjectShape(f, (), (), True, keywords.formulas, emptiness).satisfiable()
    ...     return emptiness.satisfiable(keywords.schema(document.root))
    >>> endless = {"type": "object", "properties": {"tail": {"$ref": "#"}}, "required": ["tail"]}
    >>> question(endless), question({**endless, "required": []})
    (False, True)
    """

    def __init__(self, keywords: Keywords) -> None:
        self.keywords = keywords
        self.table: Formulas = keywords.formulas
        self.domains = Domains(keywords)
        self._obvious = Obvious(keywords.document)
        self.of_object: Callable[[int], bool]
        self.of_array: Callable[[int], bool]
        self.count_at_least: Callable[[int, int], bool]
        self._known: dict[int, bool] = {TRUE: True, FALSE: False}
        self._known_typed: dict[tuple[int, str], bool] = {}
        self._open: dict[int, int] = {}
        self._max_open = MAX_OPEN
        self._lowest: float = math.inf  # the outermost open question that an answer since has leant on

    def satisfiable(self, formula: int) -> bool:
        """Whether some value satisfies the formula (as far as known while a recursive question is open)."""
        known = self._known.get(formula)
        if known is not None:
            return known
        literal = self.table.literal(formula)
        if literal is not None:
            payload = self.table.payload(literal[0])
            if isinstance(payload, Const):
                return True  # the value itself, or any other: the parts of a large constant need not be looked at
            if literal[1] and self._obvious.has_value(payload.node):
                self._known[formula] = True
                return True
        depth = self._open.get(formula)
        if depth is not None:
            self._lowest = min(self._lowest, depth)
            return False
        if not self._open:
            return self._inside_out(formula)
        if len(self._open) >= self._max_open:
            raise _Deeper(formula)
        return self._ask(formula)

    def _inside_out(self, formula: int) -> bool:
        """Answer a question; one that turns up inside it too deeply is answered by itself first."""
        self._max_open = MAX_OPEN
        waiting = [formula]
        answer = False
        while waiting:
            try:
                answer = self._ask(waiting[-1])
            except _Deeper as deeper:
                if deeper.formula in waiting:  # a cycle of more questions than that: it has to be seen as a whole
                    self._max_open *= 2
                else:
                    waiting.append(deeper.formula)
            except RecursionError as error:
                hint = "the schema refers to itself through too many subschemas"
                raise LimitExceeded("open questions about emptiness", MAX_OPEN, self._max_open, hint) from error
            else:
                waiting.pop()
        return answer

    def _ask(self, formula: int) -> bool:
        depth = self._open[formula] = len(self._open)
        expand = self.keywords.expand
        outer, self._lowest = self._lowest, math.inf
        try:
            answer = any(self.typed(expand(formula, type_), type_) for type_ in self.keywords.types_of(formula))
        except (LimitExceeded, UnsupportedSchemaError) as error:
            self.keywords.locate(error, formula)
            raise
        finally:
            del self._open[formula]
            leant_on, self._lowest = self._lowest, outer
        if answer:
            self._known[formula] = True
        elif leant_on >= depth:
            self._known[formula] = False
        else:
            self._lowest = min(outer, leant_on)
        return answer

    def surely_empty(self, formula: int) -> bool:
        """Whether no value satisfies the formula, whatever the open questions turn out to be."""
        outer, self._lowest = self._lowest, math.inf
        try:
            return not self.satisfiable(formula) and self._lowest == math.inf
        finally:
            self._lowest = outer

    @property
    def leaning(self) -> bool:
        """Whether an answer given since the last question began rests on one that is still open."""
        return self._lowest != math.inf

    def typed(self, formula: int, type_: str) -> bool:
        """Whether a value of this type satisfies a formula over the type's atoms."""
        if formula in (TRUE, FALSE):
            return formula == TRUE
        key = (formula, type_)
        known = self._known_typed.get(key)
        if known is not None:
            return known
        outer, self._lowest = self._lowest, math.inf
        try:
            if type_ == STRING:
                answer = string_satisfiable(formula, self.table)
                if not answer and string_conceivable(formula, self.table):
                    # a format is in doubt: nothing can be written, but the opposite does not follow
                    self._lowest = -1
            elif type_ == NUMBER:
                answer = number_satisfiable(formula, self.table)
            elif type_ == OBJECT:
                known = self._by_required(formula)
                answer = (self._holds_of_empty(formula) or self.of_object(formula)) if known is None else known
            else:
                assert type_ == ARRAY, "formulas of literals are constants"
                answer = self._holds_of_no_items(formula) or self.of_array(formula)
        finally:
            leant_on, self._lowest = self._lowest, outer
        if answer or leant_on == math.inf:
            self._known_typed[key] = answer
        if not answer:
            self._lowest = min(outer, leant_on)
        return answer

    def _holds_of_empty(self, formula: int) -> bool:
        """Whether ``{}`` surely satisfies an object formula: most require nothing, and their members need not be looked at.

        Not where keys have patterns: that these are too large together is to be said now, not when a text gets there.
        """
        payload = self.table.payload
        for atom in self.table.atoms(formula):
            members = payload(atom)
            if isinstance(members, All):
                if not all(isinstance(payload(keys), StrEnum) for keys in self.table.atoms(members.keys)):
                    return False
        return self.table.cases(formula, lambda atom: isinstance(payload(atom), All), 1) == 1

    def _by_required(self, formula: int) -> bool | None:
        """Whether there is an object, where the formula only says what members of some names are and which of them have to come:
        whether each of these can. None where it says more."""
        table = self.table
        required: set[str] = set()
        of_name: dict[str, list[int]] = {}
        of_others: list[tuple[frozenset[str], int]] = []
        for _, _, members, sign in table.literals(formula):
            if not isinstance(members, All):
                return None
            names = table.listed(members.keys)
            if names is None:
                left_out = table.literal(members.keys)
                names = table.listed(left_out[0]) if left_out else None
                if names is None or not sign:
                    return None
                of_others.append((names, members.value))
            elif sign:
                for name in names:
                    of_name.setdefault(name, []).append(members.value)
            elif members.value == FALSE and len(names) == 1:
                required |= names
            else:
                return None
        for name in required:
            others = [value for names, value in of_others if name not in names]
            if not self.satisfiable(table.conj([*of_name.get(name, ()), *others])):
                return False
        return True

    def _holds_of_no_items(self, formula: int) -> bool:
        """Whether ``[]`` surely satisfies an array formula."""
        payload = self.table.payload
        return self.table.cases(formula, lambda atom: isinstance(payload(atom), (El, Unique)), 1) == 1


class _Deeper(Exception):
    """A question lies too deep inside others to be answered there."""

    def __init__(self, formula: int) -> None:
        super().__init__(formula)
        self.formula = formula
