// tilec targets: the machines that a --target may name, and the whole of one of them as a file to
// start another from.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "api/machine.h"
#include "tools/commands.h"
#include "tools/json_output.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

// How many of its entries are known by what.
std::map<ir::Evidence, int> Count(const ir::Target& machine) {
  std::map<ir::Evidence, int> count;
  for (const auto& [key, origin] : machine.origins) ++count[origin.evidence];
  for (const ir::TargetUnit& unit : machine.units) ++count[unit.origin.evidence];
  for (const ir::OpCost& op : machine.ops) ++count[op.origin.evidence];
  for (const ir::TargetTransfer& transfer : machine.transfers) ++count[transfer.origin.evidence];
  return count;
}

// "41 measured, 12 documented, 9 assumed"
std::string Evidence(const ir::Target& machine) {
  std::string text;
  for (const auto& [evidence, n] : Count(machine))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, ir::Spelling(evidence));
  return text;
}

bool Compiles(const ir::Target& machine) {
  DiagSink quiet;
  return api::CheckCompiles(machine, quiet).ok();
}

void PrintRow(const ir::Target& machine) {
  fmt::print("{:<12} {:<8} {:>4} SMs {:>4} KB  {:<9} {}\n{:<12} {}\n", machine.name, machine.arch,
             machine.limits.sms, machine.limits.smem_bytes / 1024,
             Compiles(machine) ? "compiles" : "schedules", machine.title, "", Evidence(machine));
}

void PrintMachineJson(const ir::Target& machine) {
  nlohmann::ordered_json evidence = nlohmann::ordered_json::object();
  for (const auto& [kind, n] : Count(machine)) evidence[ir::Spelling(kind)] = n;
  fmt::print("{}\n", JsonLine({{"name", machine.name},
                               {"arch", machine.arch},
                               {"title", machine.title},
                               {"compiles", Compiles(machine)},
                               {"multiprocessors", machine.limits.sms},
                               {"shared_memory_bytes", machine.limits.smem_bytes},
                               {"evidence", evidence}}));
}

}  // namespace

int CmdTargets(const Options& options) {
  Session session(options);
  if (!CheckFormat(session).ok()) return session.Finish();
  const bool json = options.format == "json";
  if (options.target_said) {
    const Result<api::Machine> machine = session.Machine();
    if (machine.ok() && json) PrintMachineJson(**machine);
    if (machine.ok() && !json) fmt::print("{}", ir::ToToml(**machine));
    return session.Finish();
  }
  for (const std::string& name : ir::BuiltinMachines()) {
    const Result<ir::Target> machine = ir::LoadBuiltinTarget(name, session.diags());
    if (machine.ok()) json ? PrintMachineJson(*machine) : PrintRow(*machine);
  }
  if (json) return session.Finish();
  fmt::print(
      "\nA file is a target, too: --target=./mine.toml; `tilec targets --target=h200` prints one "
      "to start from.\n");
  return session.Finish();
}

}  // namespace tilec::tools
