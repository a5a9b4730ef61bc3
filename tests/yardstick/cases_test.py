"""The table of bench/yardstick fits the kernels that it names. Needs no GPU and no torch.

    cases_test.py TILEC

Every case's kernel exists and takes what the case gives it, by name, type, rank and direction;
sizes agree with each other and with the kernel's conditions; it compiles; there are a peer and an
answer.
Then cases with one mistake each, all of which must be found; --variant, good and bad.

SPDX-License-Identifier: Apache-2.0
"""

import ast
import dataclasses
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "bench/yardstick")
sys.path.insert(0, FOLDER)

import cases as table  # noqa: E402

INTEGERS = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}


def source(kernel):
    file = kernel.rpartition(":")[0]
    return os.path.join(ROOT, "stdlib" + file[3:] if file.startswith("std/") else file)


def signature(kernel):
    """[(name, direction, type, dims or None)], or None"""
    if not os.path.exists(source(kernel)):
        return None
    name = kernel.rpartition(":")[2]
    with open(source(kernel)) as f:
        text = f.read()
    text = re.sub(r"\w+: optional \w+\[[^\]]*\],?\s*", "", text)
    made = re.search(r"^kernel %s = (\w+)<" % name, text, re.M)
    of, _, dtype = name.rpartition("_")
    if made:  # of a pattern with a function
        text = re.sub(r"^(kernel %s)<\w+: fn>" % made[1], r"\1", text, flags=re.M)
        name = made[1]
    elif typed := re.search(r"^kernel %s<(\w) in [^>]*\b%s\b" % (of, dtype), text, re.M):
        text = re.sub(r"<%s in [^>]*>" % typed[1], "", text)
        text = re.sub(r"\b%s\[" % typed[1], dtype + "[", text)
        name = of
    found = re.search(r"^kernel %s\(([^)]*)\)" % name, text, re.M)
    if not found:
        return None
    parameter = re.compile(r"(\w+)\s*:\s*(?:(out|inout)\s+)?(\w+)(?:\[([^\]]*)\])?")
    return [(name, way or "in", kind, dims.replace(" ", "").split(",") if dims else None)
            for name, way, kind, dims in parameter.findall(found[1])]


def has_default(kernel, name):
    with open(source(kernel)) as f:
        return re.search(r"^kernel %s\([^)]*\b%s: [^,)]*=" % (kernel.rpartition(":")[2], name),
                         f.read(), re.M) is not None


def keys_of(name):
    """Of all dicts that files of peers call so; torch is not here, so they are read, not run."""
    out = set()
    for file in ("peers.py", "other_peers.py", "model_peers.py", "library_peers.py"):
        with open(os.path.join(FOLDER, file)) as f:
            tree = ast.parse(f.read())
        for node in tree.body:
            if isinstance(node, ast.Assign) and node.targets[0].id == name:
                out |= {k.value for k in node.value.keys if k is not None}
    return out


PEERS, ANSWERS = keys_of("PEERS"), keys_of("ANSWERS")


def bound_dims(tensors, parameters, out):
    """name → size; what contradicts goes to `out`. `C - 1` and `C + 1` bind C."""
    sizes, bound = {name: dims for name, _, dims, _ in tensors}, {}
    for name, _, _, dims in parameters:
        for dim, size in zip(dims or [], sizes.get(name, ())):
            if "/" in dim:
                continue  # follows from another
            more = "+" in dim
            of, _, by = (x.strip() for x in dim.partition("+" if more else "-"))
            size += int(by or 0) * (-1 if more else 1)
            if of.isdigit() and int(of) != size or bound.setdefault(of, size) != size:
                out.append(f"{name}: {of} is {size}")
    return {name: size for name, size in bound.items() if not name.isdigit()}


def compile_problems(kernel, values, dims, tilec):
    values = {**dims, **values}
    words = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in values.items()]
    path = source(kernel) + ":" + kernel.rpartition(":")[2]
    ran = subprocess.run([tilec, "build", path, *words, "--emit=tile-ir"], capture_output=True,
                         text=True)
    return [ran.stderr.strip()] if ran.returncode != 0 else []


def step_problems(kernel, tensors, values, written, tilec):
    """Of one launch. `written`: outputs of the case, of which a later step may read some, or add to
    them."""
    parameters = signature(kernel)
    if parameters is None:
        return [f"no kernel {kernel}"]
    out = []
    wanted = {n: (kind, way, len(dims)) for n, way, kind, dims in parameters if dims}
    given = {n: (kind, way, len(dims)) for n, kind, dims, way in tensors}
    for name in wanted.keys() | given.keys():
        if wanted.get(name) == given.get(name):
            continue
        if name in written and name in wanted and any(
                wanted[name] == (given[name][0], way, given[name][2]) for way in ("in", "inout")):
            continue
        out.append(f"{name}: {given.get(name)} given, {wanted.get(name)} wanted")
    out += [f"no value for {n}" for n, _, _, dims in parameters
            if not dims and n not in values and not has_default(kernel, n)]
    dims = bound_dims(tensors, parameters, out)
    # A mistake above needs no second opinion.
    return out or compile_problems(kernel, values, dims, tilec)


def problems(case, tilec):
    out, given, written = [], [t[0] for t in case.tensors], set()
    for kernel, tensors, values in case.launches():
        out += step_problems(kernel, tensors, values, written, tilec)
        written |= {name for name, _, _, way in tensors if way != "in"}
    for name, kind, _, way in case.tensors:
        if way == "out" and name in case.fill:
            out.append(f"{name} is filled and not read")
        if way != "out" and kind in INTEGERS and name not in case.fill:
            out.append(f"{name}: integers from nowhere")
    out += [f"no tensor {n}" for n in [*case.fill, *case.touched] if n not in given]
    out += [f"no {what} {case.peer}" for what, known in (("peer", PEERS), ("answer", ANSWERS))
            if case.peer not in known]
    if not 4e-3 < case.floor_ms() < 20:
        out.append(f"{case.floor_ms()} ms at best")
    if 3 * case.size() > 40e9:
        out.append("no room for three sets of buffers")
    return out


def damaged():
    """(what must be said of it, case)"""
    def of(id, **changes):
        return dataclasses.replace(table.by_id(id), **changes)

    def tensors(id, names, **changes):
        rows = [dict(zip(("name", "dtype", "dims", "role"), t)) for t in table.by_id(id).tensors]
        return of(id, tensors=[tuple({**r, **(changes if r["name"] in names else {})}.values())
                               for r in rows])
    conv, entropy = "conv1d_bf16_32768x1024x1024_5taps", "cross_entropy_bf16_8192x128256"
    linear, embed = "linear_attention_bf16_h256_t4096_d64", "embed_rmsnorm_bf16_32768x4096"
    split, attention = "split_k_bf16_1024x1024x16384", "fa_fwd_bf16_d128_s8192"
    yield "no kernel", of(conv, kernel="tests/exec/nothing.tile:conv1d")
    yield "no kernel", of(conv, kernel="tests/exec/conv1d.tile:conv")
    yield "W: None given", tensors(conv, "W", name="V")
    yield "Y: None given", of(conv, tensors=table.by_id(conv).tensors[:-1])
    yield "W: ('f16', 'in', 3) given", tensors(conv, "W", dtype="f16")
    yield "W: ('bf16', 'in', 2) given", tensors(conv, "W", dims=(5, 1024 * 1024))
    yield "C: ('f32', 'out', 2) given", tensors(split, "C", role="out")
    yield "Y: O is 512", tensors(conv, "Y", dims=(32768, 512))
    yield "no value for eps", of(embed, values={})
    yield "no parameter `epsilon`", of(embed, values={"eps": 1e-5, "epsilon": 1e-5})
    yield "D in {32, 64}", tensors(linear, "QKVO", dims=(256, 4096, 48))
    yield "`where H % G == 0` does not hold", tensors(attention, "QO", dims=(1, 63, 8192, 128))
    yield "labels: integers", of(entropy, fill={})
    yield "no tensor label", of(entropy, fill={"labels": ("integers", 0, 9), "label": ()})
    yield "loss is filled", of(entropy, fill={"labels": ("integers", 0, 9), "loss": ()})
    yield "no tensor tables", of(embed, touched={"tables": 1})
    yield "no peer", of(entropy, peer="crossentropy")
    yield "ms at best", dataclasses.replace(tensors(split, "ABC", dims=(16, 16)), flops=0.0)
    yield "no room", tensors("transpose_bf16_16384", "XY", dims=(131072, 131072))


def variant_problems():
    """Contestants of ours that are not said rightly are refused before anything is loaded."""
    out = []
    for word, said in (("two:BR=2,schedule=solve", ""), ("BR=2", "a label of its own"),
                       ("tilec:BR=2", "a label of its own"), ("two:BR=x", "`BR=x` of `two` is"),
                       ("two:BR", "`BR` of `two` is"), ("two:lib=", "`lib=` of `two` is"),
                       ("old:lib=nothing.so", "no file nothing.so")):
        ran = subprocess.run([sys.executable, FOLDER, "--list", "--variant", word],
                             capture_output=True, text=True)
        if ran.returncode != (2 if said else 0) or said not in ran.stderr:
            out.append(f"--variant {word}: {ran.returncode}, {ran.stderr.strip()}")
    return out


def random_problems(tilec):
    """What a seed draws: the same each time, other cases for another, and the kernels take it."""
    out = []
    for kind in table.RANDOM:
        first, again, other = (table.drawn(kind, seed, 12) for seed in (7, 7, 8))
        if first != again or first == other:
            out.append(f"random-{kind}: a seed does not say what is drawn")
        for case in first[:3]:
            for kernel, tensors, values in case.launches():
                out += [f"{case.id}: {p}"
                        for p in step_problems(kernel, tensors, values, set(), tilec)]
    return out


def main(tilec):
    bad, measured = [], [c for c in table.CASES if c.kernel]
    ids = [c.id for c in table.CASES]
    bad += [f"{id} stands there twice" for id in sorted({i for i in ids if ids.count(i) > 1})]
    for case in measured:
        bad += [f"{case.id}: {p}" for p in problems(case, tilec)]
    bad += variant_problems() + random_problems(tilec)
    broken = list(damaged())
    for text, case in broken:
        found = problems(case, tilec)
        bad += [] if any(text in p for p in found) else [f"`{text}` expected, found {found}"]
    print(*bad, f"{len(measured)} cases, {len(broken)} damaged ones, {len(bad)} problems", sep="\n")
    return 1 if bad or len(measured) < 40 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
