// The dependence graph in layers: placed by order of dependence, ordered to avoid crossings.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "explain/draw.h"
#include "explain/internal.h"

namespace tilec::explain {

namespace {

using scheduler::EdgeKind;
using scheduler::GraphEdge;

constexpr double kHeight = 36, kRowGap = 18, kColumnGap = 52, kThrough = 10;  // kThrough: an edge
constexpr double kGraphMargin = 16, kGraphLetter = 7.4;
constexpr int kSweeps = 24;

// A box, or a place where an edge passes through a layer.
struct Cell {
  int op = -1;
  int layer = 0;
  double y = 0;                    // of its middle
  std::vector<int> before, after;  // cells of the layers beside
  double Height() const { return op >= 0 ? kHeight : kThrough; }
};

const char* ClassOf(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kRegister: return "register";
    case EdgeKind::kSmem: return "smem";
    case EdgeKind::kTmem: return "tmem";
    case EdgeKind::kOrder: return "order";
  }
  return "";
}

class GraphDrawing {
 public:
  explicit GraphDrawing(const Explanation& e) : e_(e), n_(static_cast<int>(e.graph.ops.size())) {}

  Drawing Run() {
    Layers();
    Cells();
    Order();
    Rows();
    Columns();
    for (int i = 0; i < static_cast<int>(e_.graph.edges.size()); ++i) Arrow(i);
    for (int v = 0; v < n_; ++v) Box(v);
    return {std::move(out_), static_cast<int>(width_ + 2 * kGraphMargin),
            static_cast<int>(bottom_ + kGraphMargin)};
  }

 private:
  // The longest way from a source; then sources close to their first reader.
  void Layers() {
    layer_.assign(n_, 0);
    for (int round = 0; round < n_; ++round)
      for (const GraphEdge& edge : e_.graph.edges)
        if (edge.distance == 0 && edge.from != edge.to)
          layer_[edge.to] = std::max(layer_[edge.to], layer_[edge.from] + 1);
    for (int v = 0; v < n_; ++v) {
      int least = INT32_MAX;
      bool source = true;
      for (const GraphEdge& edge : e_.graph.edges) {
        if (edge.distance > 0 || edge.from == edge.to) continue;
        if (edge.to == v) source = false;
        if (edge.from == v) least = std::min(least, layer_[edge.to] - 1);
      }
      if (source && least != INT32_MAX) layer_[v] = least;
    }
  }

  void Cells() {
    for (int v = 0; v < n_; ++v) cells_.push_back({v, layer_[v], 0, {}, {}});
    for (int i = 0; i < static_cast<int>(e_.graph.edges.size()); ++i) {
      const GraphEdge& edge = e_.graph.edges[i];
      if (edge.distance > 0 || layer_[edge.to] <= layer_[edge.from]) continue;
      int last = edge.from;
      std::vector<int>& way = ways_[i];
      for (int layer = layer_[edge.from] + 1; layer < layer_[edge.to]; ++layer) {
        const int cell = static_cast<int>(cells_.size());
        cells_.push_back({-1, layer, 0, {}, {}});
        Join(last, cell);
        way.push_back(cell);
        last = cell;
      }
      Join(last, edge.to);
    }
    for (int c = 0; c < static_cast<int>(cells_.size()); ++c) {
      if (cells_[c].layer >= static_cast<int>(rows_.size())) rows_.resize(cells_[c].layer + 1);
      rows_[cells_[c].layer].push_back(c);
    }
    // Slices of one kind side by side to start with.
    for (std::vector<int>& row : rows_)
      std::stable_sort(row.begin(), row.end(), [&](int a, int b) { return Start(a) < Start(b); });
  }

  void Join(int a, int b) {
    cells_[a].after.push_back(b);
    cells_[b].before.push_back(a);
  }

  std::pair<int, int> Start(int cell) const {
    const int op = cells_[cell].op;
    return op < 0 ? std::pair(1 << 20, 0) : std::pair(e_.graph.ops[op].slice, e_.ops[op].role);
  }

  // Cells at the average place of their neighbours, from left and from right in turns; the order
  // with the fewest crossings stays.
  void Order() {
    std::vector<std::vector<int>> best = rows_;
    int fewest = Crossings();
    for (int sweep = 0; sweep < kSweeps && fewest > 0; ++sweep) {
      const bool right = sweep % 2 == 0;
      for (size_t k = 1; k < rows_.size(); ++k) {
        const size_t layer = right ? k : rows_.size() - 1 - k;
        const std::vector<int>& beside = rows_[right ? layer - 1 : layer + 1];
        std::map<int, double> place;
        for (size_t i = 0; i < beside.size(); ++i) place[beside[i]] = static_cast<double>(i);
        std::map<int, double> wish;
        for (size_t i = 0; i < rows_[layer].size(); ++i) {
          const int c = rows_[layer][i];
          const std::vector<int>& near = right ? cells_[c].before : cells_[c].after;
          double sum = 0;
          for (int other : near) sum += place[other];
          wish[c] = near.empty() ? static_cast<double>(i) : sum / static_cast<double>(near.size());
        }
        std::stable_sort(rows_[layer].begin(), rows_[layer].end(),
                         [&](int a, int b) { return wish[a] < wish[b]; });
      }
      const int crossings = Crossings();
      if (crossings < fewest) {
        fewest = crossings;
        best = rows_;
      }
    }
    rows_ = std::move(best);
  }

  int Crossings() const {
    int count = 0;
    for (size_t layer = 0; layer + 1 < rows_.size(); ++layer) {
      std::map<int, int> place;
      for (size_t i = 0; i < rows_[layer + 1].size(); ++i)
        place[rows_[layer + 1][i]] = static_cast<int>(i);
      std::vector<int> ends;  // in the order of their begins
      for (int c : rows_[layer]) {
        std::vector<int> mine;
        for (int other : cells_[c].after) mine.push_back(place[other]);
        std::sort(mine.begin(), mine.end());
        for (int end : mine)
          count += static_cast<int>(
              std::count_if(ends.begin(), ends.end(), [&](int e) { return e > end; }));
        ends.insert(ends.end(), mine.begin(), mine.end());
      }
    }
    return count;
  }

  // Heights: towards the average of the neighbours, never closer than a gap.
  void Rows() {
    for (std::vector<int>& row : rows_) {
      double y = 0;
      for (int c : row) {
        cells_[c].y = y + cells_[c].Height() / 2;
        y += cells_[c].Height() + kRowGap;
      }
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep)
      for (size_t k = 0; k < rows_.size(); ++k)
        Settle(rows_[sweep % 2 == 0 ? k : rows_.size() - 1 - k]);
    double top = 1e9;
    for (const Cell& cell : cells_) top = std::min(top, cell.y - cell.Height() / 2);
    for (Cell& cell : cells_) {
      cell.y += kGraphMargin + 14 - top;  // room for loops above the boxes
      bottom_ = std::max(bottom_, cell.y + cell.Height() / 2);
    }
  }

  void Settle(const std::vector<int>& row) {
    std::vector<double> wish;
    for (int c : row) {
      double sum = 0;
      int count = 0;
      for (const std::vector<int>* near : {&cells_[c].before, &cells_[c].after})
        for (int other : *near) {
          sum += cells_[other].y;
          ++count;
        }
      wish.push_back(count == 0 ? cells_[c].y : sum / count);
    }
    // Groups that would touch share their average wish.
    struct Group {
      size_t first, last;
      double shift;  // of the first cell's place
      double size;
    };
    std::vector<double> offset(row.size(), 0);
    std::vector<Group> groups;
    for (size_t i = 0; i < row.size(); ++i) {
      groups.push_back({i, i, wish[i], 1});
      while (groups.size() > 1) {
        Group& b = groups.back();
        Group& a = groups[groups.size() - 2];
        const double gap = (cells_[row[a.last]].Height() + cells_[row[b.first]].Height()) / 2 +
                           kRowGap + offset[a.last];
        if (a.shift + gap <= b.shift) break;
        for (size_t j = b.first; j <= b.last; ++j) offset[j] += gap;
        a.shift = (a.shift * a.size + (b.shift - gap) * b.size) / (a.size + b.size);
        a.size += b.size;
        a.last = b.last;
        groups.pop_back();
      }
    }
    for (const Group& group : groups)
      for (size_t j = group.first; j <= group.last; ++j) cells_[row[j]].y = group.shift + offset[j];
  }

  double Width(int op) const {
    return std::max<double>(76,
                            kGraphLetter * static_cast<double>(e_.graph.ops[op].name.size()) + 22);
  }

  void Columns() {
    double x = kGraphMargin;
    for (const std::vector<int>& row : rows_) {
      double width = 0;
      for (int c : row)
        if (cells_[c].op >= 0) width = std::max(width, Width(cells_[c].op));
      left_.push_back(x);
      column_.push_back(width);
      x += width + kColumnGap;
    }
    width_ = rows_.empty() ? 0 : x - kColumnGap - kGraphMargin;
  }

  double Left(int op) const { return left_[layer_[op]] + (column_[layer_[op]] - Width(op)) / 2; }
  double Right(int op) const { return Left(op) + Width(op); }
  double Y(int op) const { return cells_[op].y; }

  static std::string Curve(double x1, double y1, double x2, double y2) {
    const double bend = (x2 - x1) / 2;
    return fmt::format("C{} {} {} {} {} {}", Px(x1 + bend), Px(y1), Px(x2 - bend), Px(y2), Px(x2),
                       Px(y2));
  }

  std::string Path(int i) {
    const GraphEdge& edge = e_.graph.edges[i];
    const double tip = 7;  // of the arrow
    if (edge.from == edge.to) {
      const double x = Right(edge.from) - 26, y = Y(edge.from) - kHeight / 2;
      return fmt::format("M{} {}C{} {} {} {} {} {}", Px(x), Px(y), Px(x - 4), Px(y - 22),
                         Px(x + 22), Px(y - 22), Px(x + 16), Px(y - tip));
    }
    if (edge.distance == 0 && layer_[edge.to] > layer_[edge.from]) {
      double x = Right(edge.from), y = Y(edge.from);
      std::string path = fmt::format("M{} {}", Px(x), Px(y));
      for (int cell : ways_[i]) {
        const int layer = cells_[cell].layer;
        path += Curve(x, y, left_[layer], cells_[cell].y);
        x = left_[layer] + column_[layer];
        y = cells_[cell].y;
        path += fmt::format("H{}", Px(x));
      }
      return path + Curve(x, y, Left(edge.to) - tip, Y(edge.to));
    }
    // Back to an earlier layer: below.
    const double x1 = (Left(edge.from) + Right(edge.from)) / 2 + 10;
    const double x2 = (Left(edge.to) + Right(edge.to)) / 2 - 10;
    const double y1 = Y(edge.from) + kHeight / 2, y2 = Y(edge.to) + kHeight / 2 + tip;
    const double low = std::max(y1, y2) + 34 + 0.07 * std::abs(x1 - x2);
    bottom_ = std::max(bottom_, std::max(y1, y2) + 0.8 * (low - std::max(y1, y2)));
    return fmt::format("M{} {}C{} {} {} {} {} {}", Px(x1), Px(y1), Px(x1), Px(low), Px(x2), Px(low),
                       Px(x2), Px(y2));
  }

  // The head as a small triangle of its own: markers do not follow a theme everywhere.
  void Arrow(int i) {
    const GraphEdge& edge = e_.graph.edges[i];
    const std::string path = Path(i);
    const std::string classes =
        fmt::format("{}{}{}", ClassOf(edge.kind), edge.distance > 0 ? " carried" : "",
                    e_.edges[i].crosses ? " cross" : "");
    out_ += fmt::format(
        "<g class=\"arrow\" data-edge=\"{}\" data-from=\"{}\" data-to=\"{}\"><title>{}"
        "</title><path class=\"edge {}\" d=\"{}\"/>",
        i, edge.from, edge.to, Xml(Describe(i)), classes, path);
    double x = Left(edge.to), y = Y(edge.to);
    const char* shape = "l-8 -4v8z";
    if (edge.from == edge.to) {
      x = Right(edge.to) - 10, y -= kHeight / 2;
      shape = "l-4 -8h8z";
    } else if (edge.distance > 0 || layer_[edge.to] <= layer_[edge.from]) {
      x = (Left(edge.to) + Right(edge.to)) / 2 - 10, y += kHeight / 2;
      shape = "l-4 8h8z";
    }
    out_ += fmt::format("<path class=\"head {}\" d=\"M{} {}{}\"/></g>\n", ClassOf(edge.kind), Px(x),
                        Px(y), shape);
  }

  std::string Describe(int i) const {
    const GraphEdge& edge = e_.graph.edges[i];
    const EdgeFacts& facts = e_.edges[i];
    std::string text =
        fmt::format("{} → {}: {}, {}", e_.graph.ops[edge.from].name, e_.graph.ops[edge.to].name,
                    ClassOf(edge.kind), Count(edge.delay, "cycle"));
    if (facts.transfer > 0) text += fmt::format(" and {} to hand over", facts.transfer);
    if (edge.distance > 0) text += fmt::format(", {} later", Count(edge.distance, "iteration"));
    return text + fmt::format(", slack {}", facts.slack);
  }

  void Box(int v) {
    const scheduler::GraphOp& op = e_.graph.ops[v];
    const OpFacts& facts = e_.ops[v];
    const double y = Y(v) - kHeight / 2, middle = (Left(v) + Right(v)) / 2;
    out_ += fmt::format(
        "<g class=\"node r{}\" data-op=\"{}\"><title>{}</title><rect x=\"{}\" y=\"{}\" "
        "width=\"{}\" "
        "height=\"{}\" rx=\"6\"/><text class=\"name\" x=\"{}\" y=\"{}\" "
        "text-anchor=\"middle\">{}</text><text class=\"small\" x=\"{}\" y=\"{}\" "
        "text-anchor=\"middle\">{}</text></g>\n",
        facts.role % kRoleColours, v,
        Xml(fmt::format("{}: {} in {}, slot {}, stage {}", op.name, op.kind,
                        e_.schedule.roles[facts.role].name, facts.slot, facts.stage)),
        Px(Left(v)), Px(y), Px(Width(v)), Px(kHeight), Px(middle), Px(y + 15), Xml(op.name),
        Px(middle), Px(y + 28), fmt::format("{} s{}", facts.slot, facts.stage));
  }

  const Explanation& e_;
  const int n_;
  std::vector<int> layer_;                // by op
  std::vector<Cell> cells_;               // ops first
  std::map<int, std::vector<int>> ways_;  // by edge: cells it passes
  std::vector<std::vector<int>> rows_;    // by layer: cells from above
  std::vector<double> left_, column_;     // by layer
  double width_ = 0, bottom_ = 0;
  std::string out_;
};

}  // namespace

Drawing DrawGraph(const Explanation& e) { return GraphDrawing(e).Run(); }

Drawing DrawLegend(const Explanation& e) {
  std::string out;
  double x = 10;
  const auto label = [&](const std::string& text) {
    out += fmt::format("<text class=\"ink\" x=\"{}\" y=\"16\">{}</text>\n", Px(x), Xml(text));
    x += 6.4 * static_cast<double>(text.size()) + 22;
  };
  for (size_t r = 0; r < e.schedule.roles.size(); ++r) {
    out += fmt::format(
        "<g class=\"r{}\"><rect x=\"{}\" y=\"6\" width=\"14\" height=\"12\" rx=\"3\"/></g>\n",
        r % kRoleColours, Px(x));
    x += 20;
    label(e.schedule.roles[r].name);
  }
  struct Kind {
    const char *classes, *name;
    bool shown;
  };
  const auto any = [&](auto test) {
    for (size_t i = 0; i < e.graph.edges.size(); ++i)
      if (test(e.graph.edges[i], e.edges[i])) return true;
    return false;
  };
  using Edge = const GraphEdge&;
  using Facts = const EdgeFacts&;
  const Kind kinds[] = {
      {"register", "registers", any([](Edge g, Facts) { return g.kind == EdgeKind::kRegister; })},
      {"smem", "shared memory", any([](Edge g, Facts) { return g.kind == EdgeKind::kSmem; })},
      {"tmem", "tensor memory", any([](Edge g, Facts) { return g.kind == EdgeKind::kTmem; })},
      {"order", "order only", any([](Edge g, Facts) { return g.kind == EdgeKind::kOrder; })},
      {"carried", "to a later iteration", any([](Edge g, Facts) { return g.distance > 0; })},
      {"cross", "to another role", any([](Edge, Facts f) { return f.crosses; })},
  };
  for (const Kind& kind : kinds) {
    if (!kind.shown) continue;
    out += fmt::format("<path class=\"edge {}\" d=\"M{} 12h26\"/>\n", kind.classes, Px(x));
    x += 32;
    label(kind.name);
  }
  return {std::move(out), static_cast<int>(x), 24};
}

}  // namespace tilec::explain
