"""Forced text against the definition: the longest common prefix of all completions, found by listing them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rsm_examples import EXAMPLES, Call, Exit, machine

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.rsm import RSM, Configuration
from fsmc.compiler.errors import LimitExceeded, MachineError
from fsmc.jumpforward.jump_map import FREE, JumpForwardMap


def dfa_of(texts, loops=()):
    """The prefix tree of ``texts`` as a DFA; ``loops`` adds edges (prefix, byte, prefix)."""
    prefixes = sorted({text[:i] for text in texts for i in range(len(text) + 1)})
    number = {prefix: i for i, prefix in enumerate(prefixes)}
    delta = np.full((len(prefixes), 256), -1)
    for prefix in prefixes[1:]:
        delta[number[prefix[:-1]], prefix[-1]] = number[prefix]
    for source, byte, target in loops:
        delta[number[source], byte] = number[target]
    return DFA.from_arrays(np.arange(256), delta, [prefix in texts for prefix in prefixes], start=number[b""])


def common_prefix(texts):
    first, last = min(texts), max(texts)  # what these two share, all texts between them share
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:n]


def whole_characters(prefix, forced):
    """``forced`` up to the last place at which prefix + forced is whole UTF-8."""
    for end in range(len(forced), 0, -1):
        try:
            (prefix + forced[:end]).decode()
        except UnicodeDecodeError:
            continue
        return forced[:end]
    return b""


texts_in_few_characters = st.sets(st.text("ab白天头é😀😁", max_size=5).map(str.encode), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(texts_in_few_characters)
def test_longest_common_prefix_of_all_completions(texts):
    dfa = dfa_of(texts)
    jumps = JumpForwardMap(dfa)
    for prefix in {text[:i] for text in texts for i in range(len(text) + 1)}:
        state = dfa.run(prefix)
        completions = [text[len(prefix) :] for text in texts if text.startswith(prefix)]
        common = common_prefix(completions)
        expected = whole_characters(prefix, common)
        assert jumps.forced_bytes(state) == common
        assert jumps.jump(state) == (expected, dfa.run(prefix + expected))
        assert jumps.length[state] == len(expected)
        assert jumps.next_byte[state] == (common[0] if common else FREE)
        assert jumps.inside_character[state] == (whole_characters(b"", prefix) != prefix)


@settings(max_examples=100, deadline=None)
@given(texts_in_few_characters, st.data())
def test_loops_back_to_a_prefix(texts, data):
    """As above on infinite languages, by walking: forced as long as one byte leads on and the text may not end."""
    prefixes = sorted({text[:i] for text in texts for i in range(len(text) + 1)})
    inner = st.sampled_from([p for p in prefixes if whole_characters(b"", p) == p])
    loops = data.draw(st.lists(st.tuples(inner, st.sampled_from(b"abc"), inner), max_size=3))
    dfa = dfa_of(texts, loops)
    jumps = JumpForwardMap(dfa)
    rows = dfa.delta[:, dfa.byte_class]
    for state in range(1, dfa.n_states):
        forced, here = b"", state
        while not dfa.accepting[here] and len(live := np.flatnonzero(rows[here])) == 1:
            forced, here = forced + bytes([live[0]]), rows[here, live[0]]
        assert jumps.forced_bytes(state) == forced


def test_cut_inside_a_character():
    """Two words that differ in the last byte of their second character (bytes e7 99 bd · e5 a4 a9 / b4)."""
    dfa = dfa_of({"白天".encode(), "白头".encode()})
    jumps = JumpForwardMap(dfa)
    assert jumps.jump(dfa.start)[0] == "白".encode()
    assert jumps.forced_bytes(dfa.start) == b"\xe7\x99\xbd\xe5\xa4"
    inside = dfa.run(b"\xe7")
    assert jumps.jump(inside)[0] == b"\x99\xbd"
    assert jumps.forced_bytes(inside) == b"\x99\xbd\xe5\xa4"
    assert jumps.jump(dfa.run("白天".encode())) == (b"", dfa.run("白天".encode()))


def test_an_accepting_state_is_a_branch():
    """ab(cb)*: after "ab" the text may end, so that the loop's only byte is not forced."""
    rows = np.full((4, 256), -1)
    rows[[0, 1, 2, 3], list(b"abcb")] = [1, 2, 3, 2]
    dfa = DFA.from_arrays(np.arange(256), rows, [False, False, True, False], start=0)
    jumps = JumpForwardMap(dfa)
    forced = {prefix: jumps.jump(dfa.run(prefix))[0] for prefix in (b"", b"a", b"ab", b"abc", b"abcb")}
    assert forced == {b"": b"ab", b"a": b"b", b"ab": b"", b"abc": b"b", b"abcb": b""}


def untrimmed(edges, n_states):
    delta = np.zeros((n_states, 256), np.int32)
    for source, byte, target in edges:
        delta[source, byte] = target
    accepting = np.arange(n_states) == n_states - 1
    return DFA(np.arange(256, dtype=np.uint8), delta, accepting, 1)


@pytest.mark.parametrize(
    "edges, forced",
    [
        ([(1, 97, 2), (2, 98, 2)], {1: b"a", 2: b""}),  # a chain into a state that loops on itself
        ([(1, 97, 2), (2, 98, 3), (3, 99, 4), (4, 100, 2)], {1: b"a", 2: b"", 3: b"", 4: b""}),
        ([(1, 97, 1)], {1: b""}),
        ([(3, 97, 2), (2, 98, 3), (1, 99, 4), (4, 100, 3)], {1: b"cd", 2: b"", 3: b"", 4: b"d"}),
    ],
)
def test_a_cycle_that_cannot_end_is_not_entered_twice(edges, forced):
    """Only machines that are not trimmed have one."""
    jumps = JumpForwardMap(untrimmed(edges, 6))
    assert {state: jumps.jump(state)[0] for state in forced} == forced


def test_long_chains():
    text = bytes(np.random.default_rng(0).integers(97, 123, 200_000, np.uint8))
    n = len(text)
    delta = np.zeros((n + 2, 256), np.int32)
    delta[np.arange(1, n + 1), np.frombuffer(text, np.uint8)] = np.arange(2, n + 2)
    dfa = DFA(np.arange(256, dtype=np.uint8), delta, np.arange(n + 2) == n + 1, 1)
    jumps = JumpForwardMap(dfa)
    assert jumps.jump(1) == (text, n + 1)
    assert jumps.jump(n - 5) == (text[n - 6 :], n + 1)
    assert (jumps.length[1:] == np.arange(n, -1, -1)).all()


def test_a_class_of_several_bytes_forces_nothing():
    delta = np.array([[0, 0], [2, 0], [0, 3], [0, 0]], np.int32)
    only_a = (np.arange(256) == ord("a")).astype(np.uint8)
    jumps = JumpForwardMap(DFA(only_a, delta, np.arange(4) == 3, 1))
    assert [jumps.jump(state)[0] for state in (1, 2, 3)] == [b"", b"a", b""]


def test_limit_on_one_jump():
    dfa = dfa_of({b"x" * 1000})
    assert JumpForwardMap(dfa, max_bytes=1000).jump(dfa.start)[0] == b"x" * 1000
    with pytest.raises(LimitExceeded, match="max_bytes=999 exceeded"):
        JumpForwardMap(dfa, max_bytes=999).jump(dfa.start)


def test_forced_share_and_sources():
    dfa = dfa_of({b"abc", b"abd"})
    jumps = JumpForwardMap(dfa)
    assert jumps.forced_share == 2 / 5  # of "", a, ab, abc, abd
    rsm = RSM.from_dfa(dfa)
    grammar = type("Grammar", (), {"machine": rsm})()
    for source in (rsm, grammar):
        assert JumpForwardMap(source).jump(dfa.start) == (b"ab", dfa.run(b"ab"))
    for array in (jumps.next_byte, jumps.next_state, jumps.length, jumps.inside_character):
        assert not array.flags.writeable
    with pytest.raises(MachineError, match="not str"):
        JumpForwardMap("ab")
    with pytest.raises(MachineError, match="does not exist"):
        jumps.jump(dfa.n_states)
    with pytest.raises(MachineError, match="does not exist"):
        jumps.jump(-1)


def forced_by_definition(rsm, configuration):
    """Byte by byte with the reference semantics."""
    forced = b""
    while not rsm.is_complete(configuration):
        live = [(byte, after) for byte in range(256) if (after := rsm.step(configuration, byte)) is not None]
        if len(live) != 1:
            break
        forced, configuration = forced + bytes([live[0][0]]), live[0][1]
    return forced


def spelled_names() -> RSM:
    """``{"name":…,"größe":…}``: keys in the caller, values in a shared component that only an exit leaves.

    Values are ``é`` or ``è`` in quotes, which share their first byte, or a number that ends before a comma or brace.
    """
    edges = {"root": {b"{": "k0"}, "end": {}}
    for i, (key, after) in enumerate([(b'"name":', b","), ('"größe":'.encode(), b"}")]):
        for j, byte in enumerate(key):
            edges[f"k{i}_{j}" if j else f"k{i}"] = {bytes([byte]): f"k{i}_{j + 1}"}
        edges[f"k{i}_{len(key)}"] = {b'"': Call("string", f"value{i}"), b"1": Call("number", f"value{i}")}
        edges[f"v{i}"] = {after: "k1" if i == 0 else "end"}
    edges |= {
        "string": {b"\xc3": "accent"},
        "accent": {b"\xa9": "close", b"\xa8": "close"},
        "close": {b'"': Exit(0)},
        "number": {b"0": "number_end"},
        "number_end": {b",}": Exit(0, redo=True)},
    }
    return machine(
        edges,
        frames={"value0": {0: "v0"}, "value1": {0: "v1"}},
        finals={"end": 0},
        start="root",
    )


MACHINES = {**{name: example.machine for name, example in EXAMPLES.items()}, "spelled_names": spelled_names()}


@pytest.mark.parametrize("name", MACHINES)
def test_through_calls_and_returns(name):
    rsm = MACHINES[name]
    jumps = JumpForwardMap(rsm)
    rng = np.random.default_rng(0)
    for _ in range(40):
        configuration = rsm.initial
        for _ in range(30):
            expected = forced_by_definition(rsm, configuration)
            assert jumps.forced_bytes(configuration) == expected
            text, target = jumps.jump_from(configuration)
            assert expected.startswith(text) and len(expected) - len(text) < 4
            assert target == rsm.run(text, configuration)
            assert jumps.inside_character[target.state] == (not text and jumps.inside_character[configuration.state])
            live = [after for byte in range(256) if (after := rsm.step(configuration, byte)) is not None]
            if not live:
                break
            configuration = live[rng.integers(len(live))]


def test_a_jump_leaves_a_value_where_only_the_callers_byte_remains():
    rsm = spelled_names()
    jumps = JumpForwardMap(rsm)
    assert jumps.jump_from(rsm.initial)[0] == b'{"name":'
    deep = Configuration(rsm.run(b'{"name":10').state, (0, 1))  # the frame on top counts, not the one below
    assert jumps.follow(deep).text == b"}"
    after_number = rsm.run(b'{"name":10')
    assert jumps.jump_from(after_number)[0] == ',"größe":'.encode()  # the digit's exits leave one byte here
    assert jumps.jump_from(rsm.run('{"name":"é'.encode()))[0] == '","größe":'.encode()
    assert jumps.jump_from(rsm.run(b'{"name":"')) == (b"", rsm.run(b'{"name":"'))  # c3 is forced, but é is not
    assert jumps.forced_bytes(rsm.run(b'{"name":"')) == b"\xc3"


def test_machines_with_calls_need_the_stack():
    rsm = spelled_names()
    jumps = JumpForwardMap(rsm)
    with pytest.raises(MachineError, match="jump_from"):
        jumps.jump(rsm.start)
    with pytest.raises(MachineError, match="there are 2 frames"):
        jumps.jump_from(Configuration(1, (0, 2)))
    inside, _ = rsm.run('{"name":"é'.encode())
    assert jumps.jump_from(Configuration(inside)) == (b"", Configuration(inside))  # an exit with no call open
