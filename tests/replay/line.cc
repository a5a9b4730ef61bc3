// SPDX-License-Identifier: Apache-2.0
#include "tests/replay/line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "api/split.h"
#include "backend/ptxas.h"
#include "ir/passes/defer_unlikely.h"
#include "runtime/kernel_cache.h"
#include "tests/obeyed/counted.h"

namespace tilec::replay {

namespace {

std::string Launch(const backend::KernelImage& image) {
  std::string out = fmt::format("grid {}", ToText(image.grid[0]));
  for (int i : {1, 2})
    if (ToText(image.grid[i]) != "1") out += fmt::format(" by {}", ToText(image.grid[i]));
  out += fmt::format(" of {} threads, {} bytes", image.block, image.smem_bytes);
  if (image.cluster[0] > 1) out += fmt::format(", clusters of {}", image.cluster[0]);
  if (image.dependent_launch) out += image.dependent_if_full ? ", dependent" : ", dependent if few";
  return out;
}

std::string Schedule(const api::Lowered& lowered) {
  if (!lowered.by_schedule) return "program order";
  std::vector<std::string> loops;
  for (const scheduler::LoopReport& loop : lowered.schedule.loops) {
    if (!loop.applied) {
      loops.push_back("–");
      continue;
    }
    const ir::Schedule& s = loop.solution.schedule;
    int64_t last = 0;
    for (const ir::ScheduledOp& op : s.ops) last = std::max(last, op.cycle);
    loops.push_back(fmt::format("II {} in {} stages", s.ii, last / std::max<int64_t>(1, s.ii) + 1));
  }
  return loops.empty() ? "no loops" : fmt::format("{}", fmt::join(loops, ", "));
}

std::string Roles(const ir::Function& fn) {
  std::vector<std::string> roles;
  for (ir::OpId id : ir::OpsInOrder(fn)) {
    const ir::Op& op = fn.ops[id];
    if (op.kind != ir::OpKind::kRole) continue;
    roles.push_back(fmt::format("{} {}w", op.s("name"), op.i("warps")));
    if (op.i("regs") > 0) roles.back() += fmt::format(" r{}", op.i("regs"));
  }
  return fmt::format("{}", fmt::join(roles, " + "));
}

std::string Rings(const backend::KernelImage& image) {
  std::vector<std::string> rings;
  for (const backend::SharedObject& o : image.shared)
    rings.push_back(fmt::format("{}x{}", o.slots, o.bytes));
  return fmt::format("{}", fmt::join(rings, " "));
}

std::string Maps(const backend::KernelImage& image) {
  std::vector<std::string> maps;
  for (const backend::TensorMapRecipe& m : image.tensor_maps)
    maps.push_back(fmt::format("{}[{}]/{}", m.tensor, fmt::join(m.box, "x"), m.swizzle_bytes));
  return fmt::format("{}", fmt::join(maps, " "));
}

// Of every role's steady loops, an iteration each: waits for rings + products + barriers, then
// copies, products and instructions.
std::string Loops(const obeyed::Code& code, const backend::KernelImage& image) {
  std::vector<std::string> out;
  std::vector<backend::RoleRange> roles = image.roles;
  if (roles.empty()) roles.push_back({"all", 0, image.block / 32});
  for (const backend::RoleRange& role : roles)
    for (const obeyed::Loop* loop : obeyed::SteadyLoops(code, role.first_warp)) {
      const auto n = obeyed::CountIteration(code, *loop, role.first_warp);
      out.push_back(n ? fmt::format("{} waits {}+{}+{} copies {} products {} of {}", role.name,
                                    n->full, n->mma, n->sync, n->copies, n->products,
                                    n->instructions)
                      : role.name + " has too many paths");
    }
  return fmt::format("{}", fmt::join(out, " | "));
}

// Codes of what was said: a program that is lowered in another way says so.
std::string Said(const DiagSink& diags) {
  std::set<std::string> codes;
  for (const Diagnostic& d : diags.all()) codes.insert(d.def->code);
  return fmt::format("{}", fmt::join(codes, " "));
}

Result<> Fill(const Case& c, scheduler::SolutionStore* store, Line* line, DiagSink& diags) {
  api::Loaded& loaded = *c.loaded;
  TRY_VOID(api::LoadScheduleFile(loaded, c.schedule_path, diags));
  api::PipelineOptions options;
  options.schedule = c.schedule;
  options.target = c.target;
  options.solutions = store;
  api::Call call = c.call;
  TRY(const frontend::Signature signature, frontend::SignatureOf(*loaded.program, c.kernel, diags));
  api::ChooseForm(loaded, signature, options, &call);
  options = options.For(call);
  api::Lowered lowered;
  api::Observation look;
  look.lowered = &lowered;
  std::vector<compile::Decision> decisions;
  look.decisions = &decisions;
  TRY(ir::Function fn, api::MakeTileIr(loaded, c.kernel, call, &look, diags));
  TRY(fn, api::LowerToWarps(loaded, ir::Likely(std::move(fn)), options, &look, diags));
  TRY(const backend::KernelImage image, api::MakeImage(loaded, fn, options, &look, diags));
  for (const compile::Decision& d : decisions) line->emissions += d.emissions;
  std::string why;
  const auto code = obeyed::Code::Read(image.ptx, &why);
  Set(*line, "ptx", runtime::CacheKey().Add("ptx", image.ptx).Hex().substr(0, 16));
  Set(*line, "launch", Launch(image));
  Set(*line, "by", Schedule(lowered));
  Set(*line, "roles", Roles(fn));
  Set(*line, "shared", Rings(image));
  Set(*line, "maps", Maps(image));
  Set(*line, "loops", code ? Loops(*code, image) : "unreadable: " + why);
  Set(*line, "code", fmt::format("{}", code ? code->instrs().size() : 0));
  line->ptx = image.ptx;
  line->isa = image.target;
  return Done();
}

}  // namespace

Line Compile(const Case& c, scheduler::SolutionStore* store) {
  Line line;
  line.id = c.id;
  DiagSink diags;
  const Result<> filled = Fill(c, store, &line, diags);
  c.loaded->schedule_file = -1;
  Set(line, filled.ok() ? "said" : "refused", Said(diags));
  return line;
}

std::string ToText(const Line& line) {
  std::string out = line.id + ":";
  bool first = true;
  for (const auto& [name, value] : line.fields) {
    if (value.empty()) continue;
    out += fmt::format("{} {} {}", first ? "" : ";", name, value);
    first = false;
  }
  return out;
}

Line LineFromText(const std::string& text) {
  Line line;
  const size_t end = std::min(text.find(": "), text.size());
  line.id = text.substr(0, end);
  for (size_t at = end + 2; at < text.size();) {
    const size_t stop = std::min(text.find("; ", at), text.size());
    const std::string field = text.substr(at, stop - at);
    const size_t space = std::min(field.find(' '), field.size());
    line.fields.emplace_back(field.substr(0, space),
                             space < field.size() ? field.substr(space + 1) : "");
    at = stop + 2;
  }
  return line;
}

const std::string* Find(const Line& line, const std::string& field) {
  for (const auto& [name, value] : line.fields)
    if (name == field) return &value;
  return nullptr;
}

void Set(Line& line, const std::string& field, std::string value) {
  for (auto& [name, old] : line.fields)
    if (name == field) {
      old = std::move(value);
      return;
    }
  line.fields.emplace_back(field, std::move(value));
}

std::string Differences(const Line& was, const Line& now) {
  const std::string nothing = "–";
  std::vector<std::string> names, out;
  for (const Line* line : {&was, &now})
    for (const auto& [name, value] : line->fields)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  for (const std::string& name : names) {
    const std::string *before = Find(was, name), *after = Find(now, name);
    const std::string& a = before && !before->empty() ? *before : nothing;
    const std::string& b = after && !after->empty() ? *after : nothing;
    if (a != b) out.push_back(fmt::format("    {}\n      was {}\n      now {}\n", name, a, b));
  }
  return fmt::format("{}", fmt::join(out, ""));
}

std::string AskPtxas(const std::string& ptx, const std::string& isa, const std::string& ptxas) {
  DiagSink diags;
  const Result<backend::PtxasReport> report = backend::Assemble(ptx, isa, ptxas, diags);
  if (!report.ok()) return "refuses it";
  std::string out = fmt::format("{} registers, {} spilled", report->registers,
                                report->spill_store_bytes + report->spill_load_bytes);
  std::map<std::string, int> codes;
  for (const std::string& remark : report->pipeline)
    if (const size_t at = remark.find("C75"); at != std::string::npos)
      ++codes[remark.substr(at, 5)];
  for (const auto& [code, times] : codes) out += fmt::format(", {} {}", times, code);
  return out;
}

}  // namespace tilec::replay
