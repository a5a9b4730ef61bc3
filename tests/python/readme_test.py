"""Runs the commands that README.md says to try, from a folder that has the tree's stdlib, and looks for
every script that it names. Its kernels are compiled by docs_test.

    readme_test.py ROOT TILEC SCRATCH

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import sys

from tutorial_test import blocks, run


def main():
    root, tilec, folder = sys.argv[1:4]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    os.symlink(os.path.join(root, "stdlib"), os.path.join(folder, "stdlib"))
    environment = {**os.environ, "tilec": tilec, "XDG_CACHE_HOME": os.path.join(folder, "cache")}
    commands = scripts = kernels = 0
    for number, fence, text in blocks(os.path.join(root, "README.md")):
        lines = text.splitlines()
        if fence[:1] == ["tile"] or "kernel " in text:
            kernels += 1
        elif lines[0].startswith("scripts/"):  # whole builds, and hours: they are there
            for line in lines:
                scripts += os.access(os.path.join(root, line.split()[0]), os.X_OK) or sys.exit(line)
        elif lines[0] == "tilec=build/release/tools/tilec":
            for line in lines[1:]:
                run(line, number, folder, environment)
                commands += 1
        else:
            sys.exit(f"line {number}: a block that is neither run nor compiled")
    print(f"{commands} commands, {scripts} scripts, {kernels} kernels")
    if commands < 5 or scripts < 3 or kernels < 1:
        sys.exit("the README has fewer commands than it had")


main()
