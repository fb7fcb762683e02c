"""Keywords: a table of schemas with instances, read in every draft that knows them, and what formulas they become."""

import json
from decimal import Decimal

import pytest

from fsmc.compiler.errors import EmptyLanguageError
from fsmc.compiler.schema.atoms import ARRAY, NULL, NUMBER, OBJECT, STRING, TYPES
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.keywords import Keywords
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.schema.values import canonical

ALL, FROM_6, FROM_7, FROM_2019, ONLY_2020 = (
    (4, 6, 7, 2019, 2020),
    (6, 7, 2019, 2020),
    (7, 2019, 2020),
    (2019, 2020),
    (2020,),
)
A, AB = {"a": 1}, {"a": 1, "b": 2}

CASES = [  # drafts, schema, valid, invalid
    (ALL, {}, [None, 1, "x", [], {}], []),
    (ALL, {"type": "integer"}, [0, -7, 10**20], [0.5, "1", None]),
    (ALL, {"type": ["null", "boolean"]}, [None, True, False], [0, "", []]),
    (ALL, {"type": ["integer", "number"]}, [0.5], ["0.5"]),
    (ALL, {"enum": [1, "1", None, True, [1], {"a": 1}]}, [1, "1", None, True, [1], {"a": 1}], [False, [True], [1, 1], {"a": True}, AB]),
    (ALL, {"enum": [1.0, 0]}, [1, 0], [True, False, "1"]),
    (FROM_6, {"const": {"a": [1, {"b": None}], "c": {}}}, [{"a": [1, {"b": None}], "c": {}}], [{"a": [1, {}], "c": {}}, {}, [1]]),
    (FROM_6, {"const": []}, [[]], [[None], {}]),
    (ALL, {"enum": [[], {}]}, [[], {}], [[[]], {"a": {}}]),
    (ALL, {"allOf": [{"minimum": 1}, {"type": "integer"}]}, [1, 5], [0, 1.5, "a"]),
    (ALL, {"anyOf": [{"minimum": 5}, {"type": "integer"}]}, [1, 5.5, "a"], [1.5]),
    (ALL, {"oneOf": [{"minimum": 5}, {"type": "integer"}]}, [1, 5.5, "a"], [5, 1.5]),
    (ALL, {"not": {"type": ["object", "array"]}}, [1, "a", None], [{}, []]),
    (ALL, {"not": {"not": {"properties": {"a": {"type": "null"}}}}}, [{"a": None}, {"b": 1}, 5], [A]),
    (ALL, {"not": {"properties": {"a": {"type": "null"}}}}, [A, AB], [{}, {"a": None}, 5]),
    (FROM_7, {"if": {"minimum": 10}, "then": {"multipleOf": 5}, "else": {"multipleOf": 2}}, [4, 10, "a"], [3, 12]),
    (FROM_7, {"if": {"required": ["a"]}, "then": {"required": ["b"]}}, [{}, {"b": 1}, AB], [A]),
    (FROM_7, {"then": {"type": "null"}, "else": {"type": "null"}}, [1], []),
    (ALL, {"minLength": 2, "maxLength": 3}, ["ab", "äöü", "𝒳𝒴", 5], ["a", "abcd", "𝒳"]),
    (ALL, {"pattern": "b+$"}, ["ab", "b", 5], ["ba", ""]),
    (ALL, {"minimum": 1.5, "maximum": 3}, [1.5, 3, "0"], [1.4, 3.1]),
    (FROM_6, {"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [1.001, 2], [1, 3]),
    (ALL, {"multipleOf": 0.01}, [0.07, 4.35, 1], [0.075]),
    (ALL, {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}, [{"a": 1, "x": "s"}, {}], [{"x": 1}, {"a": "s"}]),
    (ALL, {"properties": {"a": {}}, "additionalProperties": False}, [{}, A, []], [AB, {"b": 1}]),
    (ALL, {"patternProperties": {"^x": {"type": "null"}, "y$": {"type": ["null", "integer"]}}}, [{"xy": None, "y": 1}], [{"xy": 1}, {"y": "s"}]),
    (ALL, {"properties": {"ax": {"minimum": 3}}, "patternProperties": {"x": {"maximum": 5}}, "additionalProperties": False}, [{"ax": 4}, {"bx": 1}], [{"ax": 2}, {"ax": 6}, A]),
    (FROM_6, {"propertyNames": {"maxLength": 2, "pattern": "^[a-z]*$"}}, [{}, {"ab": 1}, 5], [{"abc": 1}, {"A": 1}]),
    (FROM_6, {"propertyNames": False}, [{}, []], [A]),
    (FROM_6, {"propertyNames": {"enum": ["a", "b"]}, "minProperties": 2}, [AB], [A, {"a": 1, "c": 1}]),
    (ALL, {"required": ["a", "c"]}, [{"a": 1, "b": 1, "c": 1}, 5], [AB, {}]),
    (ALL, {"minProperties": 1, "maxProperties": 2}, [A, AB, 5], [{}, {"a": 1, "b": 1, "c": 1}]),
    (FROM_2019, {"dependentRequired": {"a": ["b", "c"]}}, [{}, {"b": 1}, {"a": 1, "b": 1, "c": 1}], [A, AB]),
    (FROM_2019, {"dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}}, [A, {"b": 2}, {"a": 1, "b": None}], [AB]),
    (ALL, {"dependencies": {"a": ["b"], "c": {"maxProperties": 1}}}, [AB, {"c": 1}, {"b": 1}], [A, {"b": 1, "c": 1}]),
    (ALL, {"items": {"type": "integer"}}, [[], [1, 2], "a"], [["a"], [1, "a"]]),
    ((4, 6, 7, 2019), {"items": [{"type": "integer"}, {}], "additionalItems": {"type": "null"}}, [[], [1], [1, 2, None]], [["a"], [1, 2, 3]]),
    ((4, 6, 7, 2019), {"items": {}, "additionalItems": False}, [[1, 2]], []),
    (ONLY_2020, {"prefixItems": [{"type": "integer"}, {}], "items": {"type": "null"}}, [[], [1], [1, 2, None]], [["a"], [1, 2, 3]]),
    (ALL, {"minItems": 1, "maxItems": 2}, [[1], [1, 2], "a"], [[], [1, 2, 3]]),
    (FROM_6, {"contains": {"type": "null"}}, [[None], [1, None], {}], [[], [1]]),
    ((6, 7), {"contains": {"type": "null"}, "minContains": 2, "maxContains": 0}, [[None]], [[]]),
    (FROM_2019, {"contains": {"type": "null"}, "minContains": 2, "maxContains": 3}, [[None, 1, None], [None] * 3], [[None], [None] * 4]),
    (FROM_2019, {"contains": {"type": "null"}, "minContains": 0, "maxContains": 1}, [[], [1], [None]], [[None, None]]),
    (FROM_2019, {"minContains": 5, "maxContains": 0}, [[], [1]], []),
    (ALL, {"uniqueItems": True, "items": {"enum": [1, 2, "1"]}}, [[1, 2, "1"], []], [[1, 1], [2, "1", 2]]),
    (ALL, {"uniqueItems": False}, [[1, 1]], []),
    (FROM_2019, {"properties": {"a": {}}, "unevaluatedProperties": False}, [A, {}], [AB]),
    (FROM_2019, {"allOf": [{"properties": {"a": {}}}, {"patternProperties": {"^x": {}}}], "unevaluatedProperties": {"type": "null"}}, [A, {"x1": 1, "b": None}], [AB]),
    (FROM_2019, {"anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {}}}], "unevaluatedProperties": False}, [{"b": 1}, {"a": None}, {"a": None, "b": 1}], [A, AB]),
    (FROM_2019, {"oneOf": [{"required": ["a"], "properties": {"a": {}}}, {"required": ["b"], "properties": {"b": {}}}], "unevaluatedProperties": False}, [A, {"b": 1}], [AB, {}, {"a": 1, "c": 1}]),
    (FROM_2019, {"if": {"required": ["a"], "properties": {"a": {}}}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}, "unevaluatedProperties": False}, [AB, A, {"c": 1}], [{"a": 1, "c": 1}, {"b": 1}]),
    (FROM_2019, {"$defs": {"n": {"properties": {"a": {}}}}, "$ref": "#/$defs/n", "unevaluatedProperties": False}, [A], [AB]),
    (FROM_2019, {"not": {"properties": {"a": {}}, "required": ["z"]}, "unevaluatedProperties": False}, [{}], [A]),
    (FROM_2019, {"allOf": [{"unevaluatedProperties": {"type": "integer"}}], "unevaluatedProperties": False}, [A, AB], [{"a": "s"}]),
    (FROM_2019, {"allOf": [{"properties": {"a": {}}, "unevaluatedProperties": False}], "properties": {"b": {}}}, [A], [AB]),
    (FROM_2019, {"dependentSchemas": {"a": {"properties": {"b": {}}}}, "properties": {"a": {}}, "unevaluatedProperties": False}, [AB, {}], [{"b": 1}]),
    ((2019,), {"items": [{}], "unevaluatedItems": {"type": "null"}}, [[1], [1, None]], [[1, 2]]),
    (ONLY_2020, {"prefixItems": [{}], "unevaluatedItems": {"type": "null"}}, [[1], [1, None]], [[1, 2]]),
    (ONLY_2020, {"contains": {"type": "integer"}, "unevaluatedItems": {"type": "null"}}, [[1], [None, 2]], [["a", 1], [None]]),
    ((2019,), {"contains": {"type": "integer"}, "unevaluatedItems": False}, [], [[1], []]),
    (ONLY_2020, {"anyOf": [{"prefixItems": [{"type": "null"}]}, {"prefixItems": [{}, {"type": "integer"}]}], "unevaluatedItems": False}, [[None], [None, 1], [5, 1], []], [[5, 1, 1], [None, "a"]]),
    (ONLY_2020, {"if": {"contains": {"const": "a"}}, "then": {"items": {}}, "unevaluatedItems": False}, [["a", 1], []], [[1]]),
    (ALL, {"nullable": True, "type": "string", "discriminator": {"propertyName": "a"}, "title": 5, "x": {}}, ["a"], [None]),
    (ALL, {"format": "no-such-format"}, ["anything", 5], []),
    (ALL, {"format": "ipv4"}, ["127.0.0.1", 5], ["127.0.0.256"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("drafts", "schema", "valid", "invalid"), CASES, ids=[json.dumps(case[1])[:60] for case in CASES]
)
def test_keywords(drafts, schema, valid, invalid):
    for draft in drafts:
        rsm = SchemaMachine(SchemaDocument(schema, draft=draft), TextOptions(property_order="any")).rsm
        for value in valid:
            assert rsm.matches(json.dumps(value, ensure_ascii=False).encode()), (draft, value)
        for value in invalid:
            assert not rsm.matches(json.dumps(value, ensure_ascii=False).encode()), (draft, value)


def keywords_of(schema, **options):
    document = SchemaDocument(schema, **options)
    keywords = Keywords(document, Formulas())
    return keywords, keywords.schema(document.root)


def test_a_keyword_says_nothing_about_other_types():
    keywords, root = keywords_of({"minLength": 2, "minimum": 1, "required": ["a"], "minItems": 1})
    assert keywords.expand(root, NULL) == TRUE
    shown = {type_: keywords.formulas.show(keywords.expand(root, type_)) for type_ in (STRING, NUMBER, OBJECT, ARRAY)}
    assert shown[STRING] == "Length(minimum=2, maximum=None)"
    assert shown[NUMBER] == "AtLeast(bound=Decimal('1'), exclusive=False)"
    assert shown[OBJECT].startswith("not All(")
    assert shown[ARRAY] == "MinItems(count=1)"


def test_type_and_constants_become_constants():
    keywords, root = keywords_of({"type": ["string", "null"], "enum": ["a", None, 5]})
    values = {type_: keywords.expand(root, type_) for type_ in TYPES}
    assert values.pop(NULL) == TRUE
    assert keywords.formulas.show(values.pop(STRING)) == "StrEnum(values=frozenset({'a'}))"
    assert set(values.values()) == {FALSE}


def test_equal_subschemas_in_place_are_the_same_formula():
    keywords, root = keywords_of(
        {"anyOf": [{"allOf": [{"minimum": 1}, {"maximum": 2}]}, {"maximum": 2.0, "minimum": 1}]}
    )
    assert keywords.formulas.show(keywords.expand(root, NUMBER)).count("AtLeast") == 2


def test_canonical_text():
    assert canonical({"b": [1.0, Decimal("1E+2"), -0.0], "a": {"é": None}}) == '{"a":{"é":null},"b":[1,100,0]}'
    assert canonical(True) != canonical(1)
    assert canonical("1") != canonical(1)


@pytest.mark.parametrize(
    ("schema", "blamed"),
    [
        (False, "nothing satisfies #"),
        ({"enum": []}, "nothing satisfies #/enum"),
        ({"title": "t", "type": "string", "enum": [1, 2], "minLength": 1}, "#/type and #/enum contradict"),
        ({"type": "integer", "allOf": [{"minimum": 3}, {"$ref": "#/$defs/m"}], "$defs": {"m": {"maximum": 2}}},
         "#/type, #/allOf/0/minimum and #/$defs/m/maximum contradict"),
        ({"type": "object", "required": ["b"], "properties": {"a": {}}, "additionalProperties": False},
         "#/type, #/required and #/additionalProperties contradict"),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "null", "const": 5}}},
         "#/properties/a/type and #/properties/a/const contradict"),
        ({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}, "#/type, #/required and #/properties contradict"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_named(schema, blamed):
    with pytest.raises(EmptyLanguageError) as caught:
        SchemaMachine(SchemaDocument(schema), TextOptions())
    assert blamed in str(caught.value)
