// SPDX-License-Identifier: Apache-2.0
#include "explain/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "explain/internal.h"
#include "ir/text.h"
#include "ir/warp_check/check.h"
#include "ir/warp_check/program.h"

namespace tilec::explain {

namespace {

using ir::BlockId;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr const char* kOrdered = "what it orders is ordered already";
constexpr size_t kMostNames = 8;  // of a run of elementwise ops

class Reader {
 public:
  Reader(const ir::Function& fn, const SourceMap& sources, const ir::WarpCheckStats& stats)
      : fn_(fn), sources_(sources), stats_(stats), program_(fn) {
    for (const ir::warp_check::RoleInfo& role : program_.roles)
      if (role.op.valid() || program_.roles.size() == 1)  // the beginning contains the roles
        ir::warp_check::WalkOps(fn, role.body, [&](OpId id) { Note(id, role.name); });
  }

  std::vector<RoleProgram> Run() {
    std::vector<RoleProgram> all;
    for (const ir::warp_check::RoleInfo& role : program_.roles) {
      RoleProgram p;
      p.name = role.name;
      p.warps = role.warps;
      p.registers = role.op.valid() ? fn_.ops[role.op].i("regs") : 0;
      out_ = &p;
      Block(role.body, 0);
      Flush();
      if (!p.lines.empty()) all.push_back(std::move(p));
    }
    return all;
  }

 private:
  // Where an op stands.
  struct Site {
    const std::vector<OpId>& ops;
    size_t index;
    OpId id;
    const Op& op;
    int depth;
  };

  // Who does what to a barrier.
  struct Users {
    std::vector<std::string> wait, fill, arrive;  // roles
  };

  static void AddName(std::vector<std::string>* names, const std::string& name) {
    if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
  }

  void Note(OpId id, const std::string& role) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kMbarWait) AddName(&users_[op.operands[0]].wait, role);
    if (op.kind == OpKind::kMbarArrive || op.kind == OpKind::kTcCommit)
      AddName(&users_[op.operands[0]].arrive, role);
    if (op.kind == OpKind::kMbarExpect) AddName(&users_[op.operands[0]].fill, role);
    if (op.kind == OpKind::kTmaLoad) {
      AddName(&users_[op.operands[1]].fill, role);
      AddName(&held_[op.operands[1]], Buffer(op.operands[0]));
    }
    if (op.kind == OpKind::kCpLoad) copied_.push_back(op.operands[1]);
    if (op.kind == OpKind::kCpArrive) {
      AddName(&users_[op.operands[0]].fill, role);
      for (ValueId buffer : copied_) AddName(&held_[op.operands[0]], Buffer(buffer));
      copied_.clear();
    }
  }

  static std::string List(const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
  }

  std::string Barrier(ValueId v) const {
    const auto at = program_.first_slot.find(v);
    if (at == program_.first_slot.end()) return "a barrier";
    const std::string name = program_.BarrierName(at->second);
    return name.substr(0, name.find(", slot "));
  }

  std::string Slots(ValueId v) const {
    const int64_t depth = fn_.type(v).depth;
    return depth > 1 ? fmt::format(", {} slots", depth) : "";
  }

  std::string Buffer(ValueId v) const {
    const auto at = program_.buffers.find(v);
    return at == program_.buffers.end() || at->second.name.empty() ? "a buffer" : at->second.name;
  }

  std::string Shape(ValueId v) const {
    return fmt::format("[{}]", fmt::join(fn_.type(v).shape, ", "));
  }

  std::string Operand(ValueId v) const {
    return program_.buffers.count(v) > 0 ? Buffer(v) : "registers " + Shape(v);
  }

  // Runs of ops on tiles become one line.
  void Compute(int depth, const Op& op) {
    if (run_.empty()) run_at_ = op.at;
    run_depth_ = depth;
    ++run_count_;
    AddName(&run_, ir::Info(op.kind).mnemonic);
  }
  void Flush() {
    if (run_.empty()) return;
    std::string names;
    for (size_t i = 0; i < run_.size() && i < kMostNames; ++i) names += " " + run_[i];
    if (run_.size() > kMostNames) names += " …";
    out_->lines.push_back({run_depth_, 1,
                           fmt::format("{} on tiles:{}", Count(run_count_, "op"), names), "",
                           PlaceOf(run_at_, sources_)});
    run_.clear();
    run_count_ = 0;
  }

  ir::WarpOpUse Use(OpId id) const {
    const size_t i = static_cast<size_t>(id.index);
    return i < stats_.uses.size() ? stats_.uses[i] : ir::WarpOpUse{};
  }

  // The reason; or what the verifier found in its place.
  std::string Checked(OpId id, const std::string& reason, const char* idle) const {
    return Use(id).needed ? reason : fmt::format("{} ({})", reason, idle);
  }

  void Block(BlockId block, int depth) {
    const std::vector<OpId>& ops = fn_.blocks[block].ops;
    for (size_t i = 0; i < ops.size(); ++i) Visit(ops, i, depth);
    Flush();
  }

  // A head and what is inside; nothing where there are only scalars inside.
  void Nested(const std::string& head, const Site& s) {
    Flush();
    const size_t begin = out_->lines.size();
    Say(s, head);
    for (size_t r = 0; r < s.op.regions.size(); ++r) {
      const size_t part = out_->lines.size();
      if (r > 0) Say(s, "else");
      const size_t inside = out_->lines.size();
      Block(s.op.regions[r], s.depth + 1);
      if (r > 0 && out_->lines.size() == inside) out_->lines.resize(part);
    }
    if (out_->lines.size() == begin + 1) out_->lines.pop_back();
  }

  // The op behind or before this one that touches shared memory.
  const Op* Beside(const std::vector<OpId>& ops, size_t i, int step) const {
    for (size_t j = i + static_cast<size_t>(step); j < ops.size(); j += static_cast<size_t>(step)) {
      const Op& op = fn_.ops[ops[j]];
      if (op.kind == OpKind::kCtaSync) return nullptr;
      if (op.kind == OpKind::kSmemStore || op.kind == OpKind::kSmemLoad ||
          op.kind == OpKind::kSmemZero)
        return &op;
    }
    return nullptr;
  }

  std::string SyncReason(const std::vector<OpId>& ops, size_t i) const {
    if (fn_.ops[ops[i]].block == fn_.body && program_.slots() > 0 && !synced_)
      return "barriers are set up before anybody uses one";
    const Op* before = Beside(ops, i, -1);
    const Op* behind = Beside(ops, i, 1);
    if (before && before->kind != OpKind::kSmemLoad)
      return fmt::format("{} is whole before anybody reads it", Buffer(WrittenBy(*before)));
    if (behind && behind->kind != OpKind::kSmemLoad)
      return fmt::format("everybody is done with what lay in {}", Buffer(WrittenBy(*behind)));
    return "all warps of the role meet";
  }
  static ValueId WrittenBy(const Op& op) {
    return op.kind == OpKind::kSmemStore ? op.operands[1] : op.operands[0];
  }

  void Visit(const std::vector<OpId>& ops, size_t i, int depth) {
    const Op& op = fn_.ops[ops[i]];
    // How each kind of op is told. Others are work on tiles, or scalars that are not worth a line.
    struct Row {
      OpKind kind;
      void (Reader::*tell)(const Site&);
    };
    static constexpr Row kRows[] = {
        {OpKind::kFor, &Reader::For},
        {OpKind::kWhile, &Reader::While},
        {OpKind::kIf, &Reader::If},
        {OpKind::kElect, &Reader::Elect},
        {OpKind::kRole, &Reader::Nothing},  // listed on its own
        {OpKind::kYield, &Reader::Nothing},
        {OpKind::kMmaCommit, &Reader::Nothing},
        {OpKind::kTmaCommit, &Reader::Nothing},
        {OpKind::kMbarInit, &Reader::MbarInit},
        {OpKind::kFenceMbarInit, &Reader::FenceMbarInit},
        {OpKind::kMbarWait, &Reader::MbarWait},
        {OpKind::kMbarArrive, &Reader::MbarArrive},
        {OpKind::kMbarExpect, &Reader::MbarExpect},
        {OpKind::kCtaSync, &Reader::CtaSync},
        {OpKind::kClusterSync, &Reader::ClusterSync},
        {OpKind::kWarpClusterReduce, &Reader::ClusterReduce},
        {OpKind::kFenceAsync, &Reader::FenceAsync},
        {OpKind::kTmaLoad, &Reader::TmaLoad},
        {OpKind::kCpLoad, &Reader::CpLoad},
        {OpKind::kCpArrive, &Reader::CpArrive},
        {OpKind::kTmaStore, &Reader::TmaStore},
        {OpKind::kTmaWait, &Reader::TmaWait},
        {OpKind::kMmaFence, &Reader::MmaFence},
        {OpKind::kMma, &Reader::Mma},
        {OpKind::kMmaWait, &Reader::MmaWait},
        {OpKind::kTcMma, &Reader::TcMma},
        {OpKind::kTcCommit, &Reader::TcCommit},
        {OpKind::kTcFence, &Reader::Nothing},
        {OpKind::kTmemAlloc, &Reader::TmemAlloc},
        {OpKind::kTmemFree, &Reader::TmemFree},
        {OpKind::kTmemLoad, &Reader::TmemLoad},
        {OpKind::kTmemStore, &Reader::TmemStore},
        {OpKind::kTmemScales, &Reader::TmemStore},
        {OpKind::kSmemStore, &Reader::SmemStore},
        {OpKind::kSmemZero, &Reader::SmemZero},
        {OpKind::kSmemLoad, &Reader::SmemLoad},
        {OpKind::kGLoad, &Reader::GLoad},
        {OpKind::kGStore, &Reader::GStore},
        {OpKind::kGAtomic, &Reader::GAtomic},
    };
    for (const Row& row : kRows)
      if (row.kind == op.kind) return (this->*row.tell)({ops, i, ops[i], op, depth});
    for (BlockId region : op.regions) Block(region, depth + 1);
    if (!op.results.empty() && fn_.type(op.results[0]).is_tile() &&
        fn_.type(op.results[0]).rank() > 0 && op.kind != OpKind::kConstant)
      Compute(depth, op);
  }

  // The same again adds to its line.
  void Say(const Site& s, std::string text, std::string reason = "") {
    Flush();
    if (!out_->lines.empty() && s.op.regions.empty()) {
      ProgramLine& last = out_->lines.back();
      if (last.depth == s.depth && last.text == text && last.reason == reason) {
        ++last.times;
        return;
      }
    }
    out_->lines.push_back(
        {s.depth, 1, std::move(text), std::move(reason), PlaceOf(s.op.at, sources_)});
  }

  void Nothing(const Site&) {}
  void For(const Site& s) { Nested(fmt::format("for, in steps of {}", s.op.i("step", 1)), s); }
  void While(const Site& s) { Nested("while", s); }
  void If(const Site& s) { Nested("if", s); }
  static std::string OfEachPart(const Op& op) {
    return fmt::format(" of each of {} parts of the role", op.i("parts"));
  }
  void Elect(const Site& s) {
    const bool warp = s.op.s("scope") == "warp";
    const std::string where = warp ? " of each warp" : s.op.attr("parts") ? OfEachPart(s.op) : "";
    Nested(fmt::format("one thread{}{}", where,
                       s.op.operands.empty() ? "" : ", if there is something to release"),
           s);
  }
  void MbarInit(const Site& s) {
    Say(s, fmt::format("set up {}{}", Barrier(s.op.operands[0]), Slots(s.op.operands[0])),
        fmt::format("a phase ends after {}", Count(s.op.i("count"), "arrival")));
  }
  void FenceMbarInit(const Site& s) { Say(s, "fence", "other engines see the barriers set up"); }

  void MbarWait(const Site& s) {
    const ValueId barrier = s.op.operands[0];
    const Users& users = users_[barrier];
    ++out_->waits;
    std::string reason;
    if (!users.fill.empty())
      reason = fmt::format("until `{}` has filled {}", List(users.fill), List(held_[barrier]));
    else if (!users.arrive.empty())
      reason = fmt::format("until `{}` has read what lay there", List(users.arrive));
    Say(s, "wait for " + Barrier(barrier) + Slots(barrier),
        Checked(s.id, reason, "never has to wait here"));
  }
  void MbarArrive(const Site& s) {
    const Users& users = users_[s.op.operands[0]];
    ++out_->signals;
    const std::string reason = users.wait.empty()
                                   ? std::string("a free slot")
                                   : fmt::format("`{}` may fill it again", List(users.wait));
    Say(s,
        fmt::format("arrive at {}{}", Barrier(s.op.operands[0]),
                    s.op.i("cluster", 0) ? " of all CTAs of the cluster" : ""),
        Checked(s.id, reason, "nobody comes to wait for it"));
  }
  void MbarExpect(const Site& s) {
    ++out_->signals;
    Say(s, fmt::format("expect {} bytes at {}", s.op.i("bytes"), Barrier(s.op.operands[0])),
        "it is full when they have come");
  }
  void CtaSync(const Site& s) {
    ++out_->waits;
    // The verifier takes the set-up for granted.
    const bool set_up = s.op.block == fn_.body && program_.slots() > 0 && !synced_;
    const std::string reason = SyncReason(s.ops, s.index);
    Say(s,
        s.op.attr("parts")
            ? fmt::format("the threads{} meet at a barrier of their own", OfEachPart(s.op))
            : fmt::format("meet at named barrier {}", s.op.i("id")),
        set_up ? reason : Checked(s.id, reason, kOrdered));
    synced_ = true;
  }
  void ClusterSync(const Site& s) {
    ++out_->waits;
    Say(s, "meet all CTAs of the cluster",
        synced_ ? "none ends while another may still write to it"
                : "none writes to another that is not set up");
    synced_ = true;
  }
  void ClusterReduce(const Site& s) {
    ++out_->waits;
    Say(s, fmt::format("combine {} with the other CTAs of the cluster", Shape(s.op.results[0])),
        "each has done a part of the turns; the first goes on");
  }
  void FenceAsync(const Site& s) {
    Say(s, "fence", Checked(s.id, "copy engine and tensor core see what threads stored", kOrdered));
  }

  void TmaLoad(const Site& s) {
    const bool share = s.op.attr("share") != nullptr;
    Say(s, fmt::format("start copy of {}{} into shared memory{}", share ? "a part of " : "",
                       Buffer(s.op.operands[0]), share ? " of all CTAs of the cluster" : ""));
  }
  void CpLoad(const Site& s) {
    Say(s, fmt::format("start copies of {} into shared memory, {} bytes a thread",
                       Buffer(s.op.operands[1]), s.op.i("bytes")));
  }
  void CpArrive(const Site& s) {
    Say(s, "signal when the copies have landed: " + Barrier(s.op.operands[0]));
  }
  void TmaStore(const Site& s) {
    const bool combines = s.op.attr("kind") != nullptr;
    Say(s, fmt::format("start {} of {} {} global memory",
                       combines ? "atomic " + s.op.s("kind") : "copy", Buffer(s.op.operands[0]),
                       combines ? "in" : "to"));
  }
  void TmaWait(const Site& s) {
    ++out_->waits;
    Say(s, "wait for copies out of shared memory" + Pending(s.op),
        "until they have read their buffer");
  }

  void MmaFence(const Site& s) { Say(s, "fence", "the tensor core sees the registers"); }
  void Mma(const Site& s) {
    Say(s,
        fmt::format("start product {} · {}{}", Operand(s.op.operands[1]), Operand(s.op.operands[2]),
                    s.op.i("zero") == 1 ? "" : ", added to its accumulator"));
  }
  void TcMma(const Site& s) {
    const int64_t left = s.op.i("a_column");
    Say(s,
        fmt::format("start product {} · {} in tensor memory, columns from {} on",
                    left >= 0 ? fmt::format("columns from {} on", left) : Operand(s.op.operands[1]),
                    Operand(s.op.operands[2]), s.op.i("column")));
  }
  void TcCommit(const Site& s) {
    Say(s, "arrive when all products so far are complete", "for whoever waits for them");
  }
  void TmemAlloc(const Site& s) {
    Say(s, fmt::format("get {} columns of tensor memory", s.op.i("columns")),
        "for accumulators; all threads meet");
  }
  void TmemFree(const Site& s) { Say(s, "give tensor memory back", "all threads meet first"); }
  void TmemLoad(const Site& s) {
    Say(s, fmt::format("load {} from tensor memory", Shape(s.op.results[0])));
  }
  void TmemStore(const Site& s) {
    Say(s, fmt::format("store {} to tensor memory", Shape(s.op.operands[0])));
  }
  void MmaWait(const Site& s) {
    ++out_->waits;
    Say(s, "wait for products" + Pending(s.op),
        Use(s.id).holds ? "for results, and registers that products still read"
                        : "for results, or for what products still read");
  }

  void SmemStore(const Site& s) {
    Say(s, fmt::format("store {} to {}", Shape(s.op.operands[0]), Buffer(s.op.operands[1])));
  }
  void SmemZero(const Site& s) { Say(s, fmt::format("clear {}", Buffer(s.op.operands[0]))); }
  void SmemLoad(const Site& s) {
    Say(s, fmt::format("load {} from shared memory", Buffer(s.op.operands[0])));
  }
  void GLoad(const Site& s) { Say(s, fmt::format("load {} by threads", Shape(s.op.results[0]))); }
  void GStore(const Site& s) {
    Say(s, fmt::format("store {} by threads", Shape(s.op.operands[1])));
  }
  void GAtomic(const Site& s) {
    Say(s, fmt::format("update with {} by threads", Shape(s.op.operands[1])));
  }

  static std::string Pending(const Op& op) {
    return op.i("pending") == 0 ? "" : fmt::format(", all but the last {}", op.i("pending"));
  }

  const ir::Function& fn_;
  const SourceMap& sources_;
  const ir::WarpCheckStats& stats_;
  const ir::warp_check::Program program_;
  std::map<ValueId, Users> users_;
  std::map<ValueId, std::vector<std::string>> held_;  // by full barrier: buffers
  std::vector<ValueId> copied_;                       // by threads, and no barrier named yet
  RoleProgram* out_ = nullptr;
  bool synced_ = false;  // the first meeting is behind us
  std::vector<std::string> run_;
  int run_count_ = 0, run_depth_ = 0;
  Span run_at_;
};

}  // namespace

Result<std::vector<RoleProgram>> ReadProgram(const ir::Function& fn, const ir::Target& target,
                                             const SourceMap& sources, DiagSink& diags) {
  TRY(const ir::WarpCheckStats stats, ir::CheckWarps(fn, ir::WarpCheckOptions(target), diags));
  return Reader(fn, sources, stats).Run();
}

}  // namespace tilec::explain
