"""Lesson 7: one request and its matcher; how to go back.

Adds to lesson 4 what an engine does with a constraint besides asking for masks: it takes tokens, is told why one does not fit,
goes back, tries several continuations side by side, and has the grammars of many requests compiled in the background.
"""

# %% A matcher's whole state is a configuration: a state of the machine and the return frames of its open calls. All that is
# heavy (machine, masks) belongs to the grammar, and is shared by any number of matchers.
import fsmc

words = [b"[", b"]", b"[[", b"]]", b",", b"1", b"2", b"12", b"],["]
vocabulary = fsmc.Vocabulary.from_tokens([*words, b"", b""], eos_token_ids=[9, 10])
compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="compact")
rows_of_numbers = {"type": "array", "items": {"type": "array", "items": {"enum": [1, 2]}}}
grammar = compiler.compile_json_schema(rows_of_numbers)
matcher = fsmc.GrammarMatcher(grammar, max_rollback_tokens=8)
print("before any text:", matcher.configuration)
for token in (2, 5, 8):
    assert matcher.accept_token(token)
print("after '[[1],[':", matcher.configuration)

# %% A token that does not fit is refused, nothing changes, and the error says what would have.
before = matcher.configuration
assert not matcher.accept_token(7) and matcher.configuration == before
print(matcher.rejection(7))

# %% Going back undoes tokens, texts and the end alike. Two kinds of token end this text; both are allowed exactly where it may end.
matcher.accept_token(3)
print("\nmay end:", matcher.is_completed(), "  has ended:", matcher.is_terminated())
matcher.accept_token(10)
print("has ended:", matcher.is_terminated(), "  entries to go back over:", matcher.rollback_limit)
matcher.rollback(2)
print("two steps back:", matcher.expected())

# %% A fork costs the same however long the text is: stacks and histories are chains whose past is shared. So beam search,
# or checking a draft, is a fork for each continuation.
for continuation in ([5, 3], [5, 4, 6, 3], [4]):
    other = matcher.fork()
    n = other.validate_tokens(continuation)
    print(b"".join(vocabulary.token(token) for token in continuation).decode(), "→", n, "of", len(continuation), "fit")

# %% A server does not want to wait for a compilation, nor compile twice. Its manager has threads; whoever asks gets something
# to poll, and what cannot be compiled becomes a message for the one who sent it.
with fsmc.GrammarManager(compiler) as manager:
    queue = fsmc.GrammarQueue(manager)
    queue.add("ann", "json_schema", rows_of_numbers)
    queue.add("bob", "json_schema", {"type": "arry"})
    queue.add("eve", "json_schema", rows_of_numbers)
    outcomes = {}
    while len(queue):  # a scheduler would run the model here
        outcomes |= dict(queue.take_ready())
    print("\nann and eve share:", outcomes["ann"] is outcomes["eve"])
    print("bob is told:", outcomes["bob"].message)
    print("found out without compiling:", manager.validate("regex", "[a-").message.splitlines()[0])
