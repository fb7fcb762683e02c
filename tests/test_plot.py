"""Figures: what is plotted are the machine's own numbers."""

from __future__ import annotations

import pytest

import fsmc
from fsmc.cli.machine import Source

pytest.importorskip("matplotlib", reason="no matplotlib: pip install 'fsmc[plot]'")

from fsmc.plot import compile_times, plot_compile_times, plot_trace, trace


@pytest.fixture
def walked():
    vocab = fsmc.Vocabulary.from_tokens([b"id", b"i", b"d", b"-", b"1", b"$2", b"2", b"$", b""], eos_token_ids=[8])
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex(r"id-[12]\$?2")
    return trace(grammar, [0, 3, 4, 5])


def test_the_bars_are_the_allowed_tokens(walked) -> None:
    figure = plot_trace(walked, "a $title")
    masks, states, calls = figure.axes
    assert [bar.get_height() for bar in masks.patches] == [2, 1, 2, 3]
    assert walked.density == [2 / 9, 1 / 9, 2 / 9, 3 / 9]
    assert walked.forced_share == pytest.approx(4 / 6)
    assert len(states.collections[0].get_offsets()) == 4
    assert [label.get_text() for label in calls.get_xticklabels()] == ["id", "-", "1", r"\$2"]


def test_the_legend_says_what_the_colours_mean(walked) -> None:
    figure = plot_trace(walked)
    (legend,) = figure.legends
    meanings = {
        text.get_text(): patch.get_facecolor()
        for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)
    }
    forced, free = meanings["begins with forced text"], meanings["begins with a choice"]
    assert [step.forced != b"" for step in walked.tokens[:4]] == [True, True, False, False]
    assert [bar.get_facecolor() for bar in figure.axes[0].patches] == [forced, forced, free, free]


@pytest.mark.parametrize("title", ["", "W" * 60, "{$x$}" * 12, "MAXIMUM " * 7, "id-[12]"])
def test_what_is_written_is_on_nothing_else(walked, title) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    times = compile_times(lambda n: Source("a" * n, "python", 0).machine(), [10], repeats=1)
    for figure in (plot_trace(walked, title), plot_compile_times(times, title)):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        axis, renderer = figure.axes[0], canvas.get_renderer()
        texts = [
            text for text in (axis._left_title, axis._right_title, *axis.texts) if text.get_text() not in ("", "10")
        ]
        boxes = [text.get_window_extent(renderer) for text in texts]
        assert len(boxes) == bool(title) + (len(figure.axes) == 3)
        boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
        boxes += [axis.get_tightbbox(renderer) for axis in figure.axes[1:]]
        for i, box in enumerate(boxes):
            assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_compile_times_grow_with_the_machine() -> None:
    times = compile_times(lambda n: Source(f"[ab]*a[ab]{{{n}}}", "python", 0).machine(), [4, 2, 6], repeats=1)
    assert [t.size for t in times] == [2, 4, 6]
    assert [t.states for t in times] == [9, 33, 129]
    line = plot_compile_times(times).axes[0].lines[0]
    assert line.get_xdata().tolist() == [9, 33, 129]
    assert compile_times(lambda n: Source("a", "python", 0).machine(), []) == []


def test_time_is_bounded() -> None:
    times = compile_times(lambda n: Source("a", "python", 0).machine(), range(100), repeats=1, max_seconds=0)
    assert len(times) == 1


def test_command(fsmc_command, tmp_path, tokenizer_file) -> None:
    figure = tmp_path / "figure.svg"
    assert fsmc_command("plot", "202[0-9]-yes", "2024-yes", "-t", tokenizer_file, "-o", figure).code == 0
    assert "<svg" in figure.read_text(encoding="utf-8")
    assert fsmc_command("plot", "a{N}", "--sizes", "1,3", "-o", tmp_path / "growth.png").code == 0
    refused = fsmc_command("plot", "202[0-9]-yes", "2024-no", "-t", tokenizer_file, "-o", figure)
    assert refused.code == 1 and "no match, at byte 5" in refused.err
    as_json = fsmc_command("plot", "2{4}", "22", "-t", tokenizer_file, "-o", figure, "--json")
    assert as_json.document == {"file": str(figure), "file_bytes": figure.stat().st_size, "fails_at_byte": None}
    assert fsmc_command("plot", "2*", "", "-t", tokenizer_file, "-o", figure).code == 2
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    assert fsmc_command("plot", "a", "--sizes", "1", "-o", figure).code == 2
    assert fsmc_command("plot", "a{N}", "--sizes", "x", "-o", figure).code == 2
    assert fsmc_command("plot", "a", "a", "-o", figure).code == 2
    assert fsmc_command("plot", "a", "a", "-o", tmp_path / "figure.txt").code == 2
