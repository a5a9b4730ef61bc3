// The tree-sitter grammar without tree-sitter: grammar.js is run with words of our own for its DSL,
// every rule that is named is there and is used, every node and word of the queries is the grammar's,
// and every .tile file given is a sentence of it (by Earley's method; precedences pick among parses
// and refuse none). Prints the number of files.
//
//   node tree_sitter.js FOLDER_OF_THE_GRAMMAR FILE.tile…
//
// SPDX-License-Identifier: Apache-2.0
"use strict";
const fs = require("fs");
const path = require("path");
const [folder, ...files] = process.argv.slice(2);

// ---- The DSL, as plain data: a rule is a list of alternatives, each a list of symbols.
const made = {};  // rules that stand for repeat and optional
let fresh = 0;
const literal = (text) => ({ kind: "text", text });
const alternatives = (r) => (typeof r === "string" ? [[literal(r)]]
  : r instanceof RegExp ? [[{ kind: "pattern", re: r }]] : r);
const hidden = (alts) => { const name = `${++fresh}`; made[name] = alts; return [[{ rule: name }]]; };
const seq = (...rs) => rs.map(alternatives).reduce((sofar, r) => sofar.flatMap((a) => r.map((b) => [...a, ...b])), [[]]);
const choice = (...rs) => rs.flatMap(alternatives);
const optional = (r) => hidden([[], ...alternatives(r)]);
const repeat = (r) => {
  const name = `${++fresh}`;
  made[name] = [[], ...alternatives(r).map((a) => [{ rule: name }, ...a])];
  return [[{ rule: name }]];
};
const repeat1 = (r) => seq(r, repeat(r));
const second = (level, r) => alternatives(r === undefined ? level : r);
const prec = Object.assign(second, { left: second, right: second });
const nodes = new Set(), fields = new Set();
const field = (name, r) => { fields.add(name); return alternatives(r); };
const alias = (r, to) => { nodes.add(to[0][0].rule); return hidden(alternatives(r)); };
const token = (r) => alternatives(r);
const $ = new Proxy({}, { get: (_, name) => [[{ rule: name }]] });
let g;
const grammar = (x) => (g = x);
new Function("module", "grammar", "seq", "choice", "optional", "repeat", "repeat1", "prec", "field", "alias", "token",
  fs.readFileSync(path.join(folder, "grammar.js"), "utf8"))({}, grammar, seq, choice, optional, repeat, repeat1, prec,
  field, alias, token);
const rules = Object.fromEntries(Object.entries(g.rules).map(([name, f]) => [name, alternatives(f($))]));
const extras = g.extras($).flatMap(alternatives);
for (const list of g.conflicts($)) for (const r of list) if (!rules[r[0][0].rule]) fail(`conflict of ${r[0][0].rule}`);

function fail(what) { console.log(what); process.exit(1); }

// ---- Names
const used = new Set(["source_file"]);
for (const alts of [...Object.values(rules), ...Object.values(made), extras])
  for (const s of alts.flat()) if (s.rule && !made[s.rule]) {
    if (!rules[s.rule]) fail(`there is no rule ${s.rule}`);
    used.add(s.rule);
  }
for (const name of Object.keys(rules)) if (!used.has(name)) fail(`rule ${name} is used by none`);
Object.assign(rules, made);

// ---- Tokens: rules of one pattern, and texts.
const texts = new Set(), patterns = [];
for (const [name, alts] of Object.entries(rules)) {
  for (const s of alts.flat()) if (s.kind === "text") texts.add(s.text);
  if (alts.every((a) => a.length === 1 && a[0].kind === "pattern"))
    patterns.push([name, new RegExp(alts.map((a) => `(?:${a[0].re.source})`).join("|"), "y")]);
}
const isToken = new Set(patterns.map(([name]) => name));
const skipped = new Set(extras.filter((a) => a[0].rule).map((a) => a[0].rule));
const ordered = [...texts].sort((a, b) => b.length - a.length);

function lex(text, file) {
  const out = [];
  for (let at = 0; at < text.length;) {
    if (/\s/.test(text[at])) { ++at; continue; }
    let best = null, end = at;
    for (const [name, re] of patterns) {
      re.lastIndex = at;
      const m = re.exec(text);
      if (m && at + m[0].length > end) { best = name; end = at + m[0].length; }
    }
    const word = text.slice(at, end);
    const fixed = ordered.find((t) => text.startsWith(t, at) && (t.length > word.length || t === word));
    if (fixed) { best = null; end = at + fixed.length; }
    if (end === at) fail(`${file}: no token begins at ${JSON.stringify(text.slice(at, at + 20))}`);
    if (!(best && skipped.has(best))) out.push({ rule: best, text: text.slice(at, end), at });
    at = end;
  }
  return out;
}

// ---- Earley: items as `alternative, dot, origin`.
const alts = [];
const byRule = {};
for (const [name, list] of Object.entries(rules)) {
  byRule[name] = [];
  if (!isToken.has(name)) for (const symbols of list) { byRule[name].push(alts.length); alts.push({ name, symbols }); }
}
const nullable = new Set();
for (let more = true; more;) {
  more = false;
  for (const a of alts) if (!nullable.has(a.name) && a.symbols.every((s) => s.rule && nullable.has(s.rule))) {
    nullable.add(a.name);
    more = true;
  }
}
const matches = (s, t) => (s.rule ? t.rule === s.rule : s.kind === "text" && t.rule === null && t.text === s.text);

function accepts(tokens) {
  const sets = [];
  let next = [];
  for (const a of byRule.source_file) next.push([a, 0, 0]);
  for (let k = 0; k <= tokens.length; ++k) {
    const items = [], seen = new Set(), waits = new Map();
    const add = (a, dot, from) => {
      const key = (a * 64 + dot) * 1048576 + from;
      if (!seen.has(key)) { seen.add(key); items.push([a, dot, from]); }
    };
    for (const i of next) add(...i);
    next = [];
    sets.push(waits);
    for (let i = 0; i < items.length; ++i) {
      const [a, dot, from] = items[i], s = alts[a].symbols[dot];
      if (s === undefined) {
        for (const [b, d, f] of sets[from].get(alts[a].name) || []) add(b, d + 1, f);
      } else if (s.rule && !isToken.has(s.rule)) {
        if (!waits.has(s.rule)) waits.set(s.rule, []);
        waits.get(s.rule).push([a, dot, from]);
        for (const b of byRule[s.rule]) add(b, 0, k);
        if (nullable.has(s.rule)) add(a, dot + 1, from);
      } else if (k < tokens.length && matches(s, tokens[k])) {
        next.push([a, dot + 1, from]);
      }
    }
    // A word that is reserved in one place is tree-sitter's name in others, too.
    if (k === tokens.length) return [items.some(([a, d, f]) => alts[a].name === "source_file" && d === alts[a].symbols.length && f === 0), k];
    if (next.length === 0) return [false, k];
  }
}

// ---- Queries
const queries = fs.readFileSync(path.join(folder, "queries", "highlights.scm"), "utf8").replace(/^;.*$/gm, "");
const visible = new Set([...Object.keys(rules).filter((n) => !/^[_0-9]/.test(n)), ...nodes]);
for (const [, name] of queries.matchAll(/\(([a-z_]+)/g)) if (!visible.has(name)) fail(`queries: no node ${name}`);
for (const [, name] of queries.matchAll(/([a-z_]+):/g)) if (!fields.has(name)) fail(`queries: no field ${name}`);
for (const [, text] of queries.replace(/#any-of\?[^)]*/g, "").matchAll(/"([^"]+)"/g))
  if (!texts.has(text)) fail(`queries: no word ${text}`);

for (const mistake of ["kernel k(X: f32[N]) { let = 3 }", "kernel k(X: f32[N] { }", "kernel k() { X[m = 1 }",
  "fn f() -> f32 { return 1 + }", "kernel k() { parallel m in { } }", "kernel k() { 3 = x }", "import x"])
  if (accepts(lex(mistake, "a mistake"))[0]) fail(`accepted: ${mistake}`);
for (const file of files) {
  const text = fs.readFileSync(file, "utf8"), tokens = lex(text, file);
  const [good, at] = accepts(tokens);
  if (!good) {
    const place = at < tokens.length ? tokens[at].at : text.length;
    fail(`${file}:${text.slice(0, place).split("\n").length}: ${JSON.stringify(text.slice(place, place + 40))} is not expected`);
  }
}
console.log(`${files.length} files, ${alts.length} rules`);
