"""Cycles an iteration on the card beside the II that the certificate names.

A kernel's time says nothing about its loop while prologues, ends of tiles, waves and the clock are
in it. So each case runs at three lengths with the same tiles on every multiprocessor, and a line
through them separates what a tile costs from what an iteration costs. The clock is read by a probe
that runs in the same stream between launches: cycles against nanoseconds.

  python3 bench/cycles --prepare TILEC   solves each case and writes iis.json (no GPU)
  python3 bench/cycles --lib LIBTILEC    measures, prints one line a case

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import ctypes
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SMS = 132

# (name, kernel it is made of, what is replaced): wrong on purpose, but for the time.
VARIANTS = [
    ("dq_base", "attention_dq", []),
    ("dq_noexp", "attention_dq", [("exp2(s * c - lse[:, None])", "s * c - lse[:, None]")]),
    ("dq_nodelta", "attention_dq", [("(p * (dp - d[:, None]))", "(p * dp)")]),
    ("dq_noarith", "attention_dq",
     [("exp2(s * c - lse[:, None])", "s"), ("(p * (dp - d[:, None]))", "(p * dp)")]),
    ("kv_base", "attention_dkdv", []),
    ("kv_threads", "attention_dkdv",
     [("LSE[b, h..h + 1, q] * LOG2E", "(LSE[b, h, q] * LOG2E)[None, :]"),
      ("delta[b, h..h + 1, q]", "delta[b, h, q][None, :]")]),
    ("kv_norows", "attention_dkdv",
     [("LSE[b, h..h + 1, q] * LOG2E", "1.0"), ("delta[b, h..h + 1, q]", "0.5")]),
    ("kv_noexp", "attention_dkdv",
     [("exp2(s * c - LSE[b, h..h + 1, q] * LOG2E)", "s * c"),
      ("delta[b, h..h + 1, q]", "0.5")]),
]

# kernel, tunes by head dim, options. Length of an iteration, of a tile: names of tunes.
def cases():
    for causal in (False, True):
        for d in (64, 128):
            for name in ["attention"] + [f"attention_{d}.{k}" for k in (3, 4)]:
                if name != "attention_64.4":
                    yield (name, d, causal, "BQ", "BKV",
                           {64: {"BQ": 192, "BKV": 128}, 128: {"BQ": 128, "BKV": 128}}[d])
    for name, _, _ in VARIANTS:
        for d in (64, 128):
            if name.startswith("dq"):
                yield (name, d, False, "BQ", "BK", {"BQ": 128, "BK": 64})
            else:
                yield (name, d, False, "BK", "BQ", {"BK": 128, "BQ": 64 if d == 64 else 32})
    for d in (64, 128):
        yield ("attention_dqkv", d, False, "BK", "BQ", {"BK": 128, "BQ": 112 if d == 64 else 64})
        for bq in (32, 64):
            if bq != 64 or d == 64:
                yield ("attention_dqkv", d, False, "BK", "BQ", {"BK": 128, "BQ": bq})


# Forward, as it is solved or with a schedule of this folder.
def is_forward(name):
    return name.split(".")[0] in ("attention", "attention_64", "attention_128")


def schedule_of(name):
    return os.path.join(HERE, name + ".sched") if "." in name else "solve"


def file_of(name):
    if is_forward(name):
        return os.path.join(ROOT, "stdlib/attention.tile")
    if name == "attention_dqkv":
        return os.path.join(ROOT, "stdlib/models/attention_backward.tile")
    return os.path.join(tempfile.gettempdir(), "tilec_cycles.tile")


def key_of(case):
    name, d, causal, _, _, tunes = case
    return f"{name} D={d} " + ("causal " if causal else "") + \
        " ".join(f"{k}={v}" for k, v in tunes.items())


def write_variants():
    text = open(os.path.join(ROOT, "stdlib/models/attention_backward.tile")).read()
    out = ["const LOG2E = 1.4426950408889634\n"]
    for name, kernel, edits in VARIANTS:
        body = re.search(rf"^kernel {kernel}\(.*?^}}\n", text, re.M | re.S).group(0)
        body = body.replace(f"kernel {kernel}(", f"kernel {name}(")
        for old, new in edits:
            if old not in body:
                print(f"{name}: the library's {kernel} has no `{old}`", file=sys.stderr)
            body = body.replace(old, new)
        out.append("\n" + body)
    with open(file_of("dq_base"), "w") as f:
        f.write("".join(out))


def prepare(tilec):
    iis = {}
    for case in cases():
        name, d, causal, _, _, tunes = case
        kernel = "attention" if is_forward(name) else name
        words = [tilec, "schedule", f"{file_of(name)}:{kernel}", f"D={d}",
                 f"causal={'true' if causal else 'false'}", "scale=0.1", "--target=h200"]
        words += [f"{k}={v}" for k, v in tunes.items()]
        if schedule_of(name) != "solve":
            words.append("--schedule=" + schedule_of(name))
        done = subprocess.run(words, capture_output=True, text=True)
        both = done.stdout + done.stderr
        found = re.search(r"^II (\d+) cycles", both, re.M)
        lower = re.search(r"proved lower bound (\d+)", both)
        notes = re.findall(r"(?:note|warning)\[(\w+)\]", done.stdout + done.stderr)
        iis[key_of(case)] = {"ii": int(found.group(1)) if found else None,
                             "bound": int(lower.group(1)) if lower else None,
                             "roles": len(re.findall(r"^role compute", done.stdout, re.M)),
                             "notes": sorted(set(notes))}
        print(key_of(case), iis[key_of(case)], flush=True)
    with open(os.path.join(HERE, "iis.json"), "w") as f:
        json.dump(iis, f, indent=1, sort_keys=True)
        f.write("\n")


PROBE = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry probe(.param .u64 out) {
  .reg .b64 %r<8>;
  .reg .pred %p;
  ld.param.u64 %r0, [out];
  mov.u64 %r1, %globaltimer;
  mov.u64 %r2, %clock64;
L:
  mov.u64 %r3, %clock64;
  sub.u64 %r4, %r3, %r2;
  setp.lt.u64 %p, %r4, 150000;
  @%p bra L;
  mov.u64 %r5, %globaltimer;
  mov.u64 %r3, %clock64;
  sub.u64 %r4, %r3, %r2;
  sub.u64 %r5, %r5, %r1;
  st.global.u64 [%r0], %r4;
  st.global.u64 [%r0+8], %r5;
  ret;
}
\0"""


class Probe:
    """The clock of one multiprocessor, read by a thread that spins for 80 microseconds."""

    def __init__(self, torch):
        self.out = torch.zeros(64, 2, dtype=torch.int64, device="cuda")  # makes the context
        torch.cuda.synchronize()
        self.cuda = ctypes.CDLL("libcuda.so.1")
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        loaded = self.cuda.cuModuleLoadData(ctypes.byref(module), PROBE)
        found = self.cuda.cuModuleGetFunction(ctypes.byref(self.function), module, b"probe")
        if loaded or found:
            raise RuntimeError(f"the probe does not load: CUDA errors {loaded}, {found}")
        self.n = 0

    def reset(self):
        self.n = 0

    def launch(self, stream):
        address = ctypes.c_uint64(self.out.data_ptr() + 16 * (self.n % 64))
        self.n += 1
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address))
        done = self.cuda.cuLaunchKernel(self.function, 1, 1, 1, 32, 1, 1, 0,
                                        ctypes.c_void_p(stream), arguments, None)
        assert done == 0, done

    def ghz(self):
        rows = self.out[:min(self.n, 64)].cpu().double()
        return (rows[:, 0] / rows[:, 1]).median().item()


def measure(torch, probe, call, rested):
    """(microseconds of a launch, GHz). Rested: few launches behind a pause."""
    call()
    torch.cuda.synchronize()
    begin = [torch.cuda.Event(enable_timing=True) for _ in range(64)]
    end = [torch.cuda.Event(enable_timing=True) for _ in range(64)]
    stream = torch.cuda.current_stream().cuda_stream
    begin[0].record()
    call()
    end[0].record()
    torch.cuda.synchronize()
    one = begin[0].elapsed_time(end[0])
    if rested:
        time.sleep(0.08)
        count = max(3, min(16, int(3 / one)))
    else:
        count = max(4, min(60, int(150 / one)))
    probe.reset()
    for i in range(count):
        begin[i].record()
        call()
        end[i].record()
        probe.launch(stream)
    torch.cuda.synchronize()
    times = sorted(b.elapsed_time(e) for b, e in zip(begin[1:count], end[1:count]))
    return times[len(times) // 2] * 1000, probe.ghz()


def fit(points):
    """Least squares of cycles a tile over iterations a tile: (a tile's own, an iteration's)."""
    n = len(points)
    mx = sum(x for x, _ in points) / n
    my = sum(y for _, y in points) / n
    slope = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
    return my - slope * mx, slope


def run(lib, only):
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import torch
    import tilec
    tilec.use_library(lib)
    iis = json.load(open(os.path.join(HERE, "iis.json")))
    print(torch.cuda.get_device_name(0), "SMs",
          torch.cuda.get_device_properties(0).multi_processor_count)
    probe = Probe(torch)
    modules = {}
    for case in cases():
        name, d, causal, long_of, turn_of, tunes = case
        if only and not re.search(only, key_of(case)):
            continue
        file = file_of(name)
        key = (file, schedule_of(name))
        if key not in modules:
            modules[key] = tilec.load(file, target="h200", schedule=key[1])
        kernel = modules[key]["attention" if is_forward(name) else name]
        rows, step = tunes[long_of], tunes[turn_of]
        told = iis.get(key_of(case), {})
        out = {True: [], False: []}
        try:
            for per in (16, 32, 64):  # tiles of a head; 33 heads: each multiprocessor has per/4
                heads, queries = 33, rows * per
                keys = queries if causal else queries // step * step
                if long_of == "BQ":
                    s, l = queries, keys
                else:
                    s, l = keys, queries
                shape = lambda n: torch.randn(1, heads, n, d, device="cuda", dtype=torch.bfloat16)
                q, k, v = shape(s), shape(l), shape(l)
                o = torch.empty_like(q)
                extra = dict(tunes, causal=causal)
                if is_forward(name):
                    call = lambda: kernel(q, k, v, 0.1, O=o, **extra)
                else:
                    go = shape(s)
                    lse = torch.full((1, heads, s), 4.0, device="cuda")
                    delta = torch.zeros(1, heads, s, device="cuda")
                    if name.startswith("dq"):
                        call = lambda: kernel(q, k, v, go, lse, delta, 0.1, dQ=o, **extra)
                    elif name == "attention_dqkv":
                        dq = torch.zeros(1, heads, s, d, device="cuda")
                        dk, dv = torch.empty_like(k), torch.empty_like(v)
                        call = lambda: kernel(q, k, v, go, lse, delta, dq, 0.1, dK=dk, dV=dv,
                                              **extra)
                    else:
                        dk, dv = torch.empty_like(k), torch.empty_like(v)
                        call = lambda: kernel(q, k, v, go, lse, delta, 0.1, dK=dk, dV=dv, **extra)
                tiles = per * heads
                if causal:
                    turns = sum(math.ceil(min(keys, (i + 1) * rows) / step) for i in range(per))
                    turns = turns / per
                else:
                    turns = keys // step
                for rested in (True, False):
                    us, ghz = measure(torch, probe, call, rested)
                    cycles = us * 1000 * ghz * SMS / tiles
                    out[rested].append((turns, cycles, us, ghz))
        except Exception as error:  # one case that fails must not end the others
            print(key_of(case), "FAILED", str(error)[:300], flush=True)
            continue
        for rested in (True, False):
            own, turn = fit([(x, y) for x, y, _, _ in out[rested]])
            line = " | ".join(f"{us:.1f} us {ghz:.3f} GHz {y / x:.0f}/it"
                              for x, y, us, ghz in out[rested])
            ii = told.get("ii")
            print(f"{key_of(case):44s} {'rested' if rested else 'load  '} II {ii} "
                  f"turn {turn:.0f} ({turn / ii if ii else 0:.3f}) tile {own:.0f} :: {line} "
                  f"{','.join(told.get('notes', []))}", flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--prepare", default="")
parser.add_argument("--lib", default="")
parser.add_argument("--only", default="")
arguments = parser.parse_args()
write_variants()
if arguments.prepare:
    prepare(arguments.prepare)
else:
    run(arguments.lib, arguments.only)
