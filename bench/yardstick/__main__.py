"""Every case, ours beside its peers in one process: python3 bench/yardstick [CASE…]

Builds the library (unless --lib names one), checks the numbers of everybody, times in turns, prints
one table and writes one line per contestant and regime to bench/results/. docs/yardstick.md says how
to read it.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import datetime
import json
import math
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cases as table  # noqa: E402
from variants import Variant, variant  # noqa: E402


def parse():
    p = argparse.ArgumentParser(prog="yardstick", description=__doc__.split("\n")[0])
    p.add_argument("case", nargs="*",
                   help="ID, or ID:NAME=VALUE,… to set tunes; a trailing * matches a prefix; "
                        "all of --priority if left out")
    p.add_argument("--lib", help="libtilec.so; built if left out")
    p.add_argument("--schedule", default="solve")
    p.add_argument("--tune", default="model", help="of tunes that a case leaves open: model, default")
    p.add_argument("--priority", type=int, default=1, help="cases up to P0, P1 or P2")
    p.add_argument("--group", help="all cases of one group, of any priority: product, other, …; or "
                   "random-product, random-attention, random-row: --count cases drawn by --seed")
    p.add_argument("--count", type=int, default=40, help="cases of a random group")
    p.add_argument("--search", metavar="GRID",
                   help="the best of a grid beside the model's choice: "
                        "'BM=64,128 BN=128,256 schedule=solve,solve:once'")
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--seconds", type=float, default=0.5, help="of one contestant in one round")
    p.add_argument("--regimes", default="sustained,rested")
    p.add_argument("--peers", help="only these peers: cublas,cublaslt,cudnn,triton,…")
    p.add_argument("--no-triton", action="store_true")
    p.add_argument("--variant", action="append", default=[], metavar="LABEL:KEY=VALUE,…",
                   type=variant,
                   help="one more contestant of ours: lib, schedule, tune, or a tune of the kernel")
    p.add_argument("--warmup", type=float, default=3.0, help="seconds at load before the first case")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", help="folder of the results, bench/results")
    p.add_argument("--list", action="store_true", help="name the cases and stop")
    return p.parse_args()


def chosen(options):
    """[(case, tunes)]"""
    if (options.group or "").startswith("random-"):
        kind = options.group.removeprefix("random-")
        if kind not in table.RANDOM:
            sys.exit(f"yardstick: no group `{options.group}`: random-"
                     + ", random-".join(table.RANDOM))
        return [(c, {}) for c in table.drawn(kind, options.seed, options.count)]
    groups = {c.group for c in table.CASES}
    if options.group is not None and options.group not in groups:
        sys.exit(f"yardstick: no group `{options.group}`: {', '.join(sorted(groups))}")
    if not options.case and options.group is not None:
        return [(c, {}) for c in table.CASES if c.group == options.group]
    if not options.case:
        return [(c, {}) for c in table.CASES if c.priority <= options.priority]
    out = []
    for word in options.case:
        name, _, settings = word.partition(":")
        tunes = {k: int(v) for k, v in (s.split("=") for s in settings.split(",") if s)}
        found = [c for c in table.CASES
                 if c.id == name or (name.endswith("*") and c.id.startswith(name[:-1]))]
        if not found:
            sys.exit(f"yardstick: no case `{name}`; --list names them")
        out += [(c, tunes) for c in found]
    return out


def list_cases(options):
    random = (options.group or "").startswith("random-")
    for c in [c for c, _ in chosen(options)] if random else table.CASES:
        print(f"P{c.priority} {c.group:10} {c.id:45} " + (c.kernel or f"- {c.why}"))


def library_path(options):
    if options.lib:
        return os.path.abspath(options.lib)
    build = os.path.join(ROOT, "build/release")
    if not os.path.exists(os.path.join(build, "CMakeCache.txt")):
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", build, "--target", "tilec_shared"], check=True,
                   stdout=subprocess.DEVNULL)
    return os.path.join(build, "api/libtilec.so")


class Bench:
    def __init__(self, options):
        import torch
        import measure
        import nvml
        import tilec
        self.o, self.torch, self.measure, self.tilec = options, torch, measure, tilec
        self.library = tilec.Library(library_path(options))
        self.device = self.library.device("cuda:0")
        self.variants = [Variant(self), *(Variant(self, *v) for v in options.variant)]
        self.sampler = nvml.Sampler()
        self.generator = torch.Generator(device="cuda").manual_seed(options.seed)
        self.facts = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "gpu": torch.cuda.get_device_name(), "driver": self.sampler.driver(),
            "power_limit_watts": self.sampler.power_limit_watts(),
            "cuda": torch.version.cuda, "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(), "tilec": self.library.version(),
            "commit": commit(), "schedule": options.schedule, "tune": options.tune}
        try:
            import triton
            self.facts["triton"] = triton.__version__
        except ImportError:
            self.facts["triton"] = None
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        folder = options.out or os.path.join(ROOT, "bench/results")
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, f"{stamp}.jsonl")
        self.file = open(self.path, "w")
        self.write({"kind": "run", **self.facts})

    def write(self, row):
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def ours(self, variant, case, tunes, sets):
        """One call per buffer set, and the milliseconds from source to loaded kernel."""
        import buffers
        steps = []
        for kernel, taken, values in case.launches():
            file, _, name = kernel.rpartition(":")
            path = file if file.startswith("std/") else os.path.join(ROOT, file)
            steps.append((variant.compiler.compile(path, name), taken, values))
        calls = []
        for tensors in sets:
            launches = [(compiled, self.tilec.Arguments(
                variant.library, {n: (d, tensors[n].data_ptr(), dims) for n, d, dims, _ in taken},
                {**values, **tunes, **variant.tunes})) for compiled, taken, values in steps]
            outputs = buffers.results(case, tensors)

            def call(launches=launches, outputs=outputs):
                stream = variant.device.stream(self.torch.cuda.current_stream().cuda_stream)
                for compiled, arguments in launches:
                    compiled.launch(variant.device, arguments, stream)
                return outputs
            calls.append(call)
        start = time.perf_counter()
        calls[0]()
        return calls, 1e3 * (time.perf_counter() - start)

    def contestants(self, case, tunes, sets, notes):
        import peers
        out = []
        for variant in self.variants:
            try:
                calls, cold = self.ours(variant, case, tunes, sets)
                notes.setdefault("cold_ms", round(cold, 1))
                out.append(self.measure.Contestant(variant.label, calls))
            except self.tilec.TilecError as e:
                notes[variant.label] = str(e).strip()
        makers = dict(peers.PEERS[case.peer])
        if self.facts["triton"] and not self.o.no_triton:
            import triton_peers
            if case.peer in triton_peers.PEERS:
                makers["triton"] = triton_peers.PEERS[case.peer]
        for name, make in makers.items():
            if self.o.peers is not None and name not in self.o.peers.split(","):
                continue
            try:
                calls = [make(s, case) for s in sets]
                if calls[0] is None:
                    continue
                calls[0]()
                out.append(self.measure.Contestant(name, calls))
            except Exception as e:  # a peer that is not there is a note, not an end
                notes[name] = f"{type(e).__name__}: {e}".split("\n")[0]
        return out

    def errors(self, case, tensors, start, contestants):
        import buffers
        import peers
        import report
        buffers.reset(case, tensors, start)
        answer = peers.Answer(tensors, case)
        out = {}
        for c in contestants:
            if c.name in ("copy", *case.options.get("unlike", ())):
                continue
            buffers.reset(case, tensors, start)
            result = c.calls[0]()
            self.torch.cuda.synchronize()
            out[c.name] = answer.error(result)
            if len(answer.by_result) > 1 and out[c.name] > report.TOLERANCE:
                print(f"{case.id}: {c.name}: result by result off by "
                      + ", ".join(f"{e:.1e}" for e in answer.by_result), flush=True)
        return out

    def run(self, case, tunes):
        import buffers
        import peers
        torch, measure = self.torch, self.measure
        label = case.id + "".join(f" {k}={v}" for k, v in tunes.items())
        notes = {}
        wanted = max(3, math.ceil(120e6 / max(1, case.bytes())))
        sets = [buffers.make_tensors(case, self.generator)
                for _ in range(max(1, min(wanted, 64, int(40e9 // max(1, case.size())))))]
        for tensors in sets:
            peers.prepare(tensors, case)
        start = buffers.start_of(case, sets[0])
        contestants = self.contestants(case, tunes, sets, notes)
        errors = self.errors(case, sets[0], start, contestants)
        for c in list(contestants):
            try:
                c.prepare()
            except Exception as e:
                notes[c.name] = f"{type(e).__name__}: {e}".split("\n")[0]
                contestants.remove(c)
        times = {}
        if "sustained" in self.o.regimes:
            self.sampler.start()
            times["sustained"] = measure.sustained(contestants, self.sampler, label, self.o.rounds,
                                                   self.o.seconds)
            self.sampler.stop()
        if "rested" in self.o.regimes:
            times["rested"] = measure.rested(contestants, label, max(3, self.o.rounds // 2))
        if self.o.search:
            self.searched(case, sets, label)
        del sets
        rows = []
        variants = {v.label: v.settings for v in self.variants[1:]}
        for regime, samples in times.items():
            for name, values in samples.items():
                row = {"kind": "time", "case": case.id, "group": case.group, "tunes": tunes,
                       "regime": regime, "who": name, **measure.summary(values),
                       "error": errors.get(name),
                       "floor_ms": case.floor_ms(), "flops": case.flops, "bytes": case.bytes(),
                       "compute_bound": case.compute_bound(),
                       **{k: case.options[k] for k in ("tolerance",) if k in case.options},
                       **self.sampler.summary((label, regime, name))}
                if name in variants:
                    row["variant"] = variants[name]
                if name == "tilec":
                    row["cold_ms"] = notes.get("cold_ms")
                rows.append(row)
                self.write(row)
        for name, text in notes.items():
            if name != "cold_ms":
                self.write({"kind": "note", "case": case.id, "tunes": tunes, "who": name,
                            "text": text})
        torch.cuda.empty_cache()
        return rows, notes

    def searched(self, case, sets, label):
        """Ours in turns with the best of the grid."""
        import search

        def in_turns(variants):
            all = [self.measure.Contestant(v.label, self.ours(v, case, {}, sets)[0])
                   for v in [self.variants[0], *variants]]
            for c in all:
                c.prepare()
            self.sampler.start()
            times = self.measure.sustained(all, self.sampler, label, self.o.rounds, self.o.seconds)
            self.sampler.stop()
            return {name: self.measure.summary(ms)["ms"] for name, ms in times.items()}
        points = search.grid(self.o.search)
        timed, failed, again = search.search(self, case, sets, points, in_turns)
        ours = again.pop("tilec")
        best = min(again, key=again.get) if again else "none"
        ratio = again[best] / ours if again else 1.0
        print(f"{label}: model {1e3 * ours:.1f} us, best of {len(timed)} builds ({failed} refused) "
              f"{1e3 * again.get(best, ours):.1f} us, {best}: the model loses "
              f"{100 * max(0.0, 1 / ratio - 1):.1f} %", flush=True)
        self.write({"kind": "search", "case": case.id, "ours_ms": ours, "again": again,
                    "quick": [[round(ms, 6), which] for ms, which in timed], "failed": failed})

    def warm_up(self):
        torch = self.torch
        a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        end = time.monotonic() + self.o.warmup
        while time.monotonic() < end:
            for _ in range(20):
                a @ a
            torch.cuda.synchronize()


def commit():
    ran = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                         text=True)
    return ran.stdout.strip() or None


def main():
    options = parse()
    if options.list:
        list_cases(options)
        return 0
    work = chosen(options)
    import report
    bench = Bench(options)
    print(f"{bench.facts['gpu']}, driver {bench.facts['driver']}, torch {bench.facts['torch']}, "
          f"cuDNN {bench.facts['cudnn']}, Triton {bench.facts['triton']}, "
          f"tilec {bench.facts['tilec']} {bench.facts['commit'] or ''}", flush=True)
    bench.warm_up()
    wrong = []
    for case, tunes in work:
        label = case.id + "".join(f" {k}={v}" for k, v in tunes.items())
        if not case.kernel:
            print(f"{label}: {case.why}", flush=True)
            bench.write({"kind": "note", "case": case.id, "who": "tilec", "text": case.why})
            continue
        rows, notes = bench.run(case, tunes)
        print(report.case_text(label, rows, notes), flush=True)
        wrong += [(label, r["who"], r["error"]) for r in rows if report.is_wrong(r)]
    bench.file.close()
    random = (options.group or "").startswith("random-")
    print(f"\n{report.table_text([bench.path])}\nwritten to {bench.path}")
    if random:
        print(report.random_text([bench.path]))
    for label, who, error in sorted(set(wrong)):
        print(f"WRONG: {label}: {who} is off by {error:.3g}")
    return 1 if any(who == "tilec" for _, who, _ in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
