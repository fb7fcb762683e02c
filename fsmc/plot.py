"""Figures of a constraint at work, with matplotlib (``pip install 'fsmc[plot]'``): along a text, and over growing sizes.

Each takes the numbers that `trace` or `compile_times` give, and returns a matplotlib figure: ``figure.savefig("x.svg")``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fsmc.cli.trace import ByteStep, TokenStep, byte_steps, token_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fsmc.compiler.grammar import CompiledGrammar

MAX_TOKEN_LABELS = 48

_FREE, _FORCED, _SOFT = "#8c959f", "#0a58ca", "#57606a"


@dataclass(frozen=True, slots=True)
class Trace:
    """What a constraint did along a text: before each of its tokens, and before each of its bytes."""

    vocab_size: int
    tokens: list[TokenStep]
    bytes: list[ByteStep]

    @property
    def density(self) -> list[float]:
        """The share of the vocabulary that was allowed before each token."""
        return [step.allowed / self.vocab_size for step in self.tokens if step.token_id is not None]

    @property
    def forced_share(self) -> float:
        """The share of the text's bytes that nothing else could have stood for."""
        read = [step for step in self.bytes if step.read]
        return sum(_is_forced(step) for step in read) / max(1, len(read))


@dataclass(frozen=True, slots=True)
class CompileTime:
    """states: of the machine. seconds: of CPU time, from the source to the machine, the best of some runs."""

    size: int
    states: int
    seconds: float


def trace(grammar: CompiledGrammar, token_ids: Sequence[int]) -> Trace:
    """Walk a text through a constraint. token_ids: of a generation, say, without the end token; what is not allowed ends it.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"ab", b"1", b"2", b""], eos_token_ids=[4])
    >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ab[12]")
    >>> walked = trace(grammar, [1, 3])
    >>> walked.density, round(walked.forced_share, 2)
    ([0.4, 0.4], 0.67)
    """
    data = b"".join(grammar.vocab.text(i) for i in token_ids)
    return Trace(grammar.vocab.size, token_steps(grammar, token_ids), byte_steps(grammar.machine, data))


def compile_times(
    make: Callable[[int], Any], sizes: Iterable[int], *, repeats: int = 3, max_seconds: float = 60.0
) -> list[CompileTime]:
    """Compile something at several sizes. make: a machine, or what has a ``machine``, of a size.

    The smallest is made once beforehand, so that no kernel is compiled while the clock runs. Ends after ``max_seconds``, with
    the sizes done so far.

    >>> from fsmc.cli.machine import Source
    >>> [t.states for t in compile_times(lambda n: Source(f"a{{{n}}}", "python", 0).machine(), [1, 2, 4], repeats=1)]
    [3, 4, 6]
    """
    deadline = time.monotonic() + max_seconds
    ordered = sorted(set(sizes))
    if ordered:
        make(ordered[0])
    found: list[CompileTime] = []
    for size in ordered:
        best, states = float("inf"), 0
        for _ in range(repeats):
            if time.monotonic() > deadline and (found or best < float("inf")):
                break
            before = time.process_time()
            made = make(size)
            best = min(best, time.process_time() - before)
            states = int(getattr(made, "machine", made).n_states)
        if not states:
            break
        found.append(CompileTime(size, states, best))
    return found


def plot_trace(walked: Trace, title: str = "") -> Figure:
    """Allowed tokens, states and open calls along the text; tokens that begin with forced text are blue, as the legend says."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    steps = [step for step in walked.tokens if step.token_id is not None]
    places = list(range(len(steps)))
    colours = [_FORCED if step.forced else _FREE for step in steps]
    figure = Figure(figsize=(max(6.0, min(16.0, 2 + 0.27 * len(steps))), 5.6), layout="constrained")
    masks, states, calls = figure.subplots(3, 1, sharex=True, height_ratios=[3, 2, 1.3])
    masks.bar(places, [step.allowed for step in steps], color=colours, width=0.82)
    masks.set_yscale("log")
    masks.set_ylim(0.7, walked.vocab_size * 1.6)
    masks.axhline(walked.vocab_size, color=_SOFT, linewidth=0.8, linestyle=":")
    masks.set_ylabel("allowed tokens")
    density = sum(walked.density) / max(1, len(steps))
    says = f"forced: {walked.forced_share:.0%} of the bytes; mean mask density {density:.2%}"
    masks.annotate(says, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=9)
    _write_title(masks, title, figure.get_figwidth(), pad=20)
    states.scatter(places, [step.state for step in steps], color=colours, s=18)
    states.set_ylabel("state")
    calls.step(places, [step.depth for step in steps], where="mid", color=_SOFT)
    calls.set_ylabel("open calls")
    calls.set_ylim(bottom=-0.2)
    for axis in (states, calls):
        axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    if len(steps) <= MAX_TOKEN_LABELS:
        calls.set_xticks(places, [_label(step.token) for step in steps], rotation=90, family="monospace", fontsize=8)
    else:
        calls.set_xlabel("token")
    for axis in (masks, states, calls):
        axis.spines[["top", "right"]].set_visible(False)
    meanings = [Patch(color=_FORCED, label="begins with forced text"), Patch(color=_FREE, label="begins with a choice")]
    figure.legend(handles=meanings, loc="outside lower left", ncols=2, frameon=False, fontsize=9)
    return figure


def plot_compile_times(times: Sequence[CompileTime], title: str = "") -> Figure:
    """Seconds against the states of the machine, both logarithmic; each point says its size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.subplots()
    states, seconds = [t.states for t in times], [max(t.seconds, 1e-6) * 1e3 for t in times]
    axis.plot(states, seconds, color=_FORCED, marker="o", markersize=5)
    for t, x, y in zip(times, states, seconds, strict=True):
        axis.annotate(str(t.size), (x, y), textcoords="offset points", xytext=(5, -11), fontsize=8, color=_SOFT)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("states of the machine")
    axis.set_ylabel("CPU time to compile, ms")
    _write_title(axis, title, figure.get_figwidth())
    axis.grid(True, which="major", linewidth=0.4, color="#d0d7de")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _write_title(axis: Axes, title: str, inches: float, pad: float = 6.0) -> None:
    """In letters small enough for the width of the figure; what would be smaller than can be read is cut."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    def width(text: str, size: float) -> float:
        return float(
            text_to_path.get_text_width_height_descent(text.replace("$", "S"), FontProperties(size=size), False)[0]
        )

    room = 72 * (inches - 1.1)  # points; the axis has its labels on the left
    while title and width(title, 7) > room:
        title = title.removesuffix("…")[:-1] + "…" if len(title) > 1 else ""
    size = min(10.0, 10 * room / max(1.0, width(title, 10)))
    axis.set_title(title, loc="left", fontsize=size, pad=pad, parse_math=False)


def _is_forced(step: ByteStep) -> bool:
    return step.allowed == 1 and not step.may_end


def _label(token: bytes) -> str:
    """A token on an axis: short, and no formula."""
    text = token.decode("utf-8", "backslashreplace")
    shown = "".join("␣" if c == " " else c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return (shown if len(shown) <= 14 else shown[:13] + "…").replace("$", r"\$")
