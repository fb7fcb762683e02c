# %% [markdown]
"""# Lesson 2: bytes, not characters.

Adds to lesson 1 what happens to characters beyond ASCII. Tokens of a language model are byte strings, and a token may
end in the middle of a character: an emoji is often three or four tokens. So the machine must read bytes. This lesson
shows how a set of characters becomes a small automaton over the bytes of their UTF-8 encodings (RFC 3629), why that
automaton is small, and that broken UTF-8 can never be produced.
"""

# %% [markdown]
# One character, two to four bytes.

# %%
for character in "éл漢😀":
    print(f"{character}  U+{ord(character):04X}  {character.encode().hex(' ')}")

# %% [markdown]
# A class of characters is a list of ranges of code points. Encoded, a range is no longer a range: `[а-я]` crosses the
# boundary between lead bytes D0 and D1, so it becomes two sequences of byte ranges. They begin in state 0; in state 1 the character is complete.

# %%
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.utf8 import utf8_automaton

cyrillic = CharClass.from_ranges([(ord("а"), ord("я"))])
automaton = utf8_automaton(cyrillic)
print(f"\n[а-я]: {len(cyrillic)} characters, {len(automaton.edges)} edges")
for source, low, high, target in automaton.edges.tolist():
    print(f"  state {source} ── {low:02X}-{high:02X} ──► {target}")

# %% [markdown]
# Every character there is: nine states and sixteen edges for 1,112,064 characters. The odd ranges after E0, ED, F0 and F4
# leave out overlong forms, surrogates and what lies past U+10FFFF. No machine built from it can accept broken UTF-8.

# %%
from fsmc.compiler.syntax.charclass import ANY

automaton = utf8_automaton(ANY)
print(f"\nany character: {automaton.n_states} states")
for source, low, high, target in automaton.edges.tolist():
    print(f"  state {source} ── {low:02X}-{high:02X} ──► {target}")

# %% [markdown]
# Large classes stay small because equal parts are shared: `\w` has hundreds of ranges, but many blocks of 64 characters
# are wholly inside it, and all of those are one and the same state.

# %%
from fsmc.compiler.syntax.unicode_tables import unicode_word

words = unicode_word()
automaton = utf8_automaton(words)
print(
    f"\n\\w: {len(words):,} characters in {len(words.ranges)} ranges: {automaton.n_states} states, {len(automaton.edges)} edges"
)

# %% [markdown]
# In a compiled pattern: a text may be cut anywhere, even inside a character, and the machine still knows where it is.

# %%
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.regex import parse_regex

dfa = minimize(determinize(thompson(parse_regex("[😀-😏]+"))))
state = dfa.start
print(f"\n[😀-😏]+ has {dfa.n_states} states, and each byte of an emoji is one step:")
for byte in "😀".encode():
    state = dfa.run(bytes([byte]), state)
    print(f"  {byte:02X} → state {state}{' (the text may end here)' if dfa.accepting[state] else ''}")

# %% [markdown]
# What the machine refuses: half a character, an overlong slash (C0 AF), a surrogate (ED A0 80).

# %%
anything = minimize(determinize(thompson(parse_regex("(?s:.)*"))))
for name, data in {"half a character": b"\xf0\x9f", "overlong": b"\xc0\xaf", "surrogate": b"\xed\xa0\x80"}.items():
    assert not anything.matches(data)
    print(f"refused: {name}")

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 2.1: Without trying: into how many sequences of byte ranges does `[à-ÿ]` fall, and `[\x00-\uFFFF]`? Then try.
#
# Exercise 2.2: How many byte strings of length 1, 2, 3 and 4 are one well-formed character?
