"""scripts/site: the same bytes twice; every link and every place of the search index leads to a page and
an anchor that are there; tags are closed; nothing is loaded from a network.

    site_test.py ROOT SCRATCH

SPDX-License-Identifier: Apache-2.0
"""

import filecmp
import html.parser
import json
import os
import shutil
import subprocess
import sys

VOID = {"meta", "link", "input", "img", "br", "hr"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.path, self.ids, self.links, self.loads, self.open, self.wrong = path, [], [], [], [], []
        with open(path, encoding="utf-8") as f:
            self.feed(f.read())
        if self.open:
            self.wrong.append(f"never closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a":
            self.links.append(attrs["href"])
        for name in ("src", "href") if tag != "a" else ():
            if name in attrs:
                self.loads.append(attrs[name])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at line {self.getpos()[0]} closes something else")


def site(root, folder):
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-B", os.path.join(root, "scripts", "site"), folder], check=True)


def same(a, b):
    diff = filecmp.dircmp(a, b)
    assert not diff.left_only and not diff.right_only, (diff.left_only, diff.right_only)
    _, unequal, errors = filecmp.cmpfiles(a, b, diff.common_files, shallow=False)
    assert not unequal and not errors, unequal + errors
    for name in diff.common_dirs:
        same(os.path.join(a, name), os.path.join(b, name))


def leads(pages, folder, at, target):
    """Is there such a page or file, with such an anchor?"""
    file, _, anchor = target.partition("#")
    to = os.path.normpath(os.path.join(os.path.dirname(at), file)) if file else at
    if not os.path.exists(to) or not to.startswith(folder):
        return False
    return not anchor or (to in pages and anchor in pages[to].ids)


def main():
    root, scratch = sys.argv[1:3]
    folder = os.path.join(os.path.abspath(scratch), "one")
    site(root, folder)
    site(root, os.path.join(os.path.abspath(scratch), "two"))
    same(folder, os.path.join(os.path.abspath(scratch), "two"))
    pages, wrong, links = {}, [], 0
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html") and not where.startswith(os.path.join(folder, "files")):
                pages[os.path.join(where, name)] = Page(os.path.join(where, name))
    for path, page in pages.items():
        name = os.path.relpath(path, folder)
        wrong += [f"{name}: {w}" for w in page.wrong]
        if len(page.ids) != len(set(page.ids)):
            wrong.append(f"{name}: an anchor twice")
        for target in page.links + page.loads:
            links += 1
            if "://" in target:
                if target in page.loads:
                    wrong.append(f"{name} loads {target}")
            elif not leads(pages, folder, path, target):
                wrong.append(f"{name}: {target} leads nowhere")
    with open(os.path.join(folder, "index.js"), encoding="utf-8") as f:
        index = json.loads(f.read().split(" = ", 1)[1].split("];", 1)[0] + "]")
    for where, title, _ in index:
        if not leads(pages, folder, os.path.join(folder, "index.html"), where):
            wrong.append(f"search: {title} at {where}")
    print(f"{len(pages)} pages, {links} links, {len(index)} places to find")
    for line in wrong:
        print(line)
    return 1 if wrong or len(pages) < 20 or links < 200 else 0


sys.exit(main())
