"""Enumerations, however large and however they are written: exact, and no larger than one list of texts."""

from __future__ import annotations

import random
import re
from decimal import Decimal

import numpy as np
import pytest

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.schema.atoms import NumEnum, Pattern, StrEnum
from fsmc.compiler.schema.bits import as_bools, as_mask
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.joint import joint_component
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.number_machines import number_sorters, plain_numbers
from fsmc.compiler.schema.string_machines import string_sorters
from fsmc.compiler.schema.strings import string_component
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.schema.word_machine import word_machine


@pytest.mark.parametrize("seed", range(30))
def test_machine_of_words_is_minimal(seed: int) -> None:
    rng = random.Random(seed)

    def word() -> bytes:
        return bytes(rng.choice(b"abc") for _ in range(rng.randrange(6)))

    words = {word(): rng.randrange(2) for _ in range(rng.randrange(40))}
    machine = word_machine(words, ((False,), (True,)))
    plain = word_machine(dict.fromkeys(words, 0), ((),))
    assert plain.n_states == minimize(plain.only()).n_states
    for text in [*words, *(word() for _ in range(50))]:
        assert machine.run(text) == ((bool(words[text]),) if text in words else None)
    rows = {(*row, outcome) for row, outcome in zip(machine.delta.tolist(), machine.outcome.tolist(), strict=True)}
    assert len(rows) == machine.n_states or not words  # no two states have the same edges and outcome


def test_no_words() -> None:
    assert word_machine({}, ()).run(b"") is None
    assert word_machine({b"": 0}, ((),)).run(b"") == ()


@pytest.mark.parametrize(
    "values",
    [
        ("0", "5", "-5"),
        ("1.5",),
        ("1.5", "1.505", "1.50500001"),
        ("1", "1.05", "10", "100", "1.1"),
        ("0", "0.01", "-0.001"),
    ],
)
def test_numbers_of_a_list_beside_others(values: tuple[str, ...]) -> None:
    """Where all plain texts are read, zeros may follow a value's last digit that counts."""
    table = Formulas()
    listed = table.atom(NumEnum(frozenset(map(Decimal, values))))
    first = table.atom(NumEnum(frozenset([Decimal(values[0])])))
    component = joint_component(
        plain_numbers(), lambda atoms: number_sorters(atoms, table), TRUE, (listed, first), table
    )
    texts = {v + tail for v in (*values, "2", "1.51", "-1") for tail in ("", "0", "00", ".0", ".00", "1", ".")}
    texts |= {"-0", "-0.0", "1.5050", "0.010", "1.050", "1.0"}
    for text in texts:
        if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", text):
            value = Decimal(text)
            assert component.run(text.encode()) == (value in map(Decimal, values), value == Decimal(values[0])), text
        else:
            assert component.run(text.encode()) is None


def test_enumerations_that_meet_are_one() -> None:
    table = Formulas()

    def listed(text: str) -> int:
        return table.atom(StrEnum(frozenset(text)))

    negate, conj, disj, one = table.negate, table.conj, table.disj, table.exactly_one
    assert disj([listed("a"), listed("bc")]) == listed("abc")
    assert conj([listed("ab"), listed("bc")]) == listed("b")
    assert conj([listed("ab"), listed("c")]) == FALSE
    assert conj([listed("ab"), negate(listed("b"))]) == listed("a")
    assert conj([negate(listed("a")), negate(listed("b"))]) == negate(listed("ab"))
    assert disj([negate(listed("ab")), negate(listed("bc"))]) == negate(listed("b"))
    assert disj([negate(listed("ab")), listed("a")]) == negate(listed("b"))
    assert disj([negate(listed("a")), listed("a")]) == TRUE
    assert one([listed("ab"), listed("bc")]) == listed("ac")
    number = table.atom(NumEnum(frozenset([Decimal(1)])))
    assert one([listed("ab"), listed("bc"), number]) == conj([negate(listed("b")), one([listed("ac"), number])])
    assert disj([listed("a"), number]) != listed("a")


@pytest.mark.parametrize("seed", range(20))
def test_cases_agree_with_substitution(seed: int) -> None:
    rng = random.Random(seed)
    table = Formulas()
    atoms = [table.atom(name) for name in "abcd"]
    formulas = list(atoms)
    for _ in range(12):
        make = rng.choice([table.conj, table.disj, table.exactly_one])
        parts = rng.sample(formulas, 3)
        formulas.append(make([table.negate(f) if rng.random() < 0.3 else f for f in parts]))
    n = 16
    of_atom = {atom: as_mask((case for case in range(n) if case >> i & 1), n) for i, atom in enumerate(atoms)}
    for formula in formulas:
        held = as_bools(table.cases(formula, of_atom.__getitem__, (1 << n) - 1), n)
        for case in range(n):
            truth = table.substitute(formula, lambda atom, c=case: TRUE if of_atom[atom] >> c & 1 else FALSE)
            assert held[case] == (truth == TRUE)


def test_how_many_texts_have_an_outcome() -> None:
    table = Formulas()
    short, vowel = table.atom(Pattern("^[a-c]{1,2}$")), table.atom(Pattern("^[ae]"))
    component = string_component(TRUE, (short, vowel), table)
    sizes = dict(zip(component.vectors, component.sizes(), strict=True))
    assert sizes == {(True, True): 4, (True, False): 8, (False, True): None, (False, False): None}
    assert string_component(table.atom(StrEnum(frozenset("abc"))), (), table).sizes() == [3]


def test_many_lists_and_a_pattern_in_one_product() -> None:
    table = Formulas()
    lists = [table.atom(StrEnum(frozenset([f"x{i}", f"x{i + 1}"]))) for i in range(300)]
    even = table.atom(Pattern("[02468]$"))
    component = joint_component(all_text(), lambda atoms: string_sorters(atoms, table), TRUE, (*lists, even), table)
    assert component.run(b"x7") == (*(i in (6, 7) for i in range(300)), False)
    assert component.run(b"x300") == (*(i == 299 for i in range(300)), True)
    assert component.run(b"8") == (False,) * 300 + (True,)


def states(schema: object, text: bytes) -> int:
    machine = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="compact"))  # type: ignore[arg-type]
    assert machine.rsm.matches(text)
    return machine.rsm.n_states


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_of_constants_are_an_enumeration(keyword: str) -> None:
    values = [i if i % 2 else f"value {i}" for i in range(1000)]
    assert states({keyword: [{"const": v} for v in values]}, b"999") == states({"enum": values}, b"999")


def test_conditions_beside_an_enumeration_cost_nothing() -> None:
    values = [f"{i * 7919 % 10007}-{i}" for i in range(2000)]
    alone = states({"enum": values}, b'"0-0"')
    assert states({"enum": values, "maxLength": 40, "pattern": "^[0-9]+-"}, b'"0-0"') == alone
    machine = SchemaMachine(SchemaDocument({"enum": values, "maxLength": 3}), TextOptions())
    assert machine.rsm.matches(b'"0-0"')
    assert not machine.rsm.matches(b'"7919-1"')


def test_patterns_that_overlap_in_all_ways() -> None:
    schema = {"patternProperties": {c: {"minimum": i} for i, c in enumerate("abcdefghijkl")}}
    machine = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="compact"))
    assert machine.rsm.matches(b'{"abc":2,"l":11,"m":-1}')
    assert not machine.rsm.matches(b'{"abc":1}')
    assert not machine.rsm.matches(b'{"lll":10}')


def test_masks_of_cases() -> None:
    for n in (1, 7, 8, 100):
        held = np.random.default_rng(n).random(n) < 0.4
        assert (as_bools(as_mask(np.flatnonzero(held).tolist(), n), n) == held).all()


def test_a_long_list_of_excluded_strings_beside_a_length() -> None:
    """Not one state for each of the list's and each count."""
    listed = [f"{i * 7919 % 10007}-{i}" for i in range(4000)]
    machine = SchemaMachine(SchemaDocument({"type": "string", "maxLength": 30, "not": {"enum": listed}}), TextOptions())
    for text, accepted in (("0-0", False), ("0-00", True), ("é" * 30, True), ("é" * 31, False), (listed[-1], False)):
        assert machine.rsm.matches(f'"{text}"'.encode()) == accepted, text
    assert machine.rsm.n_states < 60_000


def test_exactly_one_of_many_ranges() -> None:
    schema = {"oneOf": [{"type": "integer", "minimum": 10 * i, "maximum": 10 * i + 4} for i in range(50)]}
    machine = SchemaMachine(SchemaDocument(schema), TextOptions())
    assert [n for n in range(-20, 600) if machine.rsm.matches(str(n).encode())] == [n for n in range(500) if n % 10 < 5]
