// SPDX-License-Identifier: Apache-2.0
#include "tools/check_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tilec::tools {
namespace {

namespace judge = runtime::judge;

constexpr size_t kMostRows = 10;
// Events shown before the first of the two accesses, between them at either end, and behind.
constexpr uint64_t kBefore = 6, kAfterFirst = 24, kBeforeSecond = 40, kBehind = 3;
constexpr int kColumn = 118, kRow = 62, kLeft = 250, kTop = 26, kBox = 104, kBoxHeight = 40;

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 32 || c == '\n')
      out += c;
  }
  return out;
}

struct Place {
  std::string file;
  int line = 0;
  std::string Short() const { return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line); }
};

// Of the source where it is known, else of the PTX.
Place PlaceOf(const judge::Site& site) {
  const std::string s = site.source.substr(0, site.source.find(" ("));
  const size_t last = s.rfind(':');
  const size_t before = last == std::string::npos || last == 0 ? last : s.rfind(':', last - 1);
  if (before == std::string::npos) return {site.file, site.line};
  return {s.substr(0, before), std::atoi(s.c_str() + before + 1)};
}

// What an instruction is to whoever looks for an order: its colour.
const char* KindOf(const judge::Site& site, bool lands) {
  const std::string& t = site.text;
  const auto has = [&](std::string_view word) { return t.find(word) != std::string::npos; };
  if (lands) return "lands";
  if (has("fence") || has("membar")) return "fence";
  if (has("wait") || has("bar") || has("arrive") || has("commit")) return "sync";
  if (has("async")) return "async";
  if (has("ld") || has("mma")) return "read";
  return "write";
}

// "cp.async.bulk.tensor.2d" of a longer name.
std::string Label(const std::string& text) {
  constexpr size_t kMost = 15;
  if (text.size() <= kMost) return text;
  std::string cut = text.substr(0, kMost);
  const size_t dot = cut.rfind('.');
  if (dot != std::string::npos && dot > 3) cut.resize(dot);
  return cut + "…";
}

struct Shown {
  uint64_t number = 0;
  const judge::TraceEvent* event = nullptr;  // null: a gap
  uint64_t left_out = 0;
};

class Page {
 public:
  Page(const judge::Finding& f, const judge::Trace& t, const CheckPageWords& w)
      : f_(f), t_(t), w_(w) {
    Find();
    ChooseRows();
    ChooseEvents();
  }

  std::string Html() const {
    const judge::RuleDef& def = judge::Def(f_.rule);
    std::string h = kHead;
    h += fmt::format("<title>{} {}</title></head><body>", def.id, Escape(def.title));
    h += fmt::format("<h1><span class=\"id\">{}</span> {}</h1><p id=\"message\">{}</p>", def.id,
                     Escape(def.title), Escape(f_.message));
    h += "<div id=\"accesses\">";
    for (size_t k = 0; k < f_.accesses.size(); ++k) h += Card(f_.accesses[k], k);
    h += "</div>";
    if (!f_.missing.empty())
      h += fmt::format("<p id=\"missing\"><b>Missing</b> {}</p>", Escape(f_.missing));
    if (!f_.fix.empty()) h += fmt::format("<p id=\"fix\"><b>Help</b> {}</p>", Escape(f_.fix));
    h += "<h2>What happened, in order</h2><div id=\"scroll\">" + Svg() + "</div>";
    h += "<p id=\"detail\" role=\"status\">Click an event, or walk with the arrow keys.</p>";
    h += Table();
    if (!w_.command.empty())
      h += fmt::format("<h2>The same again</h2><pre id=\"command\">{}</pre>", Escape(w_.command));
    h += fmt::format("<p class=\"small\">{}, entry <code>{}</code>, seed {}. Rule: {} ({}).</p>",
                     Escape(w_.subject), Escape(f_.entry), f_.seed, Escape(def.condition),
                     Escape(def.source));
    return h + kScript + "</body></html>\n";
  }

 private:
  static bool Fits(const judge::TraceEvent& e, const judge::Access& a) {
    return a.pc >= 0 && e.pc == static_cast<uint64_t>(a.pc) && e.cluster == a.cluster && !e.lands &&
           (a.warp < 0 || e.warp == static_cast<uint64_t>(a.warp));
  }
  const judge::TraceEvent& At(uint64_t number) const { return t_.events[number - t_.first]; }
  const judge::Site& SiteOf(const judge::TraceEvent& e) const {
    const auto it = t_.sites.find({e.launch, e.pc});
    return it == t_.sites.end() ? none_ : it->second;
  }

  // The two accesses among the events: the last ones before the finding was made.
  void Find() {
    end_ = std::clamp(f_.at, t_.first, t_.next());
    for (size_t k = 0; k < 2 && k < f_.accesses.size(); ++k) {
      const uint64_t from = k == 0 || !found_[0] ? end_ : number_[0];
      for (uint64_t n = from; n-- > t_.first;)
        if (Fits(At(n), f_.accesses[k])) {
          found_[k] = true, number_[k] = n;
          break;
        }
    }
    second_ = found_[0] ? number_[0] : end_ > t_.first ? end_ - 1 : t_.first;
    first_ = found_[1]                            ? number_[1]
             : second_ > t_.first + kBeforeSecond ? second_ - kBeforeSecond
                                                  : t_.first;
  }

  // Those of the two accesses, then whoever did most in between.
  void ChooseRows() {
    std::set<judge::Trace::Warp> in;
    const auto add = [&](judge::Trace::Warp w) {
      if (rows_.size() < kMostRows && in.insert(w).second) rows_.push_back(w);
    };
    for (size_t k = 2; k-- > 0;)
      if (found_[k]) add({At(number_[k]).cluster, At(number_[k]).warp});
    std::map<judge::Trace::Warp, uint64_t> acts;
    for (uint64_t n = first_; n < t_.next() && n <= second_; ++n)
      ++acts[{At(n).cluster, At(n).warp}];
    std::vector<std::pair<judge::Trace::Warp, uint64_t>> busy(acts.begin(), acts.end());
    std::stable_sort(busy.begin(), busy.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [warp, n] : busy) add(warp);
    std::sort(rows_.begin(), rows_.end());
  }

  size_t RowOf(const judge::TraceEvent& e) const {
    return static_cast<size_t>(
        std::find(rows_.begin(), rows_.end(), judge::Trace::Warp{e.cluster, e.warp}) -
        rows_.begin());
  }

  void ChooseEvents() {
    std::vector<uint64_t> mine;  // numbers of the events of the rows
    const uint64_t from = first_ > t_.first + 4096 ? first_ - 4096 : t_.first;
    for (uint64_t n = from; n < t_.next() && n <= second_ + 4096; ++n)
      if (RowOf(At(n)) < rows_.size()) mine.push_back(n);
    const auto place = [&](uint64_t n) {
      return static_cast<uint64_t>(std::lower_bound(mine.begin(), mine.end(), n) - mine.begin());
    };
    const uint64_t a = place(first_), b = place(second_);
    uint64_t left_out = 0;
    for (uint64_t k = a > kBefore ? a - kBefore : 0; k < mine.size() && k <= b + kBehind; ++k) {
      if (k > a + kAfterFirst && k + kBeforeSecond < b) {
        ++left_out;
        continue;
      }
      if (left_out > 0) shown_.push_back({0, nullptr, std::exchange(left_out, 0)});
      shown_.push_back({mine[k], &At(mine[k]), 0});
    }
  }

  std::string Card(const judge::Access& a, size_t k) const {
    const Place p = PlaceOf(a.site);
    std::string line = w_.source ? w_.source(p.file, p.line) : "";
    line.erase(0, line.find_first_not_of(" \t"));
    std::string who = a.who + (a.what.empty() ? "" : " " + a.what) +
                      (a.memory.empty() ? "" : " " + a.memory) +
                      (a.object.empty() ? "" : " (" + a.object + ")");
    return fmt::format(
        "<div class=\"card\"><h3>{}</h3><p>{}</p><p><code>{}</code> at "
        "<b>{}:{}</b></p>{}</div>",
        k == 0 ? "Here" : "And", Escape(who), Escape(a.site.text), Escape(p.file), p.line,
        line.empty() ? "" : "<pre>" + Escape(line) + "</pre>");
  }

  int X(size_t column) const { return kLeft + static_cast<int>(column) * kColumn; }
  static int Y(size_t row) { return kTop + static_cast<int>(row) * kRow; }

  std::string Svg() const {
    const int width = X(shown_.size()) + 20, height = Y(rows_.size()) + 46;
    std::string s = fmt::format(
        "<svg id=\"timeline\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
        "aria-label=\"events by warp\"><defs><marker id=\"head\" markerWidth=\"9\" "
        "markerHeight=\"9\" refX=\"8\" refY=\"4.5\" orient=\"auto\"><path d=\"M0,0 L9,4.5 L0,9 "
        "z\"/></marker></defs>",
        width, height);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto name = t_.names.find(rows_[r]);
      s += fmt::format(
          "<g class=\"row\"><line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/><text "
          "x=\"4\" y=\"{}\">{}</text></g>",
          kLeft - 8, Y(r) + kBoxHeight / 2, width, Y(r) + kBoxHeight / 2, Y(r) + kBoxHeight / 2 + 4,
          Escape(name == t_.names.end() ? "" : name->second));
    }
    int ends[2][2] = {};
    bool drawn[2] = {};
    for (size_t c = 0; c < shown_.size(); ++c) {
      const Shown& e = shown_[c];
      if (e.event == nullptr) {
        s += fmt::format("<text class=\"gap\" x=\"{}\" y=\"16\">⋯ {} more ⋯</text>", X(c) + 8,
                         e.left_out);
        continue;
      }
      const size_t row = RowOf(*e.event);
      std::string role;
      for (size_t k = 0; k < 2; ++k)
        if (found_[k] && e.number == number_[k]) {
          role = k == 0 ? " second" : " first";
          ends[k][0] = X(c) + kBox / 2, ends[k][1] = Y(row) + kBoxHeight / 2, drawn[k] = true;
        }
      const judge::Site& site = SiteOf(*e.event);
      s += fmt::format(
          "<g class=\"event {0}{1}\" data-event=\"{2}\" tabindex=\"-1\"><title>{3}</title><rect "
          "x=\"{4}\" y=\"{5}\" width=\"{6}\" height=\"{7}\" rx=\"4\"/><text x=\"{8}\" "
          "y=\"{9}\">{10}</text><text class=\"place\" x=\"{8}\" y=\"{11}\">{12}</text></g>",
          KindOf(site, e.event->lands), role, e.number, Escape(Words(e)), X(c), Y(row), kBox,
          kBoxHeight, X(c) + 6, Y(row) + 16,
          Escape(e.event->lands ? "copy lands" : Label(site.text)), Y(row) + 32,
          Escape(PlaceOf(site).Short()));
    }
    if (drawn[0] && drawn[1] && !f_.missing.empty()) s += Edge(ends[1], ends[0]);
    return s + "</svg>";
  }

  std::string Edge(const int from[2], const int to[2]) const {
    const int bottom = Y(rows_.size()) + 4;
    std::string path;
    if (from[1] == to[1])
      path = fmt::format("M{},{} C{},{} {},{} {},{}", from[0], from[1] + kBoxHeight / 2, from[0],
                         bottom + 20, to[0], bottom + 20, to[0], to[1] + kBoxHeight / 2);
    else
      path =
          fmt::format("M{},{} C{},{} {},{} {},{}", from[0] + kBox / 2, from[1], from[0] + kColumn,
                      from[1], to[0] - kColumn, to[1], to[0] - kBox / 2, to[1]);
    return fmt::format(
        "<path id=\"missing-edge\" d=\"{}\" marker-end=\"url(#head)\"><title>missing: "
        "{}</title></path><text class=\"missing\" x=\"{}\" y=\"{}\">missing: {}</text>",
        path, Escape(f_.missing), kLeft, bottom + 34, Escape(f_.missing));
  }

  std::string Words(const Shown& e) const {
    const judge::Site& site = SiteOf(*e.event);
    const auto name = t_.names.find({e.event->cluster, e.event->warp});
    return fmt::format("{}, lane {}: {}{} at {}{}", name == t_.names.end() ? "" : name->second,
                       e.event->lane, e.event->lands ? "arrival of " : "", site.text,
                       site.source.empty() ? "" : site.source + ", ",
                       fmt::format("{}:{}", site.file, site.line));
  }

  std::string Table() const {
    std::string s = "<table id=\"events\"><thead><tr><th>event<th>who, what, where</thead><tbody>";
    for (const Shown& e : shown_) {
      if (e.event == nullptr) {
        s += fmt::format("<tr class=\"gap\"><td><td>{} events of these warps in between",
                         e.left_out);
        continue;
      }
      s += fmt::format("<tr data-event=\"{}\"><td>{}<td>{}", e.number, e.number, Escape(Words(e)));
    }
    return s + "</tbody></table>";
  }

  static constexpr const char* kHead =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><style>\n"
      ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#c9d1d9;--read:#d8e8fb;"
      "--write:#fbe3d4;--async:#e6dcfa;--sync:#dff0dc;--fence:#d5efef;--lands:#f4eecb;--bad:#"
      "c62828}\n"
      "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--paper:#15181c;--line:#444c56;"
      "--read:#1f3a5c;--write:#5a3621;--async:#3f2f63;--sync:#28482a;--fence:#1f4a4a;"
      "--lands:#4d4520;--bad:#ff8a80}}\n"
      "body{font:15px/1.45 "
      "system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:1.5em "
      "2em}h1{font-size:1.3em}h2{font-size:1.05em;margin-top:1.6em}h3{margin:0;font-size:.9em}\n"
      ".id{color:var(--bad)}#accesses{display:flex;gap:1em;flex-wrap:wrap}.card{border:1px solid "
      "var(--line);border-radius:6px;padding:.6em .9em;max-width:46em}.card p{margin:.3em 0}"
      "pre{overflow:auto;margin:.4em 0;padding:.4em;border:1px solid "
      "var(--line);border-radius:4px}\n"
      "#scroll{overflow-x:auto;border:1px solid var(--line);border-radius:6px}svg{display:block}"
      "svg text{font:12px ui-monospace,monospace;fill:var(--ink)}svg .place{font-size:11px;"
      "opacity:.75}svg .row line{stroke:var(--line)}.event rect{stroke:var(--line);cursor:pointer}"
      ".event.read rect{fill:var(--read)}.event.write rect{fill:var(--write)}.event.async "
      "rect{fill:var(--async)}.event.sync rect{fill:var(--sync)}.event.fence "
      "rect{fill:var(--fence)}"
      ".event.lands rect{fill:var(--lands)}.event.first rect,.event.second rect{stroke:var(--bad);"
      "stroke-width:2.5}.event.on rect{stroke:var(--ink);stroke-width:2.5}\n"
      "#missing-edge{fill:none;stroke:var(--bad);stroke-width:2.5;stroke-dasharray:7 5}#head "
      "path{fill:var(--bad)}svg .missing{fill:var(--bad);font-weight:600}svg .gap{opacity:.7}\n"
      "table{border-collapse:collapse;font:13px "
      "ui-monospace,monospace}td,th{text-align:left;padding:"
      ".1em .8em .1em 0}tr.on{outline:2px solid var(--ink)}.small{font-size:.85em;opacity:.8}\n"
      "</style>";
  static constexpr const char* kScript =
      "<script>\n"
      "const events=[...document.querySelectorAll('g.event')];let on=-1;\n"
      "function pick(k){if(k<0||k>=events.length)return;\n"
      " for(const e of document.querySelectorAll('.on'))e.classList.remove('on');\n"
      " on=k;const e=events[k];e.classList.add('on');\n"
      " document.getElementById('detail').textContent=e.querySelector('title').textContent;\n"
      " const row=document.querySelector('tr[data-event=\"'+e.dataset.event+'\"]');\n"
      " if(row)row.classList.add('on');\n"
      " const box=document.getElementById('scroll'),at=e.getBBox().x;\n"
      " if(at<box.scrollLeft+250||at>box.scrollLeft+box.clientWidth-120)box.scrollLeft=at-350;}\n"
      "events.forEach((e,k)=>e.addEventListener('click',()=>pick(k)));\n"
      "document.addEventListener('keydown',e=>{if(e.key==='ArrowRight'){pick(on+1);e."
      "preventDefault();}"
      "\n if(e.key==='ArrowLeft'){pick(Math.max(on-1,0));e.preventDefault();}});\n"
      "const "
      "second=events.findIndex(e=>e.classList.contains('second'));if(second>=0)pick(second);\n"
      "</script>";

  const judge::Finding& f_;
  const judge::Trace& t_;
  const CheckPageWords& w_;
  const judge::Site none_;
  bool found_[2] = {};       // access 0 is the later one
  uint64_t number_[2] = {};  // of their events
  uint64_t first_ = 0, second_ = 0, end_ = 0;
  std::vector<judge::Trace::Warp> rows_;
  std::vector<Shown> shown_;
};

}  // namespace

std::string CheckPage(const judge::Finding& finding, const judge::Trace& trace,
                      const CheckPageWords& words) {
  return Page(finding, trace, words).Html();
}

}  // namespace tilec::tools
