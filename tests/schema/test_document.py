"""Schemas as documents: drafts, identifiers, references of every kind, and errors that say where."""

import json
from dataclasses import dataclass
from decimal import Decimal

import pytest
import referencing
import referencing.jsonschema

from fsmc.compiler.errors import LimitExceeded, SchemaError, UnsupportedSchemaError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.source import parse_json, schema_of
from fsmc.compiler.schema.text_options import TextOptions

DRAFT = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "https://json-schema.org/draft-07/schema",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema#",
}


def accepts(schema, *values, draft=None, registry=None):
    machine = SchemaMachine(SchemaDocument(schema, draft=draft, registry=registry), TextOptions(property_order="any"))
    return [machine.rsm.matches(json.dumps(value).encode()) for value in values]


def fault(schema, draft=2020, **options):
    with pytest.raises(SchemaError) as caught:
        SchemaDocument(schema, draft=draft, **options)
    return caught.value.pointer, caught.value.keyword


def registry_of(**documents):
    resources = [
        (f"http://example.org/{name}.json", referencing.jsonschema.DRAFT202012.create_resource(contents))
        for name, contents in documents.items()
    ]
    return referencing.Registry().with_resources(resources)


# ── drafts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "draft"),
    [
        ({"items": [{"type": "integer"}]}, 2019),
        ({"minimum": 3, "exclusiveMinimum": True}, 2020),
        ({"items": [{"minimum": 3, "exclusiveMinimum": True}]}, 2019),
        ({"prefixItems": [True]}, 2020),
        ({"$schema": "https://example.org/mine", "items": [{"type": "integer"}]}, 2019),
    ],
)
def test_without_a_declaration_it_is_the_newest_that_allows_the_schema(schema, draft):
    document = SchemaDocument(schema)
    assert document.draft(document.root) == draft


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("const", float("nan")),
        ("const", "\ud800"),
        ("propertyNames", 5),
        ("contains", 5),
        ("if", []),
        ("dependentRequired", 5),
    ],
)
def test_no_draft_is_chosen_because_it_does_not_know_the_keyword_at_fault(keyword, value):
    with pytest.raises(SchemaError, match=keyword):
        SchemaDocument({keyword: value})


@pytest.mark.parametrize(("draft", "uri"), DRAFT.items())
def test_the_draft_is_what_the_schema_declares(draft, uri):
    document = SchemaDocument({"$schema": uri}, draft=4)
    assert document.draft(document.root) == draft


def test_the_draft_may_be_an_argument_and_change_inside():
    document = SchemaDocument({"items": {"$schema": DRAFT[4], "not": {}}}, draft=7)
    inner = document.child(document.root, "items")
    assert (document.draft(document.root), document.draft(inner)) == (7, 4)
    assert document.draft(document.child(inner, "not")) == 4


def test_a_meta_schema_of_ones_own_means_the_default_draft():
    document = SchemaDocument({"$schema": "https://example.org/meta"}, draft=2019)
    assert document.draft(document.root) == 2019


@pytest.mark.parametrize("draft", DRAFT)
def test_what_stands_beside_a_reference_counts_from_2019_on(draft):
    schema = {"definitions": {"n": {"type": "number"}}, "$ref": "#/definitions/n", "minimum": 5}
    assert accepts(schema, 3, draft=draft) == [draft <= 7]


def test_beside_a_reference_even_nonsense_is_ignored_before_2019():
    schema = {"definitions": {"n": {"type": "number"}}, "$ref": "#/definitions/n", "minimum": "x"}
    assert accepts(schema, 3, "3", draft=7) == [True, False]
    assert fault(schema, draft=2020) == ("/minimum", "minimum")


def test_keywords_of_other_drafts_are_ignored():
    assert (
        accepts({"const": 1, "if": False, "contains": False, "propertyNames": False}, 2, [3], {"a": 1}, draft=4)
        == [True] * 3
    )
    assert accepts({"prefixItems": "not a list", "dependentRequired": 5, "unevaluatedItems": 1}, [1], draft=7) == [True]
    assert accepts({"additionalItems": 7}, [1], draft=2020) == [True]


def test_limits_are_flags_in_draft_4_and_numbers_later():
    assert accepts(
        {"minimum": 3, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True}, 3, 4, 5, draft=4
    ) == [
        False,
        True,
        False,
    ]
    assert fault({"exclusiveMinimum": True, "minimum": 1}, draft=6) == ("/exclusiveMinimum", "exclusiveMinimum")
    assert fault({"exclusiveMaximum": 3}, draft=4) == ("/exclusiveMaximum", "exclusiveMaximum")


def test_flags_of_draft_4_change_nothing_else_where_no_draft_is_declared():
    schema = {
        "minimum": 3,
        "exclusiveMinimum": True,
        "maximum": 9,
        "exclusiveMaximum": False,
        "not": {"const": 5},
        "if": {"minimum": 7},
        "then": {"exclusiveMaximum": 8},
    }
    assert accepts(schema, 3, 4, 5, 6, 8, 9) == [False, True, False, True, False, False]
    assert accepts({"exclusiveMaximum": True}, 10**9, "x") == [True, True]
    assert fault({**schema, "$schema": DRAFT[7]}, draft=None) == ("/exclusiveMinimum", "exclusiveMinimum")


def test_an_unknown_meta_schema_is_noted():
    machine = SchemaMachine(SchemaDocument({"$schema": "https://example.org/mine"}), TextOptions())
    (note,) = machine.notes
    assert note.startswith("#/$schema: 'https://example.org/mine' is not a draft")


def test_draft_3_and_unknown_drafts_are_refused():
    with pytest.raises(UnsupportedSchemaError, match="draft 3"):
        SchemaDocument({"$schema": "http://json-schema.org/draft-03/schema#"})
    assert fault({}, draft=5) == ("", "$schema")


# ── references inside the document ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/a%25b~1c~0d%20%22",
        "#/x-unknown/1",
        "#/properties/y",
        "#/allOf/0/items",
        "#named",
        "#/$defs/inner/$defs/deep",
    ],
)
def test_references_into_any_place(reference):
    goal = {"type": "boolean"}
    schema = {
        "properties": {"x": {"$ref": reference}, "y": goal},
        "x-unknown": [{}, goal],
        "allOf": [{"items": goal}],
        "$defs": {'a%b/c~d "': goal, "n": {"$anchor": "named", **goal}, "inner": {"$defs": {"deep": goal}}},
    }
    assert accepts(schema, {"x": True}, {"x": 1}) == [True, False]


def test_a_pointer_passes_through_embedded_resources():
    schema = {
        "$id": "http://example.org/root.json",
        "$defs": {
            "a": {
                "$id": "folder/a.json",
                "$ref": "#/$defs/local",
                "$defs": {"local": {"type": "null"}, "n": {"$ref": "b.json"}},
            },
            "b": {"$id": "folder/b.json", "type": "string"},
            "local": {"type": "number"},
        },
        "prefixItems": [{"$ref": "folder/a.json"}, {"$ref": "#/$defs/a/$defs/n"}, {"$ref": "#/$defs/local"}],
        "items": False,
    }
    assert accepts(schema, [None, "s", 1], [1, "s", 1], [None, 1, 1]) == [True, False, False]


@pytest.mark.parametrize("keyword", ["const", "enum", "default", "x-unknown"])
def test_identifiers_count_only_where_schemas_stand(keyword):
    """What looks like a schema inside a value, or below a keyword nobody knows, names nothing."""
    fake = {"$id": "http://example.org/other.json", "type": "null"}
    schema = {
        "$defs": {
            "v": {keyword: [fake] if keyword == "enum" else fake},
            "other": {"$id": "other.json", "type": "string"},
        },
        "$id": "http://example.org/root.json",
        "$ref": "other.json",
    }
    assert accepts(schema, "s", None) == [True, False]


def test_old_identifiers():
    schema = {"id": "http://example.org/r", "definitions": {"a": {"id": "#name", "type": "null"}}, "$ref": "#name"}
    assert accepts(schema, None, 1, draft=4) == [True, False]
    schema = {"$id": "http://example.org/r", "definitions": {"a": {"$id": "#name", "type": "null"}}, "$ref": "#name"}
    assert accepts(schema, None, 1, draft=7) == [True, False]


def test_the_same_subschema_is_the_same_node():
    document = SchemaDocument(
        {"properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "null"}}}
    )
    a, b = (document.child(document.root, "properties", name) for name in "ab")
    assert (
        document.resolve(a, "#/$defs/t")
        == document.resolve(b, "#/$defs/t")
        == document.child(document.root, "$defs", "t")
    )


def test_references_that_lead_nowhere_say_so():
    assert fault({"properties": {"a/b": {"$ref": "#/$defs/none"}}}) == ("/properties/a~1b/$ref", "$ref")
    assert fault({"items": {"$ref": "#none"}}) == ("/items/$ref", "$ref")
    assert fault({"items": {"$ref": "http://example.org/none.json"}}) == ("/items/$ref", "$ref")
    assert fault({"$ref": "#/allOf/7", "allOf": [True]}) == ("/$ref", "$ref")
    assert fault({"$ref": "#/title", "title": "no schema"}) == ("/$ref", "$ref")


def test_references_that_only_lead_back_to_themselves_say_so():
    assert fault({"$ref": "#"}) == ("", "$ref")
    cycle = {"a": {"anyOf": [True, {"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}
    assert fault({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": cycle}) == ("/$defs/a", "$ref")
    tree = {"properties": {"next": {"$ref": "#"}}}
    assert accepts(tree, {"next": {"next": {}}}) == [True]


# ── references to other documents ────────────────────────────────────────────────────────────────────────────────────


def test_documents_of_a_registry():
    registry = registry_of(
        point={"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}},
        size={"$ref": "point.json#/$defs/n"},
    )
    schema = {"prefixItems": [{"$ref": "http://example.org/point.json"}, {"$ref": "http://example.org/size.json"}]}
    assert accepts(schema, [[1], 2], [["x"], 2], [[1], "x"], registry=registry) == [True, False, False]
    document = SchemaDocument(schema, registry=registry)
    point = document.resolve(document.child(document.root, "prefixItems", 0), "http://example.org/point.json")
    assert document.pointer(document.child(point, "items")) == "http://example.org/point.json#/items"


def test_a_fault_in_another_document_is_reported_there():
    registry = registry_of(bad={"items": {"minLength": -1}})
    assert (
        fault({"$ref": "http://example.org/bad.json"}, registry=registry)[0]
        == "http://example.org/bad.json#/items/minLength"
    )


@pytest.mark.parametrize("draft", DRAFT)
def test_the_official_meta_schemas_need_no_registry(draft):
    good, bad = {"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"minimum": "1"}}}
    assert accepts({"$ref": DRAFT[draft]}, good, bad, draft=draft) == [True, False]


# ── dynamic references ───────────────────────────────────────────────────────────────────────────────────────────────

TREE = {
    "$id": "http://example.org/tree.json",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
}
STRICT = {
    "$id": "http://example.org/strict.json",
    "$dynamicAnchor": "node",
    "$ref": "tree.json",
    "unevaluatedProperties": False,
}


def test_a_dynamic_reference_means_the_outermost_anchor_of_its_name():
    typo = {"children": [{"daat": 1}]}
    assert accepts(TREE, typo) == [True]
    assert accepts(STRICT, typo, {"children": [{"data": 1}]}, registry=registry_of(tree=TREE)) == [False, True]


def test_a_detour_resets_nothing():
    """Who enters tree.json by way of strict.json is strict all the way down, by another way he is not."""
    both = {
        "prefixItems": [{"$ref": "http://example.org/strict.json"}, {"$ref": "http://example.org/tree.json"}],
        "items": False,
    }
    typo, fine = {"children": [{"daat": 1}]}, {"children": [{"data": 1}]}
    registry = registry_of(tree=TREE, strict=STRICT)
    assert accepts(both, [fine, typo], [typo, fine], registry=registry) == [True, False]


def test_dynamic_references_without_a_dynamic_anchor_are_plain():
    schema = {"$defs": {"s": {"$anchor": "item", "type": "string"}}, "items": {"$dynamicRef": "#item"}}
    assert accepts(schema, ["a"], [1]) == [True, False]
    schema = {"$defs": {"s": {"$dynamicAnchor": "item", "type": "string"}}, "items": {"$dynamicRef": "#/$defs/s"}}
    assert accepts(schema, ["a"], [1]) == [True, False]


def test_recursive_references():
    def tree(strict):
        inner = {
            "$id": "http://example.org/inner.json",
            "$recursiveAnchor": True,
            "properties": {"child": {"$recursiveRef": "#"}, "data": True},
        }
        return {
            "$schema": DRAFT[2019],
            "$id": "http://example.org/outer.json",
            "$recursiveAnchor": strict,
            "$defs": {"inner": inner},
            "$ref": "inner.json",
            "unevaluatedProperties": False,
        }

    deep = {"child": {"child": {"typo": 1}}}
    assert accepts(tree(strict=True), deep, {"child": {"child": {"data": 1}}}) == [False, True]
    assert accepts(tree(strict=False), deep, {"typo": 1}) == [True, False]
    assert fault({"$recursiveRef": "#/$defs/x"}, draft=2019) == ("/$recursiveRef", "$recursiveRef")


def test_scopes_stay_finite():
    """Two resources that enter each other for ever make four nodes' worth of scopes, not a new one for each round."""
    one = {
        "$id": "http://example.org/one",
        "$dynamicAnchor": "a",
        "properties": {"x": {"$ref": "two"}, "y": {"$dynamicRef": "#a"}},
    }
    two = {
        "$id": "http://example.org/two",
        "$dynamicAnchor": "a",
        "properties": {"x": {"$ref": "one"}, "z": {"$dynamicRef": "#a"}},
    }
    schema = {
        "$id": "http://example.org/",
        "$defs": {"one": one, "two": two},
        "anyOf": [{"$ref": "one"}, {"$ref": "two"}],
    }
    document = SchemaDocument(schema)
    assert accepts(schema, {"x": {"x": {"x": {}}}}) == [True]
    seen, waiting = set(), [document.root]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            value = document.value(node)
            waiting += [document.child(node, "properties", name) for name in value.get("properties", ())]
            waiting += document.in_place(node)
    assert len(seen) < 30


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "/properties/a/type"),
        ({"type": ["string", 1]}, "/type"),
        ({"items": {"minLength": "3"}}, "/items/minLength"),
        ({"minLength": -1}, "/minLength"),
        ({"maxItems": 1.5}, "/maxItems"),
        ({"maximum": float("nan")}, "/maximum"),
        ({"maximum": True}, "/maximum"),
        ({"maximum": 10**1000}, "/maximum"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"enum": [[float("inf")]]}, "/enum"),
        ({"enum": "abc"}, "/enum"),
        ({"const": {"a": "\ud800"}}, "/const"),
        ({"required": "a"}, "/required"),
        ({"required": [1]}, "/required"),
        ({"properties": [{}]}, "/properties"),
        ({"properties": {1: {}}}, "/properties"),
        ({"anyOf": []}, "/anyOf"),
        ({"anyOf": [{}, 5]}, "/anyOf/1"),
        ({"items": [{}]}, "/items"),
        ({"$ref": 5}, "/$ref"),
        ({"uniqueItems": "yes"}, "/uniqueItems"),
        ({"dependentRequired": {"a": "b"}}, "/dependentRequired"),
        ({"dependencies": {"a": "b"}}, "/dependencies"),
        ({"pattern": "("}, "/pattern"),
        ({"patternProperties": {"a{2,1}": {}}}, "/patternProperties/a{2,1}"),
        ({"if": None}, "/if"),
    ],
)
def test_a_wrong_value_is_reported_where_it_stands(schema, pointer):
    assert fault({"allOf": [schema]})[0] == "/allOf/0" + pointer
    keyword = fault(schema)[1]
    assert keyword in ("", pointer.split("/")[-1], pointer.split("/")[1])


def test_a_back_reference_is_unsupported_rather_than_wrong():
    with pytest.raises(UnsupportedSchemaError, match="back-references"):
        SchemaDocument({"properties": {"a": {"pattern": r"(a)\1"}}})


NAN = float("nan")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strin"}, "#/type: must be the name of a type, .*, not 'strin'"),
        ({"type": ["null", "strin"]}, "#/type: .*; /1 is 'strin'"),
        ({"minimum": None}, "#/minimum: must be a finite number of at most some 400 digits, not null"),
        ({"minimum": NAN}, "#/minimum: .*, not nan"),
        ({"multipleOf": 0}, "greater than 0, not 0"),
        ({"allOf": []}, "a non-empty array of subschemas, not an empty array"),
        ({"required": ("a",)}, "an array of names, not a tuple.*write a list"),
        ({"required": ["a", 5]}, "an array of names; /1 is 5"),
        ({"enum": {1}}, "not a Python set, which JSON has not"),
        ({"enum": [1, {"a": [NAN]}]}, "; /1/a/0 is nan"),
        ({"const": {"\ud800": 1}}, r"; the name '\\ud800' has a lone surrogate"),
        ({"items": {1: {}}}, "#/items: the name 1 is a number, not a string"),
        ({"properties": {None: {}}}, "#/properties: .*; the name None is null, not a string"),
        ({"dependentRequired": {"a": ["b", None]}}, "; /a/1 is null"),
    ],
)
def test_messages_say_what_is_wrong_and_where(schema, message):
    with pytest.raises(SchemaError, match=message) as caught:
        SchemaDocument(schema)
    str(caught.value).encode()  # it can be printed


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "not an array"),
        (None, "not null"),
        (5, "not a number"),
        ("[]", "not an array"),
        ("", "the text is empty"),
        ("schema.json", "the text is 'schema.json'"),
        (b"{}", "decode bytes"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"minimum": -Infinity}', "-Infinity is not JSON"),
        ('{"minimum": %s}' % ("9" * 5000), "thousands of digits"),
    ],
)
def test_what_is_no_schema(value, message):
    with pytest.raises(SchemaError, match=message):
        SchemaDocument(schema_of(value))


def test_a_byte_order_mark_is_no_part_of_the_schema():
    assert accepts('\ufeff{"type": "null"}', None, 1) == [True, False]


# ── depth and size ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("prefix", ["", '{"enum": ', '{"not": '])
def test_ten_megabytes_of_brackets(prefix):
    text = prefix + "[" * 5_000_000 + "]" * 5_000_000 + "}" * bool(prefix)
    with pytest.raises(LimitExceeded, match="max_depth"):
        SchemaDocument(text)


def test_deep_python_objects():
    deep = {"type": "null"}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(LimitExceeded, match="max_depth"):
        SchemaDocument(deep)
    SchemaDocument({"default": deep})  # an annotation is not looked into
    assert fault({"const": deep}) == ("/const", "const")
    while deep:  # taken apart from outside: freeing it whole would recurse
        deep = deep.pop("not", None)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: {"allOf": [s]},
        lambda s: {"not": s},
        lambda s: {"oneOf": [s, {"const": 1}]},
        lambda s: {"type": "object", "properties": {"a": s}, "required": ["a"]},
        lambda s: {"type": "array", "items": s, "minItems": 1},
        lambda s: {"type": "array", "contains": s},
        lambda s: {"type": "object", "additionalProperties": s, "minProperties": 1},
    ],
    ids=["allOf", "not", "oneOf", "required", "items", "contains", "additional"],
)
def test_nesting_up_to_the_limit_compiles(wrap):
    schema = {"type": "string"}
    for _ in range(190):
        schema = wrap(schema)
    SchemaMachine(SchemaDocument(schema), TextOptions())


def test_a_thousand_references_in_a_row():
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(1000)}
    assert accepts({"$ref": "#/$defs/d0", "$defs": {**chain, "d1000": {"type": "null"}}}, None, 1) == [True, False]


def test_the_number_of_subschemas_is_limited():
    with pytest.raises(LimitExceeded, match="max_nodes=100"):
        SchemaDocument({"properties": {str(i): {} for i in range(101)}}, max_nodes=100)


# ── sources ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_text_keeps_numbers_exact():
    document = SchemaDocument('{"multipleOf": 0.1}')
    assert document.value(document.root) == {"multipleOf": Decimal("0.1")}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "NaN", "[Infinity]", "{", "", "1" * 5000, '{"x": tru}'])
def test_text_that_is_not_json(text):
    with pytest.raises(SchemaError):
        parse_json(text)


def test_python_types():
    pytest.importorskip("pydantic", reason="types are compiled through pydantic")
    from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

    @dataclass
    class Point:
        x: int
        y: int = 0

    class Named(TypedDict):
        name: str

    assert accepts(schema_of(Point), {"x": 1}, {"y": 1}) == [True, False]
    assert accepts(schema_of(Named), {"name": "a"}, {}) == [True, False]
    assert accepts(schema_of(list[bool]), [True], [1]) == [True, False]
    with pytest.raises(SchemaError, match="neither a JSON Schema nor a type"):
        schema_of(object())
