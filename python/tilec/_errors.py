"""What goes wrong, as exceptions: the compiler's and the runtime's diagnostics.

SPDX-License-Identifier: Apache-2.0
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One diagnostic. `tilec help CODE` explains a code."""

    kind: str  # "error", "warning", "note"
    code: str  # "R514"
    message: str  # one line
    file: str  # "": it has no place in a file
    line: int  # from 1
    column: int
    text: str  # everything: message, source line with caret, notes, help


class Error(Exception):
    """A compilation or a launch failed. Its text is what `tilec` would have printed."""

    def __init__(self, text, problems=()):
        super().__init__(text.rstrip("\n"))
        self.problems = list(problems)

    @property
    def codes(self):
        return [p.code for p in self.problems if p.kind == "error"]


class KernelWarning(UserWarning):
    """What the compiler finds odd in a kernel that it compiles."""
