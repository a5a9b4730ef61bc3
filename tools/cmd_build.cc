// tilec build: a kernel compiled for given values, written in one of the forms it goes through.
//
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>

#include "api/diagnostics.h"
#include "api/divided.h"
#include "api/refine.h"
#include "api/spills.h"
#include "backend/backend.h"
#include "backend/ptxas.h"
#include "ir/target.h"
#include "ir/text.h"
#include "support/nearest.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/machine_code.h"
#include "tools/prepare.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

// What ptxas says of the PTX: one line with the numbers, then its remarks.
void PrintReport(const std::string& kernel, const backend::PtxasReport& r) {
  fmt::print(stderr,
             "{}: {} registers, {} bytes of stack, {} + {} bytes spilled, {} barriers, {} bytes of "
             "static shared memory\n",
             kernel, r.registers, r.stack_bytes, r.spill_store_bytes, r.spill_load_bytes,
             r.barriers, r.smem_bytes);
  for (const std::string& line : r.pipeline) fmt::print(stderr, "  {}\n", line);
}

// An older ptxas may reuse registers of A before a product has read them: where nvdisasm is, the
// machine code is looked at. What cannot be read there says nothing of the kernel.
void SayWhatIsReused(Session& session, const Prepared& p, const backend::KernelImage& image,
                     const backend::PtxasReport& report, const std::string& ptxas) {
  DiagSink quiet;
  const auto in_ptx = sass::ReadPtx(image.ptx, quiet);
  if (!in_ptx.ok() || !sass::ReadsFromRegisters(*in_ptx)) return;
  const std::string version = backend::PtxasVersion(ptxas);
  if (!sass::OlderThan(version, sass::kMendedPtxas)) return;
  const std::string nvdisasm = Nvdisasm(session.options(), ptxas);
  if (nvdisasm.empty()) return;
  const auto code = ReadBack(image, report, ptxas, nvdisasm, quiet);
  if (!code.ok() || code->report.hazards.empty()) return;
  const sass::Hazard& first = code->report.hazards.front();
  session.diags().Report(kRegistersInFlight, Span{}, p.kernel, code->report.hazards.size(), version,
                         first.line, first.text);
}

Result<std::string> NoCubin(DiagSink& diags, const std::string& kernel) {
  return diags.Report(api::kOneOfLaunches, Span{}, kernel)
      .Place("command line")
      .Help("use --emit=json or --emit=ptx, which have the code of both");
}

// The schedule goes into a file of its own, which gives the same build again.
Result<std::string> BuildRefined(Session& session, const Prepared& p) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  if (session.pipeline().schedule != "solve")
    return diags.Report(api::kRefineNotSolved, Span{}, o.schedule).Place("command line");
  if (o.emit != "ptx" && o.emit != "cubin" && o.emit != "json")
    return diags.Report(kBadChoice, Span{}, "--emit with --ptxas=refine", o.emit)
        .Place("command line")
        .Help("use ptx, cubin, json");
  const std::string ptxas = Ptxas();
  if (ptxas.empty()) return diags.Report(kNeedsPtxas, Span{}).Place("command line");
  api::RefineProgress progress;
  if (o.diagnostics == "text")
    progress = [&](size_t round, const std::string& what, double seconds) {
      fmt::print(stderr, "  refining {}: round {}, {}, {:.0f} s so far\n", p.kernel, round, what,
                 seconds);
    };
  TRY(const api::Refined refined, api::Refine(session.loaded(), p.kernel, p.call,
                                              session.pipeline(), {ptxas, progress}, diags));
  for (const std::string& round : refined.rounds) fmt::print(stderr, "{}: {}\n", p.kernel, round);
  for (size_t i = 0; i < refined.before.size(); ++i)
    PrintReport(refined.image.before[i].entry, refined.before[i]);
  PrintReport(p.kernel, refined.report);
  for (size_t i = 0; i <= refined.before.size(); ++i)
    api::SaySpillsOfCall(session.loaded(), p.kernel, p.call, session.pipeline(),
                         {i < refined.before.size() ? refined.before[i] : refined.report, i},
                         diags);
  const std::string pin = o.pin.empty() ? p.kernel + ".sched" : o.pin;
  std::string why;
  if (!refined.schedule.empty()) {
    if (!WriteOutput(pin, refined.schedule, &why))
      return diags.Report(kFileUnwritable, Span{}, pin, why).Place("command line");
    fmt::print(stderr, "{}: --schedule={} gives this build\n", p.kernel,
               api::NamesScheduleFile(pin) ? pin : "./" + pin);
  }
  if (o.emit == "json") return backend::ToJson(refined.image) + "\n";
  if (!refined.image.before.empty()) {
    if (o.emit == "cubin") return NoCubin(diags, p.kernel);
    std::string both;
    for (const backend::KernelImage& launch : refined.image.before) both += launch.ptx + "\n";
    return both + refined.image.ptx;
  }
  return o.emit == "cubin" ? refined.report.cubin : refined.image.ptx;
}

// One program of a call, in the form that is asked for.
Result<std::string> Emit(Session& session, const Prepared& p, api::LaunchProgram launch) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  api::Observation& look = session.look();
  std::string llvm, plan;
  if (o.emit == "llvm") look.llvm_ir = &llvm;
  if (o.emit == "plan") look.plan = &plan;
  const Result<ir::Function> lowered =
      api::LowerToWarps(session.loaded(), std::move(launch.fn), launch.options, &look, diags);
  look.plan = nullptr;
  TRY(const ir::Function fn, lowered);
  if (o.emit == "plan" && !look.stopped) return plan;
  if (o.emit == "warp-ir" || look.stopped) return ir::Print(fn);
  const auto made = api::MakeImage(session.loaded(), fn, session.pipeline(), &look, diags);
  look.llvm_ir = nullptr;
  TRY(const backend::KernelImage image, made);
  if (o.emit == "llvm") return llvm;
  if (o.emit == "json") return backend::ToJson(image) + "\n";
  const bool wanted = o.emit == "cubin" || o.ptxas == "report";
  const std::string ptxas = o.ptxas == "off" && !wanted ? "" : Ptxas();
  if (ptxas.empty() && wanted) return diags.Report(kNeedsPtxas, Span{}).Place("command line");
  if (!ptxas.empty()) {
    TRY(const backend::PtxasReport report,
        backend::Assemble(image.ptx, image.target, ptxas, diags));
    PrintReport(image.entry, report);
    TRY(const api::Machine machine, session.Machine());
    api::SaySpills(session.loaded(), p.kernel, ir::FullestRole(fn, *machine), report, diags,
                   launch.title);
    SayWhatIsReused(session, p, image, report, ptxas);
    if (o.emit == "cubin") return report.cubin;
  }
  return image.ptx;
}

const char* CommentOf(const std::string& form) {
  return form == "plan" ? "#" : form == "llvm" ? ";" : "//";
}

Result<std::string> Build(Session& session) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  TRY_VOID(session.CheckOptions());
  const std::vector<std::string> known = {"tile-ir", "plan",  "warp-ir", "llvm",
                                          "ptx",     "cubin", "json"};
  if (std::find(known.begin(), known.end(), o.emit) == known.end()) {
    DiagBuilder d = diags.Report(api::kUnknownEmit, Span{}, o.emit).Place("command line");
    const std::string near = NearestName(o.emit, known);
    d.Help(near.empty() ? fmt::format("use {}", fmt::join(known, ", "))
                        : fmt::format("did you mean `{}`?", near));
    return d;
  }
  TRY(const Prepared p, Prepare(session, "build", o.assignments));
  if (o.ptxas == "refine") return BuildRefined(session, p);
  api::Observation& look = session.look();
  TRY(ir::Function fn, api::MakeTileIr(session.loaded(), p.kernel, p.call, &look, diags));
  if (o.emit == "tile-ir" && !look.stopped) return ir::Print(fn);
  if (look.stopped) return ir::Print(fn);
  const api::PipelineOptions of = session.pipeline().For(p.call);
  if (o.emit == "json" && api::MayBeSeveral(fn, of)) {
    TRY(const auto divided, api::DividedImage(session.loaded(), fn, of, &look, diags));
    if (divided) return backend::ToJson(*divided) + "\n";
  }
  DiagSink quiet;  // the lowering says of itself that it deals nothing out
  TRY(api::Launches launches, api::LaunchesOf(session.loaded(), std::move(fn), of, quiet));
  if (launches.several() && o.emit == "cubin") return NoCubin(diags, p.kernel);
  std::vector<std::string> texts;
  for (api::LaunchProgram& program : launches.programs) {
    TRY(std::string text,
        Emit(session, p, {std::move(program.fn), program.options, program.title}));
    texts.push_back(std::move(text));
  }
  return api::BehindTitles(launches, texts, CommentOf(o.emit));
}

}  // namespace

int CmdBuild(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Session session(options);
  const auto text = Build(session);
  std::string why;
  fmt::print(stderr, "{}", session.look().printed);
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
  if (options.time_passes)
    fmt::print(stderr, "{}", api::TimesTable(session.look().times, wall.count()));
  if (text.ok() && !WriteOutput(options.output, *text, &why))
    session.diags().Report(kFileUnwritable, Span{}, options.output, why).Place("command line");
  return session.Finish();
}

}  // namespace tilec::tools
