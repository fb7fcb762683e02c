"""CharClass against plain Python sets."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsmc.compiler.syntax.charclass import ANY, EMPTY, CharClass

SURROGATES = range(0xD800, 0xE000)
pairs = st.tuples(st.integers(0xD7F0, 0xE010), st.integers(0, 40)).map(lambda p: (p[0], p[0] + p[1]))
range_lists = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1])) | pairs, max_size=8
)


def as_set(ranges):
    return {cp for low, high in ranges for cp in range(low, high + 1)} - set(SURROGATES)


@given(range_lists, range_lists)
def test_operations_are_those_of_sets(a, b):
    x, y, s, t = CharClass.from_ranges(a), CharClass.from_ranges(b), as_set(a), as_set(b)
    assert as_set((x | y).ranges) == s | t
    assert as_set((x & y).ranges) == s & t
    assert as_set((x - y).ranges) == s - t
    assert x.issubset(y) == (s <= t)
    assert x.isdisjoint(y) == s.isdisjoint(t)
    assert len(x) == len(s) and bool(x) == bool(s)
    assert (x == y) == (s == t)
    if x == y:
        assert hash(x) == hash(y)


@given(range_lists)
def test_complement(a):
    x = CharClass.from_ranges(a)
    assert ~~x == x
    assert len(x) + len(~x) == 0x110000 - 0x800
    assert not x & ~x and x | ~x == ANY
    for cp in [0, 5, 70, 0xD7FF, 0xE000, 0x10FFFF]:
        assert (~x).contains(cp) != x.contains(cp)
    for cp in SURROGATES[::100]:
        assert not x.contains(cp) and not (~x).contains(cp)


@given(range_lists, st.integers(-1, 80))
def test_contains(a, cp):
    assert CharClass.from_ranges(a).contains(cp) == (cp in as_set(a))


@pytest.mark.parametrize("bad", [[(5, 4)], [(-1, 3)], [(0, 0x110000)]])
def test_ranges_that_are_none(bad):
    with pytest.raises(ValueError, match="not a range of code points"):
        CharClass.from_ranges(bad)


@pytest.mark.parametrize(
    "ranges", [((5, 4),), ((1, 2), (3, 4)), ((5, 6), (1, 2)), ((0, 0xDFFF),), ((0x10FFFF, 0x110000),)]
)
def test_constructor_takes_only_the_canonical_form(ranges):
    with pytest.raises(ValueError, match="from_ranges"):
        CharClass(ranges)


def test_constants_and_pickle():
    assert ANY.ranges == ((0, 0xD7FF), (0xE000, 0x10FFFF)) and EMPTY.ranges == ()
    chars = CharClass.of("xyz")
    assert pickle.loads(pickle.dumps(chars)) == chars
