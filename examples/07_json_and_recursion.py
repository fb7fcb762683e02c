# %% [markdown]
"""# Lesson 7: text that nests.

Adds JSON Schema. A finite automaton cannot count brackets, so the machine gets a stack: the byte that begins a value is a
*call* of that value's component, and its end is an *exit* back to the caller, with an *outcome* that tells what the caller
wanted to know of the value. Schemas are boolean formulas; what is left of them in the middle of an object is its *residual*.
And nothing is unfolded before a text gets there: compiling reads the schema, walking builds the machine.
"""

# %% [markdown]
# A tree: a node has a value and any number of children, which are nodes. Before any text the machine has its start and 68 states that all
# schemas share: DEAD, strings, numbers, literals, keys, any array and object.

# %%
import json

import fsmc
from fsmc.compiler.schema.atoms import OBJECT
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.keywords import Keywords
from fsmc.compiler.schema.objects import ObjectShape

letters = [bytes([byte]) for byte in range(32, 127)]
pieces = [b'{"', b'":', b'","', b'":[', b"}]", b"]}", b"true", b"value", b"children", b'":12,"']
vocabulary = fsmc.Vocabulary.from_tokens([*letters, *pieces, b""], eos_token_ids=[len(letters) + len(pieces)])
compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="compact")

tree = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["value"],
    "additionalProperties": False,
}
machine = compiler.compile_json_schema(tree).machine
print("states before any text:", machine.n_states)
text = '{"value":1,"children":[{"value":2},{"value":3,"children":[]}]}'
for text_of_some in (text, text[:-1], '{"value":1.5}', '{"children":[]}'):
    print(f"{machine.matches(text_of_some.encode())!s:5} {text_of_some}")
print("states after these texts:", machine.n_states)

# %% [markdown]
# Call and return, byte by byte. An opening bracket calls: a return frame goes onto the stack. The bracket that closes exits: the frame comes off
# and says where the caller goes on. So the same few states read any depth.

# %%
lists = compiler.compile_json_schema({"type": "array", "items": {"$ref": "#"}}).machine
configuration = lists.initial
print()
for byte in b"[[],[]]":
    configuration = lists.step(configuration, byte)
    print(f"  {chr(byte)} state {configuration.state:3}  frames {configuration.stack}")
print("  complete:", lists.is_complete(configuration))

# %% [markdown]
# Laziness. The states above were made as the texts got there. A deeper tree needs no more of them: what is called again is
# the same component, only the stack grows. So the machine of a schema of a thousand members is as cheap as its texts.

# %%
deep = '{"value":0,"children":[' * 50 + '{"value":1}' + "]}" * 50
before = machine.n_states
print(f"\n50 levels deep: {machine.matches(deep.encode())}, {machine.n_states - before} new states")

# %% [markdown]
# The same machine under a vocabulary. A token may end several values at once: `}]` leaves an object and the array around it.
# The mask looks through the stack, so this token is allowed only where an array is open.

# %%
matcher = fsmc.GrammarMatcher(compiler.compile_json_schema(tree))
mask = fsmc.allocate_token_bitmask(1, vocabulary.size)


def allowed() -> list[str]:
    """The tokens that may come next."""
    matcher.fill_next_token_bitmask(mask)
    ids = [i for i in range(vocabulary.size) if mask[0, i // 32] >> (i % 32) & 1]
    return [vocabulary.token(i).decode() or "EOS" for i in ids]


for step in ('{"value":1', ',"children":[{"value":2', "}]"):
    assert matcher.accept_bytes(step.encode())
    print(f"after {step!r:30} {[token for token in allowed() if not token.isdigit()]}")

# %% [markdown]
# Formulas. allOf is "and", anyOf "or", oneOf "exactly one", not "not". A keyword is a condition on values of one type, so a
# schema is expanded for each type: seen as a number, this one is a bound; seen as a string, a length.

# %%
table = Formulas()
either = SchemaDocument({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "number", "minimum": 5}]})
keywords = Keywords(either, table)
print()
for kind in ("string", "number", "null"):
    print(f"as a {kind:7}", table.show(keywords.expand_node(either.root, kind)))

# %% [markdown]
# Residuals. A card payment needs a number, a cash payment needs a place. After each member the formula is *derived*, as a
# regular expression by each letter: what is left has to be satisfied by the rest of the object. `ObjectShape` does that for what an object `must` be; it
# `watches` nothing else, and its members come in one order. `derivative` takes the place in that order and the class `c` of the member's name: each name
# that the schema knows is a class, all others are one more.

# %%
payment = {
    "oneOf": [
        {"properties": {"kind": {"const": "card"}}, "required": ["kind", "number"]},
        {"properties": {"kind": {"const": "cash"}}, "required": ["kind", "place"]},
    ]
}
document = SchemaDocument(payment)
keywords = Keywords(document, table)
must = keywords.expand_node(document.root, OBJECT)
emptiness, order = Emptiness(keywords), ("kind", "number", "place")
shape = ObjectShape(must=must, watches=(), order=order, any_order=False, table=table, emptiness=emptiness)
residual, _ = shape.at_start()
print(f"\nbefore kind it depends on {len(table.atoms(residual))} conditions")
kind, before = order.index("kind"), 0  # places count the members of the order that are behind
derivative = shape.derivative(residual, place=before, c=kind)
after = shape.after(before, kind)
watched = shape.watched_values((derivative,))
print("asked about its value:", [table.show(value) for value in watched])
for truth in ((True, False), (False, True), (False, False)):
    rest = shape.after_value(derivative, dict(zip(watched, truth, strict=True)), after)
    print(f"  {truth}: can be completed {shape.feasible(rest, after)}, conditions left: {len(table.atoms(rest))}")

# %% [markdown]
# Outcomes. The value of "kind" is one component, a string machine that accepts both words: its exit says which of the two it
# was, and the object goes on differently. No alternative is tried and given up; the machine runs all at once.

# %%
machine = compiler.compile_json_schema(payment).machine
for kind in ("card", "cash"):
    for name in ("number", "place"):
        text = json.dumps({"kind": kind, name: 1}, separators=(",", ":"))
        print(f"{machine.matches(text.encode())!s:5} {text}")

# %% [markdown]
# No dead ends: what could never be completed is not offered. Of all letters two can follow here: "card" or "cash".

# %%
matcher = fsmc.GrammarMatcher(compiler.compile_json_schema(payment))
assert matcher.accept_bytes(b'{"kind":"ca')
print("\nafter ca:", allowed())

# %% [markdown]
# What no value can satisfy is refused at once, with the keywords that contradict each other.

# %%
try:
    compiler.compile_json_schema({"properties": {"n": {"const": 3, "maximum": 2}}, "required": ["n"], "type": "object"})
except fsmc.FsmcError as error:
    print(f"\n{type(error).__name__}: {error}")

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 7.1: How deep is the stack in the middle of `{"value":1,"children":[{"value":2,"children":[{"value":`?
#
# Exercise 7.2: No DFA accepts exactly the lists above. How do the states of the DFA of those that nest at most n deep grow with n? See `flatten`.
#
# Exercise 7.3: Write a schema that accepts `{"a": x, "b": y}` where exactly one of x and y is a string.
