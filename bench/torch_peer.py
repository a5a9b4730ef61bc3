# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's matrix product for `tilec bench --compare=torch`.

tilec starts it with the shape and talks to it in lines: it says `ready VERSION` or `missing WHY`,
then answers each line with a number of launches by the milliseconds of one of them.

    python3 torch_peer.py DEVICE SETS M N K A_TURNED B_TURNED IN OUT
"""
import sys


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def products(torch, device, sets, m, n, k, a_turned, b_turned, dtype, out):
    """One function per set of buffers."""
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
             "tf32": torch.float32, "f64": torch.float64, "i8": torch.int8, "i32": torch.int32,
             "e4m3": getattr(torch, "float8_e4m3fn", None)}
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    if types.get(dtype) is None or types.get(out) is None:
        raise ValueError("PyTorch multiplies no %s into %s" % (dtype, out))

    def matrix(rows, columns, turned):
        shape = (columns, rows) if turned else (rows, columns)
        if dtype == "i8":
            t = torch.randint(-8, 8, shape, device=device, dtype=torch.int8)
        else:
            t = torch.randn(shape, device=device).to(types[dtype])
        return t.t() if turned else t

    calls = []
    for _ in range(sets):
        a, b = matrix(m, k, a_turned), matrix(k, n, b_turned)
        if dtype == "e4m3":
            one = torch.ones((), device=device)
            calls.append(lambda a=a, b=b: torch._scaled_mm(
                a, b, scale_a=one, scale_b=one, out_dtype=types[out], use_fast_accum=True))
        elif dtype == "i8":
            calls.append(lambda a=a, b=b: torch._int_mm(a, b))
        else:
            c = torch.empty((m, n), device=device, dtype=types[dtype])
            calls.append(lambda a=a, b=b, c=c: torch.matmul(a, b, out=c))
    return calls


def main(argv):
    try:
        import torch
    except Exception as error:  # not installed, or broken
        return say("missing %s" % str(error).replace("\n", " "))
    try:
        if not torch.cuda.is_available():
            return say("missing PyTorch %s sees no GPU" % torch.__version__)
        device = torch.device("cuda", int(argv[0]))
        sets, m, n, k, a_turned, b_turned = (int(word) for word in argv[1:7])
        with torch.cuda.device(device):
            calls = products(torch, device, sets, m, n, k, a_turned, b_turned, argv[7], argv[8])
            calls[0]()
            torch.cuda.synchronize()
            say("ready %s" % torch.__version__)
            for line in sys.stdin:
                count = int(line)
                begin = torch.cuda.Event(enable_timing=True)
                end = torch.cuda.Event(enable_timing=True)
                begin.record()
                for i in range(count):
                    calls[i % sets]()
                end.record()
                end.synchronize()
                say("%.9f" % (begin.elapsed_time(end) / count))
    except Exception as error:
        say("missing %s" % str(error).replace("\n", " "))


if __name__ == "__main__":
    main(sys.argv[1:])
