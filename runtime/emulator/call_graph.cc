// Tarjan's strongly connected components, without recursion of ours: a text may nest calls as
// deeply as it likes. Components come out with the called ones first.
//
// A call through an address may reach every function of the module: then all are taken along, and
// all count as recursive.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/call_graph.h"

#include <algorithm>

namespace tilec::runtime::emulator {
namespace {

struct Edges {
  std::vector<int32_t> to;  // numbers of functions with a body
  bool anywhere = false;    // calls an address
};

Edges CallsOf(const PtxModule& m, const Entry& body) {
  Edges edges;
  for (const Statement& s : body.body) {
    if (s.opcode != "call" || s.operands.empty()) continue;
    const Operand& target = s.operands[0];
    if (target.kind != Operand::Kind::kFunction)
      edges.anywhere = true;
    else if (m.function_names[static_cast<size_t>(target.index)].body >= 0)
      edges.to.push_back(target.index);
  }
  std::sort(edges.to.begin(), edges.to.end());
  edges.to.erase(std::unique(edges.to.begin(), edges.to.end()), edges.to.end());
  return edges;
}

class Finder {
 public:
  Finder(const PtxModule& m, CallGraph* out) : m_(m), out_(*out), nodes_(m.function_names.size()) {}

  void Visit(int32_t root) {
    if (nodes_[static_cast<size_t>(root)].index >= 0) return;
    Enter(root);
    while (!work_.empty()) {
      Node& n = At(work_.back());
      if (n.next < n.edges.to.size()) {
        const int32_t to = n.edges.to[n.next++];
        Node& t = At(to);
        if (t.index < 0)
          Enter(to);
        else if (t.on_stack)
          n.low = std::min(n.low, t.index);
        continue;
      }
      const int32_t done = work_.back();
      work_.pop_back();
      if (!work_.empty()) At(work_.back()).low = std::min(At(work_.back()).low, n.low);
      if (n.low == n.index) Component(done);
    }
  }
  bool anywhere() const { return anywhere_; }
  // Stack below a function, its own frame included.
  uint64_t Need(int32_t f) { return At(f).need; }

 private:
  struct Node {
    int32_t index = -1, low = 0;
    bool on_stack = false;
    size_t next = 0;
    Edges edges;
    uint64_t need = 0;
  };
  Node& At(int32_t f) { return nodes_[static_cast<size_t>(f)]; }
  const Entry& BodyOf(int32_t f) const {
    return m_.functions[static_cast<size_t>(m_.function_names[static_cast<size_t>(f)].body)];
  }

  void Enter(int32_t f) {
    Node& n = At(f);
    n.index = n.low = count_++;
    n.on_stack = true;
    n.edges = CallsOf(m_, BodyOf(f));
    anywhere_ = anywhere_ || n.edges.anywhere;
    stack_.push_back(f);
    work_.push_back(f);
  }

  void Component(int32_t root) {
    std::vector<int32_t> members;
    int32_t f = -1;
    do {
      f = stack_.back();
      stack_.pop_back();
      At(f).on_stack = false;
      members.push_back(f);
    } while (f != root);
    const auto& own = At(root).edges.to;
    const bool recursive = members.size() > 1 || std::binary_search(own.begin(), own.end(), root);
    uint64_t need = 0, frames = 0;
    for (int32_t member : members) {
      frames += (BodyOf(member).local_bytes + 15) / 16 * 16;
      for (int32_t to : At(member).edges.to) need = std::max(need, At(to).need);
      out_.order.push_back(
          {member, m_.function_names[static_cast<size_t>(member)].body, recursive});
    }
    for (int32_t member : members)
      At(member).need = need + frames + (recursive ? kRecursionStack : 0);
  }

  const PtxModule& m_;
  CallGraph& out_;
  std::vector<Node> nodes_;
  std::vector<int32_t> stack_, work_;
  int32_t count_ = 0;
  bool anywhere_ = false;
};

}  // namespace

CallGraph FindCalls(const PtxModule& m, const Entry& entry) {
  CallGraph graph;
  Finder finder(m, &graph);
  const Edges first = CallsOf(m, entry);
  for (int32_t f : first.to) finder.Visit(f);
  for (int32_t f : first.to) graph.stack_bytes = std::max(graph.stack_bytes, finder.Need(f));
  if (!first.anywhere && !finder.anywhere()) return graph;
  for (size_t f = 0; f < m.function_names.size(); ++f)
    if (m.function_names[f].body >= 0) finder.Visit(static_cast<int32_t>(f));
  uint64_t all = 0;
  for (CallGraph::Node& n : graph.order) {
    n.recursive = true;
    all = std::max(all, finder.Need(n.number));
  }
  graph.stack_bytes = std::max(graph.stack_bytes, all) + kRecursionStack;
  return graph;
}

}  // namespace tilec::runtime::emulator
