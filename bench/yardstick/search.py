"""The best of many builds of one case beside the model's choice: --search.

A grid of tunes and schedules, each built (many at once), run and timed for a few milliseconds; the
best few again, longer and in turns with the model's choice, so that what is reported is no lucky
sample. What does not compile or fit is counted, not hidden.

SPDX-License-Identifier: Apache-2.0
"""

import concurrent.futures
import itertools
import os

from variants import Variant

AGAIN = 3  # of the best


def grid(words):
    """`BM=64,128 schedule=solve,solve:once` as dicts, one for each combination."""
    axes = []
    for word in words.split():
        name, _, values = word.partition("=")
        axes.append([(name, v) for v in values.split(",")])
    return [dict(point) for point in itertools.product(*axes)]


def split(point):
    """(texts of the compiler, tunes)"""
    texts = {k: v for k, v in point.items() if k in ("schedule", "tune")}
    return texts, {k: int(v) for k, v in point.items() if k not in texts}


def _quick(torch, call, ms=3.0):
    stream = torch.cuda.current_stream()

    def elapsed(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(stream)
        for _ in range(times):
            call()
        end.record(stream)
        end.synchronize()
        return begin.elapsed_time(end) / times
    once = elapsed(2)
    return min(elapsed(max(3, min(200, round(ms / max(once, 1e-3))))) for _ in range(2))


def search(bench, case, sets, points, rows_of):
    """[(ms, settings)] best first, how many failed, and rows of the best in turns with ours."""
    built, failed = [], 0

    def build(point):
        texts, tunes = split(point)
        label = ",".join(f"{k}={v}" for k, v in point.items())
        variant = Variant(bench, label, label, texts, tunes)
        calls, _ = bench.ours(variant, case, {}, sets[:1])
        return label, variant, calls[0]

    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:
        for task in [pool.submit(build, p) for p in points]:
            try:
                built.append(task.result())
            except bench.tilec.TilecError:
                failed += 1
    timed = sorted(((_quick(bench.torch, call), label, variant) for label, variant, call in built),
                   key=lambda t: t[0])
    rows = rows_of([variant for _, _, variant in timed[:AGAIN]])
    return [(ms, label) for ms, label, _ in timed], failed, rows
