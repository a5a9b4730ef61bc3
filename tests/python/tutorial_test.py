"""Runs docs/tutorial.md as a reader would: writes its files, runs its commands in order, and looks for
what it says that they print.

The second word of a fence is the file that the block becomes. Each line of a `sh` block must succeed,
or fail if it begins with `! `; what a line `. FILE` sets holds for those behind it. Each line of the
`text` block behind it must be in what was printed.

    tutorial_test.py TUTORIAL TILEC LIBRARY_FOLDER INCLUDE_FOLDER PYTHON_FOLDER SCRATCH
    tutorial_test.py TUTORIAL      as a reader: here, with what is installed by the `sh install` block,
                                   which only this way runs

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import subprocess
import sys
import time


def blocks(path):
    """(line, words of the fence, text) of each block."""
    fence, text, first = None, "", 0
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("```"):
                if fence is not None:
                    yield first, fence, text
                    fence = None
                else:
                    fence, text, first = line[3:].split(), "", number
            elif fence is not None:
                text += line


def run(line, number, folder, environment):
    must_fail = line.startswith("! ")
    begin = time.monotonic()
    done = subprocess.run(["sh", "-c", line[2:] if must_fail else line], cwd=folder, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(f"{time.monotonic() - begin:6.2f} s  {line}")
    if (done.returncode != 0) != must_fail or done.returncode < 0 or done.returncode > 128:
        sys.exit(f"line {number}: `{line}` ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def sourced(line, folder, environment):
    """The environment after `. FILE`."""
    done = subprocess.run(["sh", "-c", line + " && env -0"], cwd=folder, env=environment,
                          stdout=subprocess.PIPE, text=True, check=True)
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def of_a_build(tilec, library, include, python, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return {**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "cache"),
            "PATH": os.path.dirname(tilec) + os.pathsep + os.environ["PATH"], "CPATH": include,
            "LIBRARY_PATH": library, "LD_LIBRARY_PATH": library, "PYTHONPATH": python,
            "PYTHONDONTWRITEBYTECODE": "1"}


def main():
    as_reader = len(sys.argv) == 2
    folder = "." if as_reader else sys.argv[6]
    environment = dict(os.environ) if as_reader else of_a_build(*sys.argv[2:7])
    printed, commands, said = "", 0, 0
    for number, fence, text in blocks(sys.argv[1]):
        if fence[:2] == ["sh", "install"] and not as_reader:
            print(f"line {number}: installing is left to scripts/bare")
        elif fence[:1] == ["sh"]:
            printed = ""
            for line in text.splitlines():
                commands += 1
                if line.startswith(". "):
                    environment = sourced(line, folder, environment)
                else:
                    printed += run(line, number, folder, environment)
        elif fence[:1] == ["text"]:
            for line in text.splitlines():
                said += 1
                if line not in printed:
                    sys.exit(f"line {number}: `{line}` is not in what was printed:\n{printed}")
        elif len(fence) > 1:
            with open(os.path.join(folder, fence[1]), "w", encoding="utf-8") as f:
                f.write(text)
        else:
            sys.exit(f"line {number}: a block of `{' '.join(fence)}` that is neither run nor a file")
    print(f"{commands} commands, {said} lines of output")
    if commands < 10 or said < 5:
        sys.exit("the tutorial has fewer commands than it had")


if __name__ == "__main__":
    main()
