"""The Triton mask kernel: every result against the CPU kernel, then time against the bytes that it must move.

Run it by benchmarks/gpu/run.sh. What the kernel must move are the words of the mask, read once, and each sector of 32 bytes of
logits in which a token is forbidden, written once; nothing is read from the logits. "of copy" is the time that these bytes would
take at the bandwidth that a large device-to-device copy reaches here, divided by the time measured (aim: 90%); with few
bytes the start of a kernel, shown above the table, is all that is seen. "masked_fill" is torch's, in place, with a boolean mask
that is there already. The device's cache is overwritten before every run; times are medians of events on the device.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from fsmc.runtime.bitmask import apply_token_bitmask_inplace
from fsmc.runtime.bitmask_triton import apply_token_bitmask_triton

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
INTEGERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
DENSITIES = (0.0001, 0.01, 0.5, 0.99, 0.999)
"""How many of the tokens are allowed."""

SECTOR_BYTES = 32
SECONDS_FOR_CHECKS, SECONDS_IN_ALL = 110.0, 210.0
"""What is not done by then is left out, and said."""

AIM = 0.9
LARGE_BYTES = 16 << 20
"""The aim is for cases that move so much; smaller ones are shown."""


class Case(NamedTuple):
    dtype: str
    batch: int
    vocab: int
    density: float
    chosen_rows: bool


class Sizes(NamedTuple):
    checked: tuple[tuple[int, ...], tuple[int, ...]]  # batches, vocabularies
    timed: tuple[tuple[int, ...], tuple[int, ...]]
    copied_bytes: int
    flushed_bytes: int
    runs: int


FULL = Sizes(
    ((1, 16, 256), (32_000, 50_257, 128_256, 262_144)),
    ((1, 8, 64, 256), (32_000, 128_256, 262_144)),
    1 << 30,
    256 << 20,
    25,
)
SMALL = Sizes(((1, 3), (100, 4500)), ((2,), (4500,)), 1 << 16, 1 << 16, 2)


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    arguments = parser.parse_args()
    sizes = SMALL if arguments.small else FULL
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not interpreted and not torch.cuda.is_available():
        sys.exit("no CUDA device: try the script with TRITON_INTERPRET=1 and --small")
    device = torch.device("cpu" if interpreted else "cuda")
    name = "Triton's interpreter" if interpreted else torch.cuda.get_device_name()
    versions = {"torch": torch.__version__, "triton": triton.__version__, "numpy": np.__version__}
    print(f"{name}; {', '.join(f'{k} {v}' for k, v in versions.items())}")

    checked, wrong, left_out = check_all(sizes, device, began)
    print(
        f"\n{checked} cases against the CPU kernel: {len(wrong)} wrong"
        + (f", {left_out} left out for time" if left_out else "")
    )
    for case in wrong:
        print(f"  WRONG {case}")
    timer = Timer(device, sizes)
    bandwidth = copy_bandwidth(device, sizes, timer)
    one, allowed = torch.zeros(1, 1, device=device), torch.full((1, 1), -1, dtype=torch.int32, device=device)
    start = timer(lambda: apply_token_bitmask_triton(one, allowed))
    print(f"copy bandwidth {bandwidth / 1e9:,.0f} GB/s (read and written); start of a kernel {start * 1e6:.1f} µs\n")
    rows = time_all(sizes, device, timer, bandwidth, began)
    summary = summarize(rows)
    print(f"\n{json.dumps(summary)}")
    print(f"{time.monotonic() - began:.0f} s")
    report = {
        "date": datetime.date.today().isoformat(),
        "device": name,
        "versions": versions,
        "checked": checked,
        "wrong": [case._asdict() for case in wrong],
        "left_out": left_out,
        "copy_bytes_per_second": bandwidth,
        "start_seconds": start,
        "summary": summary,
        "timed": rows,
    }
    (Path(os.environ["OUT"]) / f"gpu-{report['date']}.json").write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if wrong else 0)


def cases(batches: tuple[int, ...], vocabs: tuple[int, ...]) -> Iterator[Case]:
    """All of them; the largest come last."""
    for batch, vocab in sorted(itertools.product(batches, vocabs), key=lambda size: size[0] * size[1]):
        for dtype, density, chosen in itertools.product(DTYPES, DENSITIES, (False, True)):
            yield Case(dtype, batch, vocab, density, chosen)


def make(case: Case, device: torch.device) -> tuple[Any, Any, Any, Any]:
    """Random logits, a mask of this density, the same as booleans (True: forbidden), and rows: every other, backwards."""
    generator = torch.Generator(device=device).manual_seed(case.batch * case.vocab)
    logits = torch.randn(case.batch, case.vocab, generator=generator, device=device).to(DTYPES[case.dtype])
    allowed = torch.rand(case.batch, case.vocab, generator=generator, device=device) < case.density
    mask = pack(allowed)
    rows = torch.arange(case.batch - 1, -1, -2, device=device) if case.chosen_rows else None
    return logits, mask, ~allowed, rows


def pack(allowed: Any) -> Any:
    """Booleans [batch, vocab] as int32[batch, ceil(vocab / 32)], on the device that has them."""
    batch, vocab = allowed.shape
    padded = torch.nn.functional.pad(allowed, (0, -vocab % 32)).view(batch, -1, 32)
    words = torch.zeros(padded.shape[:2], dtype=torch.int32, device=allowed.device)
    for bit in range(32):  # a column at a time: a product with powers of two would take 8 bytes for each token
        words |= padded[:, :, bit].to(torch.int32) << bit
    return words


def check_all(sizes: Sizes, device: torch.device, began: float) -> tuple[int, list[Case], int]:
    """How many cases were compared, which are wrong, how many were left out."""
    checked, wrong, left_out = 0, [], 0
    for case in cases(*sizes.checked):
        if time.monotonic() - began > SECONDS_FOR_CHECKS:
            left_out += 1
            continue
        logits, mask, _, rows = make(case, device)
        expected = logits.to("cpu", copy=True)
        apply_token_bitmask_inplace(expected, mask.cpu(), None if rows is None else rows.cpu())
        if logits.is_cuda and rows is not None:
            apply_token_bitmask_inplace(logits, mask.cpu(), rows.tolist())  # as an engine calls it
        else:
            apply_token_bitmask_triton(logits, mask, rows)
        integer = INTEGERS[logits.dtype]  # bit for bit
        if not torch.equal(logits.view(integer), expected.to(device).view(integer)):
            wrong.append(case)
        checked += 1
    return checked, wrong, left_out


class Timer:
    """Seconds that the device takes for a function: the median of some runs, with a cold cache."""

    def __init__(self, device: torch.device, sizes: Sizes) -> None:
        self.device, self.runs = device, sizes.runs
        self.flushed = torch.empty(sizes.flushed_bytes, dtype=torch.int8, device=device)

    def __call__(self, function: Callable[[], Any]) -> float:
        function()
        if self.device.type != "cuda":
            return statistics.median(self.once_on_cpu(function) for _ in range(self.runs))
        events = []
        for _ in range(self.runs):
            # It also keeps the device busy until the launch is in its queue: what Python takes is not measured.
            self.flushed.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            function()
            end.record()
            events.append((start, end))
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in events) / 1e3

    def once_on_cpu(self, function: Callable[[], Any]) -> float:
        before = time.perf_counter()
        function()
        return time.perf_counter() - before


def copy_bandwidth(device: torch.device, sizes: Sizes, timer: Timer) -> float:
    """Bytes read and written in a second by a large copy."""
    source = torch.zeros(sizes.copied_bytes, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2 * sizes.copied_bytes / timer(lambda: target.copy_(source))


def bytes_to_move(mask: Any, forbidden: Any, rows: Any, logits: Any) -> int:
    """The mask's words and the sectors of logits with something forbidden."""
    if rows is not None:
        mask, forbidden = mask[rows], forbidden[rows]
    per_sector = SECTOR_BYTES // logits.element_size()
    padded = torch.nn.functional.pad(forbidden, (0, -forbidden.shape[1] % per_sector))
    sectors = int(padded.view(forbidden.shape[0], -1, per_sector).any(-1).sum())
    return 4 * mask.numel() + SECTOR_BYTES * sectors


def time_all(sizes: Sizes, device: torch.device, timer: Timer, bandwidth: float, began: float) -> list[dict[str, Any]]:
    """Print the table; its rows."""
    heads = ("dtype", "batch", "vocab", "allowed", "rows", "µs", "MB", "of copy", "masked_fill µs", "ratio")
    line = "{:>9} {:>6} {:>8} {:>8} {:>6} {:>9} {:>9} {:>8} {:>15} {:>6}"
    print(line.format(*heads))
    found = []
    for case in cases(*sizes.timed):
        if time.monotonic() - began > SECONDS_IN_ALL:
            print("out of time: the rest is left out")
            break
        logits, mask, forbidden, rows = make(case, device)
        moved = bytes_to_move(mask, forbidden, rows, logits)
        seconds = timer(lambda x=logits, m=mask, r=rows: apply_token_bitmask_triton(x, m, r))  # type: ignore[misc]  # defaults bind the loop's values
        fill = None
        if rows is None:
            fill = timer(lambda x=logits, f=forbidden: x.masked_fill_(f, float("-inf")))  # type: ignore[misc]  # the same
        row = {
            **case._asdict(),
            "seconds": seconds,
            "bytes": moved,
            "of_copy": moved / bandwidth / seconds,
            "masked_fill_seconds": fill,
        }
        found.append(row)
        print(
            line.format(
                case.dtype,
                case.batch,
                case.vocab,
                f"{case.density:.2%}",
                "all" if rows is None else len(rows),
                f"{seconds * 1e6:.1f}",
                f"{moved / 1e6:.2f}",
                f"{row['of_copy']:.0%}",
                "–" if fill is None else f"{fill * 1e6:.1f}",
                "–" if fill is None else f"{seconds / fill:.2f}",
            )
        )
    return found


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How the large cases stand to the aim, and all to masked_fill."""
    large = [row["of_copy"] for row in rows if row["bytes"] >= LARGE_BYTES]
    ratios = [row["seconds"] / row["masked_fill_seconds"] for row in rows if row["masked_fill_seconds"]]
    return {
        "large cases": len(large),
        f"of them at {AIM:.0%} of copy or more": sum(share >= AIM for share in large),
        "their median of copy": round(statistics.median(large), 3) if large else None,
        "ratio to masked_fill, median": round(statistics.median(ratios), 3) if ratios else None,
        "and worst": round(max(ratios), 3) if ratios else None,
    }


if __name__ == "__main__":
    main()
