"""The order of an object's declared members."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.keywords import Keywords
from fsmc.compiler.schema.member_order import MemberOrder, merge


def order(schema, *watched, draft=2020):
    document = SchemaDocument({"$defs": {"must": schema, **{str(i): w for i, w in enumerate(watched)}}}, draft=draft)
    keywords = Keywords(document, Formulas())
    formulas = [
        keywords.schema(document.child(document.root, "$defs", n)) for n in document.value(document.root)["$defs"]
    ]
    return " ".join(MemberOrder(keywords).of(tuple(formulas)))


def names(text):
    return {"properties": {name: {"type": "null"} for name in text.split()}}


def test_properties_then_what_is_only_required():
    assert order({**names("b a"), "required": ["z", "a", "y"]}) == "b a z y"


def test_lists_of_all_subschemas_in_place_are_merged():
    assert order({"allOf": [names("kind size"), names("id size note")], **names("kind id")}) == "kind id size note"
    assert order({"$ref": "#/$defs/0"}, names("b a")) == "b a"
    assert order({"if": names("a b"), "then": names("c a"), "else": names("b d")}) == "c a b d"
    assert order({"anyOf": [names("a c"), {"oneOf": [names("b c"), {"not": names("d b")}]}]}) == "a d b c"
    assert order({"dependentSchemas": {"x": names("x y")}}) == "x y"


def test_what_is_watched_comes_after_what_must_hold():
    assert order(names("b a"), names("c a")) == "b c a"


def test_names_that_other_keywords_list():
    assert order({"dependentRequired": {"b": ["a"]}, "propertyNames": {"enum": ["c", "b", "a", "0"]}}) == "b a c 0"
    assert order({"dependencies": {"b": ["a"], "c": {"required": ["0"]}}}, draft=7) == "b a c 0"
    assert order({"const": {"z": 1, "a": 2}}) == "z a"
    assert order({"enum": [{"z": 1, "a": 2}, 5, {"y": 1, "a": 2}]}) == "z y a"


def test_members_of_a_constant_inside_keep_their_order():
    document = SchemaDocument({"const": {"outer": {"z": 1, "a": 2}}})
    keywords = Keywords(document, Formulas())
    assert MemberOrder(keywords).of((keywords.const({"z": 1, "a": 2}),)) == ("z", "a")


def test_recursion_ends():
    assert order({"allOf": [{"properties": {"a": {"$ref": "#/$defs/must"}}}]}) == "a"


def test_contradicting_lists_follow_the_first_naming():
    assert merge([("a", "b"), ("b", "a")]) == ("a", "b")
    assert merge([("a", "b", "c"), ("c", "a", "d")]) == ("a", "b", "c", "d")


@given(st.permutations("abcdefgh"), st.lists(st.sets(st.sampled_from("abcdefgh")), max_size=5))
def test_lists_that_agree_are_all_respected(hidden, subsets):
    """Cut from one hidden order, the lists can all be kept."""
    lists = [tuple(name for name in hidden if name in subset) for subset in subsets]
    merged = merge(lists)
    assert sorted(merged) == sorted(set().union(*subsets))
    place = {name: i for i, name in enumerate(merged)}
    assert all(place[a] < place[b] for names in lists for a, b in pairwise(names))


@given(st.lists(st.lists(st.sampled_from("abcdef")), max_size=5))
def test_every_name_comes_once_however_lists_disagree(lists):
    merged = merge(map(tuple, lists))
    assert sorted(merged) == sorted({name for names in lists for name in names})
