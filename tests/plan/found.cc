// Reads a plan's text with no help from the parser that the compiler uses, and looks for each line
// in the warp program: roles with quotas, rings with barriers, counts and bytes, waits and releases
// in the role that is to make them, buffers with addresses, products, copies, layouts.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "support/lines.h"
#include "tests/plan/compiled.h"

namespace tilec {
namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

class Finder {
 public:
  Finder(const std::string& plan, const ir::Function& fn) : text_(plan), fn_(fn) {
    for (OpId id : ir::OpsInOrder(fn))
      if (fn.ops[id].kind == OpKind::kMbarInit) inits_.push_back(id);
  }

  std::vector<std::string> Run() {
    for (const TextLine& line : SplitLines(text_, -1)) {
      fields_.clear();
      for (const TextWord& word : line.words)
        if (const auto pair = SplitKeyValue(word))
          fields_[std::string(pair->key)] = std::string(pair->value.text);
      const std::string key(line.words[0].text);
      std::string why;
      if (key == "cta")
        Cta(&why);
      else if (key == "role")
        Role(&why);
      else if (key == "ring")
        Ring(&why);
      else if (key == "accumulator")
        Accumulator(&why);
      else if (key == "token")
        Barrier(Number("arrivals"), Number("slots", 0), &why);
      else if (key == "pass")
        Pass(&why);
      else if (key == "exchange")
        Barrier(Number("arrivals"), Number("barriers"), &why);
      else if (key == "buffer")
        Buffer(&why);
      else if (key == "await")
        Slot(OpKind::kMbarWait, 0, &why);
      else if (key == "release")
        Slot(OpKind::kMbarArrive, 1, &why);
      else if (key == "product")
        Product(&why);
      else if (key == "load" && Text("tma") == "yes")
        Any(OpKind::kTmaLoad, &why);
      else if (key == "store" && Text("tma") == "yes")
        Any(OpKind::kTmaStore, &why);
      else if (key == "chain")
        Chain(&why);
      else if (key == "layout")
        Layout(&why);
      if (!why.empty()) missing_.push_back(fmt::format("{}: {}", line.text, why));
    }
    return missing_;
  }

 private:
  std::string Text(const std::string& name) const {
    const auto it = fields_.find(name);
    return it == fields_.end() ? "" : it->second;
  }
  int64_t Number(const std::string& name, int64_t absent = 0) const {
    return ParseInteger(Text(name)).value_or(absent);
  }
  void Expect(bool good, const std::string& what, std::string* why) {
    if (!good && why->empty()) *why = what;
  }
  bool Has(const std::function<bool(const Op&)>& test) const {
    const std::vector<OpId> all = ir::OpsInOrder(fn_);
    return std::any_of(all.begin(), all.end(), [&](OpId id) { return test(fn_.ops[id]); });
  }
  void Any(OpKind kind, std::string* why) {
    Expect(Has([&](const Op& op) { return op.kind == kind; }), "no such copy", why);
  }

  void Cta(std::string* why) {
    Expect(fn_.launch.warps == Number("warps", 4), fmt::format("{} warps", fn_.launch.warps), why);
    Expect(fn_.launch.cluster == Number("cluster", 1), "another cluster", why);
    if (Text("copy-barrier") == "yes") ++next_init_;
  }
  void Role(std::string* why) {
    const bool found = Has([&](const Op& op) {
      return op.kind == OpKind::kRole && op.s("name") == Text("name") &&
             op.i("first_warp") == Number("first-warp") && op.i("warps") == Number("warps", 4) &&
             op.i("regs") == Number("registers");
    });
    Expect(found, "no role has this name, these warps and this quota", why);
    if (Text("kind") == "compute") compute_[Number("index")] = Text("name");
    if (Text("kind").empty()) compute_[0] = Text("name");
    if (Text("kind") == "issuer") issuer_ = Text("name");
  }

  // The next barrier that the program sets up: plans list them in that order.
  ValueId Barrier(int64_t arrivals, int64_t slots, std::string* why) {
    if (next_init_ >= inits_.size()) return Expect(false, "no barrier is left", why), ValueId();
    const Op& init = fn_.ops[inits_[next_init_++]];
    Expect(init.i("count") == arrivals, fmt::format("{} arrivals", init.i("count")), why);
    Expect(fn_.type(init.operands[0]).depth == slots,
           fmt::format("{} slots", fn_.type(init.operands[0]).depth), why);
    return init.operands[0];
  }
  void Ring(std::string* why) {
    const int64_t slots = Number("slots", 1);
    const ValueId full = Barrier(1, slots, why), empty = Barrier(Number("arrivals"), slots, why);
    rings_.push_back({full, empty});
    Expect(Has([&](const Op& op) {
             return op.kind == OpKind::kMbarExpect && op.operands[0] == full &&
                    op.i("bytes") == Number("bytes") * (op.i("leader") ? 2 : 1);
           }),
           "nobody expects these bytes at its full barrier", why);
  }
  // Its slots, as far apart as the product has columns, follow what the issuer and the threads do
  // there; the issuer fills them and commits, as many warps as the plan says empty them.
  void Accumulator(std::string* why) {
    const int64_t slots = Number("slots", 1);
    const ValueId full = Barrier(1, slots, why), empty = Barrier(Number("arrivals"), slots, why);
    if (!why->empty()) return;
    const auto at = [](OpKind kind, ValueId barrier) {
      return [=](const Op& op) { return op.kind == kind && op.operands[0] == barrier; };
    };
    Expect(InRole(issuer_, at(OpKind::kMbarWait, empty)), "the issuer does not await it", why);
    Expect(InRole(issuer_, at(OpKind::kTcCommit, full)), "the issuer does not commit to it", why);
    Expect(Has(at(OpKind::kMbarWait, full)), "no thread awaits it", why);
    Expect(Has(at(OpKind::kMbarArrive, empty)), "no thread releases it", why);
  }
  void Pass(std::string* why) {
    Barrier(Number("arrivals"), Number("slots", 1), why);
    Barrier(Number("arrivals"), Number("slots", 1), why);
  }
  void Buffer(std::string* why) {
    Expect(Has([&](const Op& op) {
             return op.kind == OpKind::kSmemAlloc && op.i("offset") == Number("at") &&
                    ir::Spelling(fn_.type(op.results[0]).dtype) ==
                        (Text("dtype").empty() ? "f32" : Text("dtype"));
           }),
           "no buffer of this type lies there", why);
  }

  // In the role that the line names, an op on the full (0) or empty (1) barrier of every ring.
  void Slot(OpKind kind, int side, std::string* why) {
    const std::string rings = Replace(Text("rings"));  // words are parts of it
    for (const TextLine& part : SplitLines(rings, -1))
      for (const TextWord& word : part.words) {
        const auto ring = static_cast<size_t>(ParseInteger(word.text).value_or(-1));
        if (ring >= rings_.size()) return Expect(false, "there is no such ring", why);
        const ValueId barrier = side == 0 ? rings_[ring].first : rings_[ring].second;
        Expect(InRole(issuer_.empty() ? compute_[Number("role")] : issuer_,
                      [&](const Op& op) {
                        // Products that complete at a barrier release what they read.
                        const bool commit =
                            kind == OpKind::kMbarArrive && op.kind == OpKind::kTcCommit;
                        return (op.kind == kind || commit) && op.operands[0] == barrier;
                      }),
               "the role does not do that", why);
      }
  }
  static std::string Replace(std::string text) {
    std::replace(text.begin(), text.end(), ',', ' ');
    return text;
  }
  bool InRole(const std::string& name, const std::function<bool(const Op&)>& test) const {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kRole && fn_.ops[id].s("name") == name)
        return InBlock(fn_.ops[id].regions[0], test);
    return false;
  }
  bool InBlock(ir::BlockId block, const std::function<bool(const Op&)>& test) const {
    for (OpId id : fn_.blocks[block].ops) {
      if (test(fn_.ops[id])) return true;
      for (ir::BlockId region : fn_.ops[id].regions)
        if (InBlock(region, test)) return true;
    }
    return false;
  }

  void Product(std::string* why) {
    if (Text("unit") == "tcgen05")
      return Expect(Has([](const Op& op) { return op.kind == OpKind::kTcMma; }),
                    "no product of this kind", why);
    const bool tensor = Text("unit") != "none";
    Expect(Has([&](const Op& op) {
             return op.kind == (tensor ? OpKind::kMma : OpKind::kSimtDot) &&
                    (!tensor || op.s("split") == (Text("split").empty() ? "none" : Text("split")));
           }),
           "no product of this kind", why);
  }
  void Chain(std::string* why) {
    Expect(InRole(compute_[Number("role")],
                  [&](const Op& op) { return op.kind == OpKind::kFor && op.attr("some"); }),
           "no loop of the role carries a product in flight", why);
  }
  void Layout(std::string* why) {
    std::string text = Text("is");
    const size_t colon = text.find(':');
    for (size_t at = text.find(")r("); at != std::string::npos; at = text.find(")r(", at + 4))
      text.replace(at, 3, ") r(");
    std::replace(text.begin(), text.end(), ',', ' ');
    const auto layout = ir::ParseLayout(
        text.substr(colon + 1), static_cast<int>(ParseInteger(text.substr(0, colon)).value_or(0)));
    const bool found =
        layout && std::any_of(fn_.layouts.begin(), fn_.layouts.end(), [&](const ir::Layout& own) {
          return own == *layout || own.reg == layout->reg;
        });
    Expect(found, "no tile of the program is laid out so", why);
  }

  const std::string text_;
  const ir::Function& fn_;
  std::map<std::string, std::string> fields_;
  std::vector<OpId> inits_;
  size_t next_init_ = 0;
  std::vector<std::pair<ValueId, ValueId>> rings_;
  std::map<int64_t, std::string> compute_;
  std::string issuer_;  // the role that issues all products, if there is one
  std::vector<std::string> missing_;
};

}  // namespace

std::vector<std::string> NotFound(const std::string& plan, const ir::Function& program) {
  return Finder(plan, program).Run();
}

}  // namespace tilec
