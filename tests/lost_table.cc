// Which programs have not all of their solved schedule (R607), over the calls of the `test` blocks
// of .tile files: a line for each, then how many for each cause. What a tensor or a kernel is
// called is no part of a cause. docs/testing.md has the table.
//
//   lost_table [--target=NAME] FILE…
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "ir/passes/defer_unlikely.h"
#include "support/diag.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

// "`A` and 2 more like it: why, of `A`" → what is lost, and why.
std::string CauseOf(const std::string& message) {
  const size_t lacks = message.find("It lacks ");
  std::string cause = message.substr(lacks == message.npos ? 0 : lacks + 9);
  for (size_t at = 0; (at = cause.find('`', at)) != cause.npos;) {
    const size_t end = cause.find('`', at + 1);
    if (end == cause.npos) break;
    cause.replace(at, end + 1 - at, "T");
  }
  std::string plain;
  for (size_t i = 0; i < cause.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(cause[i])))
      plain += cause[i];
    else if (plain.empty() || plain.back() != '#')
      plain += '#';
  }
  const size_t more = plain.find(" and # more like it");
  if (more != plain.npos) plain.erase(more, plain.find(':', more) - more);
  return plain;
}

struct Table {
  std::string target = "h200";
  int programs = 0, refused = 0, lost = 0;
  std::map<std::string, int> causes;
  std::map<std::string, std::set<std::string>> kernels;
  Solved solved;

  Result<bool> Visit(const std::string& file, const api::Loaded& loaded,
                     const frontend::TestCallInfo& call, const std::string& schedule,
                     DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.target = target;
    options.schedule = schedule;
    options.solutions = solved.store();
    const auto made = [&]() -> Result<ir::Function> {
      TRY(ir::Function fn, api::MakeTileIr(loaded, call.kernel, bound, nullptr, diags));
      return api::LowerToWarps(loaded, ir::Likely(std::move(fn)), options, nullptr, diags);
    }();
    ++programs;
    if (!made.ok()) ++refused;
    const std::string name = file.substr(file.rfind('/') + 1) + ":" + call.kernel;
    bool some = false;
    for (const Diagnostic& d : diags.all()) {
      if (d.def->code != std::string("R607")) continue;
      some = true;
      ++causes[CauseOf(d.message)];
      kernels[CauseOf(d.message)].insert(name);
      fmt::print("{} {} {}\n", target, CallText(call), d.message);
    }
    lost += some;
    diags.Clear();
    return true;
  }

  void Summary() const {
    fmt::print("{}: {} programs, {} do not compile, {} have not all of their schedule\n", target,
               programs, refused, lost);
    std::vector<std::pair<int, std::string>> order;
    for (const auto& [cause, n] : causes) order.emplace_back(-n, cause);
    std::sort(order.begin(), order.end());
    for (const auto& [n, cause] : order)
      fmt::print("{:4} {}\n     {}\n", -n, cause, fmt::join(kernels.at(cause), ", "));
  }
};

int Main(int argc, char** argv) {
  Table table;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i], option = "--target=";
    if (arg.rfind(option, 0) == 0) {
      table.target = arg.substr(option.size());
      continue;
    }
    VisitCalls(arg, {"solve"},
               [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule,
                   DiagSink& diags) { return table.Visit(arg, loaded, call, schedule, diags); });
  }
  table.Summary();
  return 0;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
