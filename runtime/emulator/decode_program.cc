// An entry and the functions it reaches → one Program: bodies behind each other, called functions
// in front of their callers, the entry last, so that lanes inside a call are the ones with the
// smaller pc and run first. What the emulator lacks stops the run where it is reached (Defer).
//
// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <cstdlib>

#include "runtime/emulator/call_graph.h"
#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/ptx_reader.h"

namespace tilec::runtime::emulator {
namespace {

constexpr size_t kMaxConstantBytes = 64u << 20;
constexpr int kMaxReports = 10;

uint64_t Frame(const Entry& e) { return (e.local_bytes + 15) / 16 * 16; }

}  // namespace

bool Decoder::Defer(const Statement& s) {
  const std::vector<Diagnostic>& said = diags_.all();
  const bool lacks =
      said.size() == 1 && (said[0].def == &kPtxUnknownForm || said[0].def == &kPtxRefused);
  if (!lacks) {
    diags_.MoveTo(out_);
    return false;
  }
  auto [it, added] = texts_.emplace(s.text, static_cast<uint32_t>(p_->texts.size()));
  if (added) p_->texts.emplace_back(s.text);
  Inst inst = Start(s);
  inst.text = it->second;
  inst.run = RunRefused;
  inst.imm = p_->refusals.size();
  p_->refusals.push_back({said[0].def, said[0].message, said[0].notes});
  diags_.Clear();
  const size_t uses = uses_.size();
  if (s.guard >= 0) {
    inst.guard_negated = s.guard_negated;
    Set(&inst, 7, Guard(s), false);
  }
  for (size_t k = uses; k < uses_.size(); ++k)
    uses_[k].inst = static_cast<uint32_t>(p_->code.size());
  p_->code.push_back(inst);
  return true;
}

// Names as people wrote them: `full`, not `_ZZ4gemmvE4full`.
void Decoder::NameShared() {
  const auto entry = static_cast<int32_t>(&entry_ - m_.entries.data());
  for (const Variable& v : m_.variables) {
    if (v.space != Space::kShared || (v.entry >= 0 && v.entry != entry)) continue;
    Program::Named named;
    int status = -1;
    const std::string mangled(v.name);
    std::unique_ptr<char, void (*)(void*)> plain(
        mangled.size() < 4096 ? abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status)
                              : nullptr,
        std::free);
    named.name = status == 0 && plain != nullptr ? plain.get() : mangled;
    named.begin = v.dynamic ? p_->dynamic_offset : v.offset;
    named.end = v.dynamic ? ~0ull : v.offset + v.bytes;
    named.element = std::max<uint64_t>(static_cast<uint64_t>(TypeBits(v.type)) / 8, 1);
    p_->shared.push_back(std::move(named));
  }
}

void Decoder::DescribeEntry() {
  const Entry& e = entry_;
  p_->name = std::string(e.name);
  p_->param_bytes = e.param_bytes;
  // Functions may use shared memory of the module that was declared behind the entry.
  p_->shared_static = std::max(e.shared_bytes, m_.shared_bytes);
  const uint32_t align = std::max(e.shared_align, m_.shared_align);
  p_->dynamic_offset = (p_->shared_static + align - 1) / align * align;
  for (int k = 0; k < 3; ++k) {
    p_->reqntid[k] = e.reqntid[k];
    p_->maxntid[k] = e.maxntid[k];
    p_->reqcluster[k] = e.reqcluster[k];
  }
  p_->maxnreg = e.maxnreg;
  for (int32_t v : e.params) {
    const Variable& param = m_.variables[static_cast<size_t>(v)];
    p_->params.emplace_back(static_cast<uint32_t>(param.offset),
                            static_cast<uint32_t>(param.bytes));
  }
  NameShared();
}

// What callers must know of the functions before any of them is built.
bool Decoder::DescribeFunctions(const CallGraph& graph) {
  p_->function_of.assign(m_.function_names.size(), -1);
  for (const CallGraph::Node& node : graph.order) {
    const Entry& f = m_.functions[static_cast<size_t>(node.body)];
    Program::Function described;
    described.name = std::string(f.name);
    described.frame_bytes = Frame(f);
    described.recursive = node.recursive;
    auto places = [&](const std::vector<int32_t>& list, auto* out) {
      for (int32_t v : list) {
        const Variable& x = m_.variables[static_cast<size_t>(v)];
        out->push_back({x.offset, x.bytes});
      }
    };
    places(f.params, &described.params);
    places(f.results, &described.results);
    p_->function_of[static_cast<size_t>(node.number)] = static_cast<int32_t>(p_->functions.size());
    p_->functions.push_back(std::move(described));
  }
  p_->stack_bytes = graph.stack_bytes;
  p_->local_bytes = Frame(entry_) + graph.stack_bytes;
  const uint64_t most = kMaxSpaceBytes[static_cast<size_t>(Space::kLocal)];
  if (p_->local_bytes <= most) return true;
  places_.At(out_.Report(kPtxTooBig, {}, "local memory with the stack of its calls",
                         p_->local_bytes, most),
             entry_.line);
  return false;
}

bool Decoder::Body(const Entry& body, int32_t function) {
  e_ = &body;
  function_ = function;
  first_register_ = static_cast<uint32_t>(vregs_.size());
  branches_.clear();
  carry_ = -1;
  upper_.clear();
  for (const Register& r : body.registers) {
    const int bits = TypeBits(r.type);
    vregs_.push_back({static_cast<uint8_t>(bits == 1 ? 1 : bits <= 32 ? 32 : 64), false});
  }
  const auto begin = static_cast<uint32_t>(p_->code.size());
  p_->bodies.push_back(begin);
  if (function >= 0) {
    frame_ = NewVReg(64, true);
    pinned_.push_back({frame_, function});
    p_->functions[static_cast<size_t>(function)].start = begin;
  } else {
    p_->start = begin;
  }
  std::vector<uint32_t> start(body.body.size() + 1);
  p_->code.reserve(begin + body.body.size() + body.body.size() / 8 + 1);
  int failed = 0;
  for (size_t k = 0; k < body.body.size() && failed < kMaxReports; ++k) {
    start[k] = static_cast<uint32_t>(p_->code.size());
    const size_t code = p_->code.size(), uses = uses_.size(), branches = branches_.size();
    if (!One(body.body[k])) {
      p_->code.resize(code);
      uses_.resize(uses);
      branches_.resize(branches);
      if (!Defer(body.body[k])) ++failed;
    }
    if (p_->constants.size() > kMaxConstantBytes) {
      places_.At(out_.Report(kPtxTooBig, {}, "constants", p_->constants.size(), kMaxConstantBytes),
                 body.body[k].line);
      return false;
    }
  }
  if (failed > 0) return false;
  start[body.body.size()] = static_cast<uint32_t>(p_->code.size());
  Inst end;
  end.run = function >= 0 ? RunReturn : RunRet;
  end.imm = static_cast<uint64_t>(function);
  end.line = body.body.empty() ? body.line : body.body.back().line;
  if (p_->texts.empty()) p_->texts.emplace_back("ret");
  p_->code.push_back(end);
  for (auto [inst, label] : branches_)
    p_->code[inst].imm =
        start[static_cast<size_t>(body.labels[static_cast<size_t>(label)].statement)];
  return true;
}

Result<std::unique_ptr<Program>> Decoder::Run() {
  p_ = std::make_unique<Program>();
  const CallGraph graph = FindCalls(m_, entry_);
  DescribeEntry();
  if (!DescribeFunctions(graph)) return DiagSink::Propagate();
  for (size_t k = 0; k < graph.order.size(); ++k)
    if (!Body(m_.functions[static_cast<size_t>(graph.order[k].body)], static_cast<int32_t>(k)))
      return DiagSink::Propagate();
  if (!Body(entry_, -1)) return DiagSink::Propagate();

  std::vector<uint32_t> special_vregs;
  for (auto [special, vreg] : specials_) {
    special_vregs.push_back(vreg);
    p_->specials.push_back({static_cast<Special>(special), vreg});
  }
  WatchRegisters();
  WatchLoads();
  FindUnfencedControls();
  PlaceRegisters(*p_, vregs_, uses_, special_vregs, pinned_);
  return std::move(p_);
}

}  // namespace tilec::runtime::emulator
