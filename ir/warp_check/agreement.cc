// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/agreement.h"

#include <map>
#include <tuple>

#include "ir/warp_check/partition.h"

namespace tilec::ir::warp_check {

namespace {

// Gives every control op its numbers.
class Numbering {
 public:
  Numbering(const Program& p, bool by_place, Agreement& out)
      : p_(p), fn_(p.fn), by_place_(by_place), out_(out), classes_(p) {
    out_.of.resize(static_cast<size_t>(fn_.ops.size()));
  }

  void Run() {
    for (size_t role = 0; role < p_.roles.size(); ++role) {
      ordinals_.clear();
      Loops(p_.roles[role].body);
    }
    out_.loops = static_cast<int32_t>(loops_.size());
    out_.has_loop.assign(p_.roles.size(), std::vector<char>(loops_.size(), 0));
    for (size_t role = 0; role < p_.roles.size(); ++role) {
      role_ = role;
      Questions(p_.roles[role].body, {}, {});
    }
    out_.questions = static_cast<int32_t>(questions_.size());
    out_.sites.assign(p_.roles.size(), std::vector<std::vector<Agreement::Site>>(
                                           static_cast<size_t>(out_.questions)));
    for (auto& [role, question, site] : found_)
      out_.sites[role][static_cast<size_t>(question)].push_back(std::move(site));
  }

 private:
  using Way = std::vector<std::pair<BlockId, int32_t>>;

  void Loops(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kRole) continue;
      if (IsLoop(op.kind)) {
        Words place = {classes_.LoopClass(id), op.at.file, op.at.begin, op.at.end};
        const int64_t nth = ordinals_[place]++;
        place.push_back(nth);
        out_.of[static_cast<size_t>(id.index)].loop =
            loops_.try_emplace(place, static_cast<int32_t>(loops_.size())).first->second;
      }
      for (BlockId region : op.regions) Loops(region);
    }
  }

  void Questions(BlockId block, OpId around, const Way& way) {
    const std::vector<OpId>& ops = fn_.blocks[block].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      const OpId id = ops[i];
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kRole) continue;
      Way here = way;
      here.push_back({block, static_cast<int32_t>(i)});
      if (IsControl(op.kind)) Ask(id, around, here);
      for (BlockId region : op.regions) {
        if (IsLoop(op.kind))
          Questions(region, id, {});
        else
          Questions(region, around, here);
      }
    }
  }

  void Ask(OpId id, OpId around, const Way& way) {
    const Op& op = fn_.ops[id];
    Agreement::Control& control = out_.of[static_cast<size_t>(id.index)];
    control.context = around.valid() ? out_.of[static_cast<size_t>(around.index)].loop : -1;
    if (control.loop >= 0) out_.has_loop[role_][static_cast<size_t>(control.loop)] = 1;
    const OpId guarded = classes_.AsksOf(id);
    Words text = {control.context};
    const OpId loop = guarded.valid() ? guarded : id;
    if (IsLoop(op.kind) || guarded.valid())
      text.insert(text.end(), {0, by_place_ ? out_.of[static_cast<size_t>(loop.index)].loop
                                            : classes_.LoopClass(loop)});
    else if (!op.operands.empty())
      text.insert(text.end(), {1, classes_.ValueClass(op.operands[0])});
    else
      return;  // an elect: no question
    const auto [it, fresh] =
        questions_.try_emplace(std::move(text), static_cast<int32_t>(questions_.size()));
    if (fresh) out_.context_of.push_back(control.context);
    control.question = it->second;
    if (IsLoop(op.kind)) {
      const auto [first, alone] = asks_.try_emplace(it->second, control.loop);
      out_.in_sequence = out_.in_sequence || (!alone && first->second != control.loop);
    }
    found_.push_back({role_, it->second, {id, around, way}});
  }

  const Program& p_;
  const Function& fn_;
  const bool by_place_;
  Agreement& out_;
  const Partition classes_;
  std::map<Words, int64_t> ordinals_;  // of loops of one class at one place, in a role
  std::map<Words, int32_t> loops_, questions_;
  std::map<int32_t, int32_t> asks_;  // by question: a loop that asks it
  std::vector<std::tuple<size_t, int32_t, Agreement::Site>> found_;
  size_t role_ = 0;
};

}  // namespace

Agreement::Agreement(const Program& program, bool by_place) {
  Numbering(program, by_place, *this).Run();
}

}  // namespace tilec::ir::warp_check
