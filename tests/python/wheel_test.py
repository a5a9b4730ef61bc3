"""scripts/wheel: the same inputs give the same bytes, every file is as RECORD says, and the package
in it works without the tree that it was made from.

    wheel_test.py ROOT LIBTILEC TILEC

SPDX-License-Identifier: Apache-2.0
"""

import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

root, library, command = sys.argv[1:4]
build = os.path.dirname(os.path.dirname(library))
assert os.path.dirname(os.path.dirname(command)) == build, "library and command of two builds"

PROGRAM = """
import tilec, sys
assert tilec.__file__.startswith(sys.argv[1]), tilec.__file__
k = tilec.compile('''kernel twice(X: f32[N], Y: out f32[N]) {
  parallel n in tiles(N, 64) { Y[n] = 2.0 * X[n] }
}''', device="emulator", cache=False, schedule="sequential")
assert k(tilec.array([1, 2, 3])).tolist() == [2, 4, 6]
print(tilec.version(), "with the short way in C" if tilec.library().fast else "all in Python")
"""


def make(folder):
    done = subprocess.run([sys.executable, "-B", os.path.join(root, "scripts", "wheel"), folder,
                           "--build", build, "--thin"], check=True, capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1]


def run(*arguments):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    environment["PYTHONPATH"] = arguments[-1]
    done = subprocess.run([sys.executable, "-B", *arguments], env=environment, capture_output=True,
                          text=True, cwd=arguments[-1])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def check_record(z):
    record = next(n for n in z.namelist() if n.endswith("/RECORD"))
    named = set()
    for line in z.read(record).decode().splitlines():
        name, digest, _size = line.split(",")
        named.add(name)
        if digest:
            found = base64.urlsafe_b64encode(hashlib.sha256(z.read(name)).digest()).rstrip(b"=")
            assert digest == "sha256=" + found.decode(), name
    assert named == set(z.namelist()), named ^ set(z.namelist())


with tempfile.TemporaryDirectory() as scratch:
    first = make(os.path.join(scratch, "one"))
    second = make(os.path.join(scratch, "two"))
    with open(first, "rb") as a, open(second, "rb") as b:
        assert a.read() == b.read(), "two wheels of the same inputs differ"
    site = os.path.join(scratch, "site")
    with zipfile.ZipFile(first) as z:
        check_record(z)
        built = os.path.exists(os.path.join(os.path.dirname(library), "_fast.abi3.so"))
        assert ("tilec/lib/_fast.abi3.so" in z.namelist()) == built
        z.extractall(site)
    os.chmod(os.path.join(site, "tilec", "lib", "tilec"), 0o755)  # zipfile keeps no modes, pip does
    print("unpacked:", run("-c", PROGRAM, site))
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        print("no pip here: not installed")
    else:
        site = os.path.join(scratch, "pip")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                        "--disable-pip-version-check", "--target", site, first], check=True)
        print("installed:", run("-c", PROGRAM, site))
        done = subprocess.run([os.path.join(site, "bin", "tilec"), "--version"], check=True,
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": site})
        print("command:", done.stdout.strip())
        assert done.stdout.startswith("tilec 0."), done.stdout
