"""Ours, once more, beside ours: by another build, with another schedule or with other tunes.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os


def variant(word):
    """LABEL:KEY=VALUE,… as (label, settings, texts of lib, schedule and tune, tunes by name)"""
    label, colon, settings = word.partition(":")
    texts, tunes = {}, {}
    if not label or not colon or label in ("tilec", "triton", "copy"):
        raise argparse.ArgumentTypeError(f"`{word}`: a label of its own comes first, LABEL:BM=64")
    for setting in filter(None, settings.split(",")):
        key, equals, value = setting.partition("=")
        if key in ("lib", "schedule", "tune") and value:
            texts[key] = value
        elif key and equals and value.lstrip("-").isdigit():
            tunes[key] = int(value)
        else:
            raise argparse.ArgumentTypeError(
                f"`{setting}` of `{label}` is neither lib=FILE, schedule=…, tune=… nor NAME=NUMBER")
    if "lib" in texts and not os.path.exists(texts["lib"]):
        raise argparse.ArgumentTypeError(f"`{label}`: there is no file {texts['lib']}")
    return label, settings, texts, tunes


class Variant:
    """Ours, once more: by another build, schedule, or with other tunes."""

    def __init__(self, bench, label="tilec", settings="", texts={}, tunes={}):
        self.label, self.settings, self.tunes = label, settings, tunes
        path = texts.get("lib")
        self.library = bench.tilec.Library(os.path.abspath(path)) if path else bench.library
        self.device = self.library.device("cuda:0") if path else bench.device
        self.compiler = self.library.compiler(schedule=texts.get("schedule", bench.o.schedule),
                                              tune=texts.get("tune", bench.o.tune), cache="off")
