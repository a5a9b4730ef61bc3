// tilec targets: the machines that a --target may name, and the whole of one of them as a file to
// start another from.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "api/machine.h"
#include "tools/commands.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

// "41 measured, 12 documented, 9 assumed": of all its entries.
std::string Evidence(const ir::Target& machine) {
  std::map<ir::Evidence, int> count;
  for (const auto& [key, origin] : machine.origins) ++count[origin.evidence];
  for (const ir::TargetUnit& unit : machine.units) ++count[unit.origin.evidence];
  for (const ir::OpCost& op : machine.ops) ++count[op.origin.evidence];
  for (const ir::TargetTransfer& transfer : machine.transfers) ++count[transfer.origin.evidence];
  std::string text;
  for (const auto& [evidence, n] : count)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, ir::Spelling(evidence));
  return text;
}

void PrintRow(const ir::Target& machine) {
  DiagSink quiet;
  const bool compiles = api::CheckCompiles(machine, quiet).ok();
  fmt::print("{:<12} {:<8} {:>4} SMs {:>4} KB  {:<9} {}\n{:<12} {}\n", machine.name, machine.arch,
             machine.limits.sms, machine.limits.smem_bytes / 1024,
             compiles ? "compiles" : "schedules", machine.title, "", Evidence(machine));
}

}  // namespace

int CmdTargets(const Options& options) {
  Session session(options);
  if (options.target_said) {
    const Result<api::Machine> machine = session.Machine();
    if (machine.ok()) fmt::print("{}", ir::ToToml(**machine));
    return session.Finish();
  }
  for (const std::string& name : ir::BuiltinMachines()) {
    const Result<ir::Target> machine = ir::LoadBuiltinTarget(name, session.diags());
    if (machine.ok()) PrintRow(*machine);
  }
  fmt::print(
      "\nA file is a target, too: --target=./mine.toml; `tilec targets --target=h200` prints one "
      "to start from.\n");
  return session.Finish();
}

}  // namespace tilec::tools
