"""The `tilec` command of this package: python -m tilec.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys

from ._library import library


def main():
    command = library().command()
    if command is None:
        print("tilec: the command is not in this package; the library is "
              f"{library().path}", file=sys.stderr)
        return 3
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
