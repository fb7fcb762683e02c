# %% [markdown]
"""# Lesson 5: do not ask the model what is already decided.

Adds jump-forward to lesson 4. Where the text may not end and only one byte can follow, the model has no say: that text
is *forced*, and can be appended without a forward pass. Chains of forced states are compressed into jumps (the
"compressed finite-state machine" of SGLang, 2024). A form with fixed keys is mostly forced text. What this does to the tokens is the
next lesson.
"""

# %% [markdown]
# A small form. Everything but the values is forced.

# %%
import fsmc

pattern = r'\{"name": "[a-z]{1,8}", "size": "(small|medium|large)", "ok": (true|false)\}'
letters = [bytes([byte]) for byte in range(32, 127)]
words = [b'{"name": "', b'", "', b"size", b'": "', b"small", b"medium", b"large", b"true", b"false", b"ann"]
vocabulary = fsmc.Vocabulary.from_tokens([*letters, *words, b""], eos_token_ids=[len(letters) + len(words)])
grammar = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex(pattern)

# %% [markdown]
# The map says for every state how many bytes are forced from it.

# %%
jump_map = fsmc.JumpForwardMap(grammar)
forced = int((jump_map.length[1:] > 0).sum())
print(f"{forced} of {grammar.dfa.n_states - 1} states are forced")
text, state = jump_map.jump(grammar.dfa.start)
print(f"from the start: {text!r}")

# %% [markdown]
# So the machine can be drawn with fewer states: only those at which something is asked, and a whole chain as one edge. That is the compressed
# machine. From a state, the edges are its bytes; behind each of them the machine runs on by itself as far as it can.

# %%
dfa = grammar.dfa
todo, asked = [jump_map.jump(dfa.start)[1]], {}
print(f"\nstart   {text!r} → {todo[0]}")
while todo:
    state = todo.pop()
    if state in asked:
        continue
    asked[state] = {}
    for byte in range(256):
        if target := dfa.run(bytes([byte]), state):
            chain, end = jump_map.jump(target)
            asked[state].setdefault((bytes(chain), end), []).append(chr(byte))
            todo.append(end)
for state, edges in sorted(asked.items()):
    for (chain, end), letters in edges.items():
        label = letters[0] if len(letters) == 1 else f"{letters[0]}…{letters[-1]}"
        print(f"{state:5}   {label} {chain.decode()!r} → {end}")
    if not edges:
        print(f"{state:5}   the end")
print(f"{len(asked)} of {dfa.n_states - 1} states are left")

# %% [markdown]
# A dialogue between machine and "model": the machine writes what is forced, the model (here: a list of answers) only
# what is free. One step of the model may be a whole word or a single letter.

# %%
matcher = fsmc.GrammarMatcher(grammar)
answers = iter([b"ann", b'"', b"m", b"t"])
written, steps = "", 0
while True:
    forced_text = matcher.find_jump_forward_string()
    matcher.accept_bytes(forced_text.encode())
    written += forced_text
    if matcher.is_completed():
        break
    answer = next(answers)
    assert matcher.accept_bytes(answer)
    written += answer.decode()
    steps += 1
    print(f"forced {forced_text!r:22} model {answer.decode()!r}")
print(f"forced {forced_text!r}\n{written}\n{steps} steps of the model for {len(written)} characters")

# %% [markdown]
# Note "m" and "t": one letter decides between small, medium and large, so the rest of the word is forced. After the
# name it is the closing quote that is free (the name could go on); from there on everything is forced again.

# %% [markdown]
# A jump never ends inside a character, so the text of a jump is always text. These two words share two characters and
# the first byte of their third: the jump stops before it.

# %%
two = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex("(ñoé|ñoè)")
print("\nforced before é or è:", repr(fsmc.GrammarMatcher(two).find_jump_forward_string()))

# %% [markdown]
# And it never runs through a place where the text could end, or into a loop.

# %%
loop = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex("ab(cb)*")
print("forced in ab(cb)*:", repr(fsmc.GrammarMatcher(loop).find_jump_forward_string()))

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 5.1: The model writes "yesterday and nope" under `(yes|yesterday) and (no|nope)`, a character at a time. How often is it asked?
#
# Exercise 5.2: Write a pattern of which everything is forced, and one of five states or more of which nothing is.
