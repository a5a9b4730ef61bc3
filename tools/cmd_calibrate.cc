// tilec calibrate: measures the GPU at hand and writes a machine file with what was seen.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "calibrate/machine.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/report.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

constexpr double kWorthSaying = 0.05;

Result<> Calibrate(Session& session) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  TRY(const api::Machine machine, session.Machine());
  const ir::Target& base = *machine;
  const std::string name = o.device == "auto" ? "cuda" : o.device;
  if (name == "interpreter" || name == "emulator")
    return diags.Report(kNoClock, Span{}, name).Place("command line");
  TRY(const auto device, api::OpenDevice(name, {}, "", nullptr, diags));
  const std::vector<calibrate::Probe> probes = calibrate::ProbesOf(base);
  calibrate::MeasureOptions options;
  options.sms = static_cast<int>(base.limits.sms);
  TRY(const calibrate::Numbers numbers, calibrate::Measure(*device, probes, options, diags));
  // With the file on standard output, what people read goes to standard error.
  std::FILE* to = o.output.empty() || o.output == "-" ? stderr : stdout;
  fmt::print(to, "{}\n", device->description());
  for (const calibrate::Probe& p : probes)
    fmt::print(to, "  {:9.2f}  {:32} {}\n", numbers.at(p.name), p.name, p.what);
  const std::string provenance =
      fmt::format("tilec calibrate {}, {}, {}", TILEC_VERSION, device->description(), Today());
  std::vector<calibrate::Change> changes;
  ir::Target made = calibrate::Apply(base, numbers, provenance, &changes);
  made.title = fmt::format("{}, calibrated on {}", device->description(), Today());
  fmt::print(to, "entries that moved by more than {:.0f} %:\n", 100 * kWorthSaying);
  for (const calibrate::Change& c : changes)
    if (std::fabs(c.after - c.before) > kWorthSaying * std::fabs(c.before))
      fmt::print(to, "  {:32} {:10.5g} → {:10.5g}   {}\n", c.entry, c.before, c.after, c.probes);
  nlohmann::ordered_json cycles;
  for (const calibrate::Probe& p : probes) cycles[p.name] = numbers.at(p.name);
  TRY_VOID(AddToReport(session, "calibrate",
                       {{"device", device->description()},
                        {"base", base.name},
                        {"cycles", cycles},
                        {"machine", ir::ToToml(made)}}));
  if (o.output.empty() && !o.report.empty()) return Done();
  std::string why;
  if (WriteOutput(o.output, ir::ToToml(made), &why)) return Done();
  return diags.Report(kFileUnwritable, Span{}, o.output, why).Place("command line");
}

}  // namespace

int CmdCalibrate(const Options& options) {
  Session session(options);
  const bool done = Calibrate(session).ok();
  const int code = session.Finish();
  return code == kOk && !done ? kBadInput : code;
}

}  // namespace tilec::tools
