// Builders of calls and of branches through a table.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/alu.h"
#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/services.h"

namespace tilec::runtime::emulator {

bool Decoder::CallParameters(const Statement& s, size_t index,
                             std::vector<std::pair<uint64_t, uint64_t>>* out) {
  for (const Operand& o : s.operands[index].parts) {
    if (o.kind != Operand::Kind::kSymbol ||
        m_.variables[static_cast<size_t>(o.index)].space != Space::kLocal || o.bits != 0)
      return Refuse(
          fmt::format("`{}` with parameters that are no variables of the `.param` space", s.text));
    const Variable& v = m_.variables[static_cast<size_t>(o.index)];
    out->emplace_back(v.offset, v.bytes);
  }
  return true;
}

bool Decoder::BuildCall(const Statement& s, const Matched&, Inst* inst) {
  if (s.operands.size() != 3) return Refuse("`" + std::string(s.text) + "` of this shape");
  Program::Call call;
  call.caller = function_;
  if (!CallParameters(s, 1, &call.results) || !CallParameters(s, 2, &call.params)) return false;
  const Operand& target = s.operands[0];
  if (target.kind == Operand::Kind::kFunction) {
    const PtxModule::Function& f = m_.function_names[static_cast<size_t>(target.index)];
    if (f.body >= 0) {
      call.function = p_->function_of[static_cast<size_t>(target.index)];
      const Program::Function& callee = p_->functions[static_cast<size_t>(call.function)];
      auto sizes = [](const Program::Places& a, const Program::Places& b) {
        bool same = a.size() == b.size();
        for (size_t k = 0; same && k < a.size(); ++k) same = a[k].second == b[k].second;
        return same;
      };
      if (!sizes(call.params, callee.params) || !sizes(call.results, callee.results))
        return Bad(s, 0, fmt::format("`{}` has other parameters", f.name));
    } else {
      call.service = ServiceFromName(f.name);
      if (call.service < 0)
        return Refuse(fmt::format("the function `{}`, which the module does not define", f.name));
    }
  } else {
    Ref address;
    if (!Source(s, 0, target, Type::kB64, 64, &address)) return false;
    Set(inst, 0, address, false);
  }
  if (call.service >= 0 && !ServiceFits(call))
    return Bad(s, 0, "the function of the device runtime has other parameters");
  if (function_ >= 0) Set(inst, 1, {false, frame_, 64}, false);
  inst->imm = p_->calls.size();
  inst->run = RunCall;
  p_->calls.push_back(std::move(call));
  return true;
}

// One comparison and branch for each target; an index beyond them is a trap.
bool Decoder::BuildBrx(const Statement& s, const Matched&, Inst* inst) {
  if (s.guard >= 0) return Refuse("a `brx.idx` with a guard");
  if (s.operands.size() != 2) return Bad(s, s.operands.size(), "an index and a list are needed");
  Ref index;
  if (!Source(s, 0, s.operands[0], Type::kU32, 32, &index)) return false;
  const auto& table = e_->tables[static_cast<size_t>(s.operands[1].index)];
  const Handler equal = SetpHandler(Compare::kEq, Type::kU32, false);
  for (size_t k = 0; k < table.size(); ++k) {
    auto push = [&](Inst one, Ref r, int field, bool def) {
      const size_t first = uses_.size();
      Set(&one, field, r, def);
      if (def) Set(&one, 2, index, false), Set(&one, 3, {true, Constant(k, false), 32}, false);
      for (size_t u = first; u < uses_.size(); ++u)
        uses_[u].inst = static_cast<uint32_t>(p_->code.size());
      p_->code.push_back(one);
    };
    const Ref hit{false, NewVReg(1), 1};
    Inst test = *inst, jump = *inst;
    test.run = equal, test.u[1] = 1;
    push(test, hit, 0, true);
    jump.run = RunBra;
    branches_.emplace_back(static_cast<uint32_t>(p_->code.size()), table[k]);
    push(jump, hit, 7, false);
  }
  inst->run = RunTrap;
  return true;
}

}  // namespace tilec::runtime::emulator
