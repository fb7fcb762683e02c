"""Formulas against truth tables."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from fsmc.compiler.schema.formula import FALSE, NOT, ONE, TRUE, Formulas

NAMES = "abcd"
EXPRESSIONS = st.recursive(
    st.sampled_from([*NAMES, True, False]),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or", "one"]), st.lists(inner, max_size=4)),
    ),
    max_leaves=12,
)


def build(table, e):
    if isinstance(e, bool):
        return TRUE if e else FALSE
    if isinstance(e, str):
        return table.atom(e)
    if e[0] == "not":
        return table.negate(build(table, e[1]))
    combine = {"and": table.conj, "or": table.disj, "one": table.exactly_one}[e[0]]
    return combine([build(table, x) for x in e[1]])


def truth(e, world):
    if isinstance(e, bool):
        return e
    if isinstance(e, str):
        return world[e]
    if e[0] == "not":
        return not truth(e[1], world)
    values = [truth(x, world) for x in e[1]]
    return all(values) if e[0] == "and" else any(values) if e[0] == "or" else sum(values) == 1


def holds(table, formula, world):
    """By substitution: every atom becomes a constant, so must the formula."""
    result = table.substitute(formula, lambda atom: TRUE if world[table.payload(atom)] else FALSE)
    assert result in (TRUE, FALSE)
    return result == TRUE


def worlds():
    return (dict(zip(NAMES, values, strict=True)) for values in product((False, True), repeat=len(NAMES)))


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_a_formula_means_its_expression(e):
    table = Formulas()
    formula = build(table, e)
    for world in worlds():
        assert holds(table, formula, world) == truth(e, world)
    assert {table.payload(a) for a in table.atoms(formula)} <= set(NAMES)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_negation_is_an_involution_and_stays_in_normal_form(e):
    table = Formulas()
    formula = build(table, e)
    opposite = table.negate(formula)
    assert table.negate(opposite) == formula
    for world in worlds():
        assert holds(table, opposite, world) != truth(e, world)
    waiting = [opposite]
    while waiting:
        part = waiting.pop()
        if table.kind(part) == NOT:
            assert table.literal(part) or table.kind(table.arguments(part)[0]) == ONE
        waiting += table.arguments(part)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_substituting_a_formula_for_an_atom(e, replacement):
    table = Formulas()
    new = build(table, replacement)
    a = table.atom("a")
    result = table.substitute(build(table, e), lambda atom: new if atom == a else atom)
    for world in worlds():
        assert holds(table, result, world) == truth(e, {**world, "a": truth(replacement, world)})


@given(st.permutations(list(NAMES)), st.lists(st.sampled_from(NAMES), max_size=3))
def test_order_and_repetition_do_not_matter_for_and_and_or(names, repeated):
    table = Formulas()
    plain = [table.atom(n) for n in NAMES]
    mixed = [table.atom(n) for n in [*names, *repeated]]
    assert table.conj(plain) == table.conj(mixed)
    assert table.disj(plain) == table.disj(mixed)


def test_what_is_listed_twice_cannot_be_the_one():
    table = Formulas()
    a, b = table.atom("a"), table.atom("b")
    assert table.exactly_one([a, a]) == FALSE
    assert table.exactly_one([a, a, b]) == table.conj([table.negate(a), b])
    assert table.exactly_one([TRUE, TRUE, a]) == FALSE
    assert table.exactly_one([]) == FALSE
    assert table.exactly_one([a, FALSE]) == a


def test_a_hundred_alternatives_are_one_node():
    table = Formulas()
    atoms = [table.atom(i) for i in range(100)]
    one = table.exactly_one(atoms)
    assert table.arguments(one) == tuple(atoms)
    assert table.arguments(table.negate(one)) == (one,)


def test_parts():
    table = Formulas()
    a, b = table.atom("a"), table.atom("b")
    both = table.conj([a, table.negate(b)])
    assert table.conjuncts(both) == table.arguments(both)
    assert [table.conjuncts(f) for f in (TRUE, FALSE, a)] == [(), (FALSE,), (a,)]
    assert [table.literal(f) for f in (a, table.negate(b), both, TRUE)] == [(a, True), (b, False), None, None]
