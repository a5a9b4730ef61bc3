"""Time of several contestants on one GPU, in turns.

Under load the chip is power-limited and its clock follows what ran in the last second, so only
turns in one process compare anything. Two regimes:

  sustained  everyone at load: warm-up, then rounds of at least `seconds` each
  rested     idle first, then a few launches: the clock has not fallen yet

SPDX-License-Identifier: Apache-2.0
"""

import statistics
import time

import torch


class Contestant:
    """`calls[i]()` enqueues one launch on the current stream, on buffer set i."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls
        self.estimate_ms = 0.0
        self.long, self.short = None, None  # graphs
        self.long_count = self.short_count = 0

    def prepare(self, graph_ms=30.0, rested_ms=2.0):
        """Everything slow that is not the kernel: compiling, loading, capture."""
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(2):
                for call in self.calls:
                    call()
            stream.synchronize()
            self.estimate_ms = _elapsed(stream, lambda: [c() for c in self.calls]) / len(self.calls)
        per = max(self.estimate_ms, 1e-3)
        self.long_count = max(len(self.calls), min(400, round(graph_ms / per)))
        self.short_count = max(8, min(100, round(rested_ms / per)))
        self.long = self._capture(self.long_count)
        self.short = self._capture(self.short_count)

    def _capture(self, count):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(count):
                self.calls[i % len(self.calls)]()
        graph.replay()
        torch.cuda.synchronize()
        return graph

    def run(self, seconds):
        """Milliseconds per launch over at least `seconds` at load."""
        expected = self.long_count * max(self.estimate_ms, 1e-3) / 1000
        replays = max(1, round(seconds / expected))
        ms = _elapsed(torch.cuda.current_stream(),
                      lambda: [self.long.replay() for _ in range(replays)])
        self.estimate_ms = ms / (replays * self.long_count)
        return self.estimate_ms

    def run_rested(self):
        return _elapsed(torch.cuda.current_stream(), self.short.replay) / self.short_count


def _elapsed(stream, work):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record(stream)
    work()
    end.record(stream)
    end.synchronize()
    return begin.elapsed_time(end)


def _turns(contestants, rounds):
    for r in range(rounds):
        for c in contestants if r % 2 == 0 else list(reversed(contestants)):
            yield c


def sustained(contestants, sampler, case, rounds=5, seconds=0.3, warmup=0.5):
    """name → list of milliseconds."""
    out = {c.name: [] for c in contestants}
    for c in contestants:
        c.run(warmup)
    for c in _turns(contestants, rounds):
        c.run(min(0.1, seconds))  # its own clock, not its neighbour's
        sampler.label = (case, "sustained", c.name)
        out[c.name].append(c.run(seconds))
        sampler.label = None
    return out


def rested(contestants, case, rounds=3, idle=0.7):
    out = {c.name: [] for c in contestants}
    for c in _turns(contestants, rounds):
        torch.cuda.synchronize()
        time.sleep(idle)
        out[c.name].append(c.run_rested())
    return out


def summary(samples):
    return {"ms": statistics.median(samples), "min_ms": min(samples), "max_ms": max(samples),
            "rounds_ms": [round(s, 6) for s in samples]}
