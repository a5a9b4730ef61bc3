// tilec doctor: what this program was built with, what it finds on this machine, and what that
// means for the user.
//
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>

#include "backend/backend.h"
#include "tools/commands.h"
#include "tools/coverage.h"
#include "tools/report.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

std::string FirstMessage(const DiagSink& diags) {
  return diags.all().empty() ? "unknown reason" : diags.all().front().message;
}

int PrintGpus() {
  int found = 0;
  for (int ordinal = 0; ordinal < 64; ++ordinal) {
    DiagSink diags;
    const auto device = runtime::OpenCuda(ordinal, diags);
    if (!device.ok()) {
      if (ordinal == 0) fmt::print("GPU            none: {}\n", FirstMessage(diags));
      break;
    }
    ++found;
    const auto machine = ir::TargetOfDevice((*device)->isa(), (*device)->description(), diags);
    fmt::print("GPU            cuda:{} {}: {}\n", ordinal, (*device)->description(),
               machine.ok() ? "target " + machine->name : FirstMessage(diags));
    if (machine.ok() && !diags.all().empty())
      fmt::print("               {}\n", FirstMessage(diags));
  }
  return found;
}

// Which instruction forms of the emulator were compared with silicon.
void PrintCoverage() {
  const Coverage c = SiliconCoverage();
  int cases = 0, verified = 0;
  std::vector<std::string> differ, open;
  for (const FormCoverage& f : c.forms) {
    cases += f.agree + f.differ;
    verified += f.verified();
    std::string name(f.opcode);
    std::vector<std::string>* list = f.differ > 0 ? &differ : f.agree == 0 ? &open : nullptr;
    if (list != nullptr && std::find(list->begin(), list->end(), name) == list->end())
      list->push_back(std::move(name));
  }
  fmt::print("instructions   {} of {} forms verified by {} comparisons on {}, {}\n", verified,
             c.forms.size(), cases, c.device, c.date);
  if (!differ.empty())
    fmt::print("               known to differ in a detail: {}\n", fmt::join(differ, " "));
  if (!open.empty()) fmt::print("               not compared: {}\n", fmt::join(open, " "));
}

nlohmann::ordered_json FoundHere(Session& session) {
  nlohmann::ordered_json out = {{"tilec", TILEC_VERSION},
                                {"code_generator", backend::BackendVersion()},
                                {"targets", api::CompiledMachines()},
                                {"ptxas", Ptxas()},
                                {"gpus", nlohmann::ordered_json::array()}};
  for (int ordinal = 0; ordinal < 64; ++ordinal) {
    DiagSink diags;
    const auto device = runtime::OpenCuda(ordinal, diags);
    if (!device.ok()) {
      if (ordinal == 0) out["no_gpu"] = FirstMessage(diags);
      break;
    }
    const auto machine = ir::TargetOfDevice((*device)->isa(), (*device)->description(), diags);
    out["gpus"].push_back({{"device", fmt::format("cuda:{}", ordinal)},
                           {"description", (*device)->description()},
                           {"target", machine.ok() ? machine->name : ""}});
  }
  out["emulator"] = runtime::OpenEmulator({})->description();
  out["cache"] = CacheDirectory(session.options());
  out["standard_library"] = session.library().modules();
  return out;
}

// For others to read: without this machine's folders.
Result<> Report(Session& session) {
  if (session.options().report.empty()) return Done();
  nlohmann::ordered_json out = FoundHere(session);
  out["ptxas"] = !Ptxas().empty();
  out.erase("cache");
  return AddToReport(session, "doctor", out);
}

}  // namespace

int CmdDoctor(const Options& options) {
  Session session(options);
  if (!CheckFormat(session).ok()) return session.Finish();
  if (!Report(session).ok()) return session.Finish();
  if (options.format == "json")
    return fmt::print("{}\n", JsonLine(FoundHere(session))), session.Finish();
  fmt::print("tilec          {}\n", TILEC_VERSION);
  fmt::print("code generator {}\n", backend::BackendVersion());
  fmt::print("targets        {}\n", fmt::join(api::CompiledMachines(), ", "));
  const std::string ptxas = Ptxas();
  fmt::print(
      "ptxas          {}\n",
      ptxas.empty() ? "not found: no cubins and no register reports; the driver assembles" : ptxas);
  const int gpus = PrintGpus();
  DiagSink diags;
  const std::unique_ptr<runtime::Device> emulator = runtime::OpenEmulator({});
  fmt::print("emulator       {}\n", emulator->description());
  PrintCoverage();
  const std::string cache = CacheDirectory(options);
  if (cache.empty()) {
    fmt::print("cache          none: neither XDG_CACHE_HOME nor HOME is set\n");
  } else if (const auto stat = runtime::KernelCache(cache).Stat(diags); stat.ok()) {
    fmt::print("cache          {}, {} entries\n", cache, stat->entries);
  } else {
    fmt::print("cache          unusable: {}\n", FirstMessage(diags));
  }
  fmt::print("standard lib   {}\n", fmt::join(session.library().modules(), ", "));
  fmt::print("\n{}\n", gpus > 0
                           ? "Kernels run on the GPU; --device=emulator checks them on the CPU."
                           : "Kernels run on the emulator.");
  return session.Finish();
}

}  // namespace tilec::tools
