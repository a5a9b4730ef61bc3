"""Rows of bench/results/*.jsonl as text, as the table of docs/yardstick.md and as a plot.

    python3 bench/yardstick/report.py FILE… [--markdown OUT.md] [--svg OUT.svg]

Ratios are the peer's time over ours, of the same process and regime. Where a case was measured more
than once, the last file given counts.

SPDX-License-Identifier: Apache-2.0
"""

import json
import math
import re
import sys

# ‖result − answer‖ / ‖answer‖ of a right result: bf16 rounds to 2⁻⁹ at most, 1.7e-3 on average.
TOLERANCE = 6e-3

APART = ("other", "model", "shape")  # groups beside those of the listed cases
RANDOM = re.compile(r"r\d+_")  # cases that were drawn: `random_text` sums them up


def is_wrong(row):
    error = row.get("error")
    return error is not None and not error <= row.get("tolerance", TOLERANCE)


def rate(row):
    """(number, unit) in the terms of the case."""
    if row["compute_bound"]:
        return row["flops"] / row["ms"] / 1e9, "TF/s"
    return row["bytes"] / row["ms"] / 1e6, "GB/s"


def case_text(label, rows, notes):
    lines = [label]
    for r in rows:
        number, unit = rate(r)
        spread = (r["max_ms"] - r["min_ms"]) / r["ms"]
        line = (f"  {r['regime']:9} {r['who']:13} {1e3 * r['ms']:10.1f} us {number:8.0f} {unit}"
                f"  floor {r['floor_ms'] / r['ms']:4.2f}  ±{50 * spread:4.1f} %")
        if r.get("sm_mhz"):
            line += f"  {r['sm_mhz']} MHz {r.get('watts', 0)} W"
        if r.get("error") is not None:
            line += f"  error {r['error']:.1e}" + (" WRONG" if is_wrong(r) else "")
        lines.append(line)
    for name, text in notes.items():
        lines.append(f"  {name}: {text}")
    return "\n".join(lines)


def load(paths):
    """(facts of the last run, {(case, tunes, regime): {who: row}}, [notes])"""
    facts, found, notes, made_by = {}, {}, [], {}
    for path in paths:
        here = set()  # a ratio of two files would compare two machines' moods
        with open(path) as f:
            for line in f:
                row = json.loads(line)
                if row["kind"] == "run":
                    facts = row
                elif row["kind"] == "note":
                    notes.append(row)
                elif row["kind"] == "time":
                    tunes = ",".join(f"{k}={v}" for k, v in row["tunes"].items())
                    key = (row["case"], tunes, row["regime"])
                    if key not in here:
                        here.add(key)
                        found[key] = {}
                        made_by[key] = facts.get("commit")
                    found[key][row["who"]] = row
    commits = list(dict.fromkeys(c for c in made_by.values() if c))
    return {**facts, "commits": commits}, found, notes


def _first_peer(rows):
    for who, row in rows.items():
        if who not in ("tilec", "triton", "copy") and "variant" not in row:
            return row
    return rows.get("copy")


def entries(found):
    """One dict per case and tunes, in order of appearance."""
    out = {}
    for (case, tunes, regime), rows in found.items():
        if RANDOM.match(case):
            continue
        e = out.setdefault((case, tunes), {"label": case + (f" {tunes}" if tunes else ""),
                                           "group": next(iter(rows.values())).get("group")})
        ours, peer = rows.get("tilec"), _first_peer(rows)
        if ours:
            e[regime] = {"ours": rate(ours), "ms": ours["ms"], "mhz": ours.get("sm_mhz"),
                         "floor": ours["floor_ms"] / ours["ms"], "error": ours.get("error"),
                         "cold": ours.get("cold_ms")}
            if peer:
                e[regime].update(peer=rate(peer), who=peer["who"], ratio=peer["ms"] / ours["ms"])
            for other in ("triton", "copy"):
                if other in rows:
                    e[regime][other] = rows[other]["ms"] / ours["ms"]
    return [e for e in out.values() if "sustained" in e or "rested" in e]


def _cells(e, regime):
    if regime not in e:
        return ["–"] * 3
    x = e[regime]
    number, unit = x["ours"]
    peer = f"{x['peer'][0]:.0f} {x['who']}" if "peer" in x else "–"
    if x.get("who") == "copy" and unit == "TF/s":
        peer = "a copy"  # of its bytes: it computes nothing
    return [f"{number:.0f} {unit}", peer, f"{x['ratio']:.2f}" if "ratio" in x else "–"]


def _geometric(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else None


def _means(found):
    """Lines of text. Some groups have means of their own: most peers of `other` are composed, many
    of `model` are copies, and `shape` is a list of losers."""
    lines, everything = [], entries(found)
    for group in (None, *APART):
        of, other = (f" of the group {group}", True) if group else ("", False)
        mine = [e for e in everything
                if (e["group"] == group if group else e["group"] not in APART)]
        for regime in ("sustained", "rested"):
            mean = _geometric([e[regime]["ratio"] for e in mine if "ratio" in e.get(regime, {})])
            if mean:
                lines.append(f"geometric mean of the ratios{of}, {regime}: {mean:.3f}")
            share = _geometric([e[regime]["floor"] for e in mine if other and regime in e])
            if share:
                lines.append(f"geometric mean of floor{of}, {regime}: {share:.3f}")
    return lines


def _best_peer(rows):
    """The fastest of all that are no builds of ours and no copy."""
    peers = [r for who, r in rows.items()
             if who not in ("tilec", "copy") and "variant" not in r and not is_wrong(r)]
    return min(peers, key=lambda r: r["ms"], default=None)


def random_text(paths):
    """How ours stands in a random group: beside the best peer, and beside a copy."""
    _, found, _ = load(paths)
    lines = []
    for regime in ("sustained", "rested"):
        beside = {"the best peer": [], "a copy": []}
        for (case, _, of), rows in found.items():
            ours = rows.get("tilec")
            if of != regime or not ours:
                continue
            for name, other in (("the best peer", _best_peer(rows)), ("a copy", rows.get("copy"))):
                if other:
                    beside[name].append((other["ms"] / ours["ms"], case, ours["ms"], other["who"]))
        for name, all in beside.items():
            if not all:
                continue
            all.sort()
            ratios = [r for r, *_ in all]
            at = {q: ratios[min(len(all) - 1, int(q * len(all)))] for q in (0.05, 0.25, 0.5, 0.75)}
            lines.append(
                f"{regime}, beside {name}: {len(all)} cases, geometric mean {_geometric(ratios):.3f}, "
                + ", ".join(f"{int(100 * q)} %: {r:.2f}" for q, r in at.items())
                + f"; {sum(r >= 0.95 for r in ratios)} at 0.95 or more, "
                f"{sum(r < 0.85 for r in ratios)} below 0.85")
            lines += [f"  {r:5.2f}  {1e3 * ms:9.1f} us  {case} ({who})"
                      for r, case, ms, who in all[:10]]
    return "\n".join(lines)


HEADER = ["case", "sustained", "peer", "ratio", "rested", "peer", "ratio", "floor", "triton",
          "cold, ms"]


def _rows(found):
    rows = []
    for e in entries(found):
        any_regime = e.get("sustained") or e.get("rested")
        triton = f"{any_regime['triton']:.2f}" if "triton" in any_regime else "–"
        cold = f"{any_regime['cold']:.0f}" if any_regime["cold"] else "–"
        rows.append([e["label"]] + _cells(e, "sustained") + _cells(e, "rested")
                    + [f"{any_regime['floor']:.2f}", triton, cold])
    return rows


def table_text(paths):
    _, found, _ = load(paths)
    rows = [HEADER] + _rows(found)
    widths = [max(len(r[i]) for r in rows) for i in range(len(HEADER))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows]
    return "\n".join(lines + _means(found))


def markdown(paths):
    facts, found, notes = load(paths)
    lines = ["# Results", "",
             "Written by `python3 bench/yardstick/report.py bench/results/*.jsonl --markdown "
             "docs/results.md",
             "--svg docs/results.svg`; [yardstick.md](yardstick.md) says how it was measured and "
             "how to read it.",
             "", "![peer time over our time](results.svg)", "",
             f"{facts['gpu']}, driver {facts['driver']}, CUDA {facts['cuda']}, PyTorch "
             f"{facts['torch']}, cuDNN {facts['cudnn']}, Triton {facts['triton']}, "
             f"{facts['date'][:10]}, commits {', '.join(facts['commits'])}, `--schedule={facts['schedule']}`.",
             "", "| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(r) + " |" for r in _rows(found)]
    lines.append("")
    lines += [line[0].upper() + line[1:] + "." for line in _means(found)]
    missing = sorted({(n["case"], n["text"].split("\n")[0]) for n in notes if n["who"] == "tilec"})
    if missing:
        lines += ["", "Not measured: "
                  + "; ".join(f"`{case}` ({text})" for case, text in missing) + "."]
    return "\n".join(lines) + "\n"


def svg(paths):
    """Ratios as bars, sustained above rested; the line at 1 is the peer. Those of the groups APART
    stand in the table only."""
    _, found, _ = load(paths)
    es = [e for e in entries(found) if e["group"] not in APART
          and any("ratio" in e.get(r, {}) for r in ("sustained", "rested"))]
    left, width, pitch, top = 330, 420, 26, 34
    height = top + pitch * len(es) + 26
    scale = width / max(1.2, *(e[r]["ratio"] for e in es for r in ("sustained", "rested")
                               if r in e and "ratio" in e[r])) if es else width
    colours = {"sustained": "#3465a4", "rested": "#8fb2d9"}
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" '
             f'height="{height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="16" font-weight="bold">peer time / our time</text>']
    for i, (name, colour) in enumerate(colours.items()):
        x = left + 170 + 110 * i
        parts.append(f'<rect x="{x}" y="7" width="10" height="10" fill="{colour}"/>'
                     f'<text x="{x + 15}" y="16">{name}</text>')
    for tick in (0, 0.25, 0.5, 0.75, 1.0):
        x = left + tick * scale
        stroke = "#c00" if tick == 1.0 else "#ddd"
        parts.append(f'<line x1="{x:.1f}" y1="{top - 6}" x2="{x:.1f}" y2="{height - 20}" '
                     f'stroke="{stroke}"/><text x="{x:.1f}" y="{height - 6}" '
                     f'text-anchor="middle">{tick:g}</text>')
    for i, e in enumerate(es):
        y = top + pitch * i
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{e["label"]}</text>')
        for j, (regime, colour) in enumerate(colours.items()):
            if "ratio" not in e.get(regime, {}):
                continue
            ratio = e[regime]["ratio"]
            parts.append(f'<rect x="{left}" y="{y + 2 + 10 * j}" width="{ratio * scale:.1f}" '
                         f'height="9" fill="{colour}"/>'
                         f'<text x="{left + ratio * scale + 4:.1f}" y="{y + 10 + 10 * j}" '
                         f'font-size="9">{ratio:.2f}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main(words):
    paths, outputs, i = [], {}, 0
    while i < len(words):
        if words[i] in ("--markdown", "--svg") and i + 1 < len(words):
            outputs[words[i]] = words[i + 1]
            i += 2
        else:
            paths.append(words[i])
            i += 1
    if not paths:
        sys.exit(__doc__)
    for flag, make in (("--markdown", markdown), ("--svg", svg)):
        if flag in outputs:
            with open(outputs[flag], "w") as f:
                f.write(make(paths))
    if not outputs:
        print(table_text(paths))


if __name__ == "__main__":
    main(sys.argv[1:])
