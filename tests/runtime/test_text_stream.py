"""Streaming: whole characters, no beginning of a stop string, the flag of each part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fsmc.runtime.text_stream import TextStream


def streamed(chunks: list[tuple[bytes, bool]], stop: list[str]) -> tuple[list[tuple[str, bool]], TextStream, bool]:
    pieces: list[tuple[str, bool]] = []
    stream = TextStream(lambda piece, forced: pieces.append((piece, forced)), stop)
    stopped = any(stream.add(data, forced) for data, forced in chunks)
    if not stopped:
        stream.close()
    return pieces, stream, stopped


def test_a_character_comes_when_its_last_byte_does() -> None:
    first, *rest = "白".encode()
    pieces, _, _ = streamed([(b"a" + bytes([first]), False), (bytes(rest) + b"b", True)], [])
    assert pieces == [("a", False), ("白b", True)]


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    assert streamed([("白".encode()[:2], False)], [])[0] == [("\ufffd", False)]


def test_what_may_begin_a_stop_string_waits() -> None:
    pieces, stream, stopped = streamed([(b"a\n", False), (b"\n", True), (b"b\n", False)], ["\n\n\n"])
    assert (pieces, stream.text, stopped) == (
        [("a", False), ("\n", False), ("\n", True), ("b", False), ("\n", False)],
        "a\n\nb\n",
        False,
    )


def test_the_earliest_of_several_stop_strings_ends_the_text() -> None:
    pieces, stream, stopped = streamed([(b"one, tw", False), (b"o; three", True)], ["; ", "o; t", "!"])
    assert stopped
    assert stream.text == "one, tw"
    assert "".join(piece for piece, _ in pieces) == "one, tw"


@given(
    st.lists(st.tuples(st.text(alphabet="abé白", max_size=4).map(str.encode), st.booleans()), max_size=8),
    st.lists(st.text(alphabet="abé", min_size=1, max_size=3), max_size=2),
    st.integers(1, 3),
)
def test_pieces_are_the_text_up_to_the_first_stop_string(chunks, stop, size) -> None:
    """However the bytes are cut. The oracle looks for the stop string whose end comes first, then starts earliest."""
    whole = b"".join(data for data, _ in chunks)
    cut = [(whole[i : i + size], False) for i in range(0, len(whole), size)]
    text = whole.decode()
    ends = [n for n in range(len(text) + 1) if any(text[:n].endswith(s) for s in stop)]
    for parts in (cut, [(bytes([b]), False) for b in whole]):
        pieces, stream, stopped = streamed(parts, stop)
        assert "".join(piece for piece, _ in pieces) == stream.text
        assert stopped == bool(ends)
        if not ends:
            assert stream.text == text
    if ends:  # byte by byte, nothing past the first completed stop string is ever seen
        seen = text[: ends[0]]
        assert stream.text == seen[: min(seen.find(s) for s in stop if s in seen)]


@given(
    st.lists(st.text("ab", max_size=4), max_size=4),
    st.lists(st.text("abc", max_size=4), max_size=6),
)
def test_what_is_out_is_what_no_stop_string_can_take_back(stop: list[str], chunks: list[str]) -> None:
    out: list[str] = []
    stream = TextStream(lambda piece, forced: out.append(piece), stop)
    strings, text = [s for s in stop if s], ""
    for chunk in chunks:
        text += chunk
        stopped = stream.add(chunk.encode(), False)
        begins = [text.find(s) for s in strings if s in text]
        assert stopped == bool(begins)
        if begins:
            assert "".join(out) == stream.text == text[: min(begins)]
            return
        begun = max((n for s in strings for n in range(len(s)) if text.endswith(s[:n])), default=0)
        assert "".join(out) == text[: len(text) - begun]
