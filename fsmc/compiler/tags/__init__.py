"""Structural tags: free text in which triggers open constrained parts, as in the tool calls of chat models.

In reading order: `tree` is what a tag says, without any machine, and `reading` reads it from what users write; `tool_calls`
writes such trees for the layouts of model families, from a list of tools. `language` turns a tree into one regular language
over bytes, in which a call of a JSON Schema is a letter of its own; free text up to the first of some strings is the automaton in
`free_text`. `machine` puts the schemas in the place of those letters. `recipe` stores and loads.
"""
