// tilec bundle: kernels built ahead of time, for hosts without a compiler (runtime/bundle.h).
//
//   tilec bundle gemm.tile:gemm attention.tile:attention D=64,128 causal=false,true -o k.tilec
//
// Every combination of the values is built for every target, for aligned tensors and, where that
// gives another program, for any. Values of dims that no build fixes are sizes: with --tune=model
// tiles are chosen for them, and a launch takes the build whose sizes are nearest.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>

#include "api/spills.h"
#include "backend/ptxas.h"
#include "runtime/bundle.h"
#include "tools/bundle_all.h"
#include "tools/bundle_header.h"
#include "tools/bundle_words.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/prepare.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

constexpr size_t kMostBuilds = 4096;

// What is made, and of what: a kernel's name stands for one file, a target's for one machine.
struct Making {
  runtime::Bundle bundle;
  std::vector<frontend::Signature> kernels;  // each once, in order
  std::map<std::string, std::string> files;  // by kernel
  std::string ptxas;                         // "": no machine code
};

// Integers of the call that no build fixes: what its tiles were chosen for.
Bindings SizesOf(const frontend::Signature& signature, const api::Call& call) {
  Bindings out;
  for (const frontend::DimInfo& d : signature.dims) {
    const auto at = call.all.find(d.name);
    if (at == call.all.end() || call.statics.count(d.name)) continue;
    if (const auto* value = std::get_if<int64_t>(&at->second)) out[d.name] = *value;
  }
  return out;
}

// Can a launch never tell `a` from `b`? Then one of them is useless.
bool LaunchesAlike(const runtime::Build& a, const runtime::Build& b) {
  if (a.image.name != b.image.name || a.image.target != b.image.target ||
      a.image.statics != b.image.statics || a.sizes != b.sizes ||
      a.image.alignment.size() != b.image.alignment.size() ||
      a.image.facts.size() != b.image.facts.size())
    return false;
  for (size_t i = 0; i < a.image.alignment.size(); ++i)
    if (a.image.alignment[i].tensor != b.image.alignment[i].tensor ||
        a.image.alignment[i].base_bytes != b.image.alignment[i].base_bytes)
      return false;
  for (size_t i = 0; i < a.image.facts.size(); ++i)
    if (!(a.image.facts[i].condition == b.image.facts[i].condition)) return false;
  return true;
}

bool SamePrograms(const backend::KernelImage& a, const backend::KernelImage& b) {
  return a.ptx == b.ptx && std::equal(a.before.begin(), a.before.end(), b.before.begin(),
                                      b.before.end(), SamePrograms);
}

// A build like one before adds its sizes to that one's.
Result<> Keep(Session& session, const Prepared& p, Making& making, backend::KernelImage image,
              const Bindings& sizes) {
  DiagSink& diags = session.diags();
  runtime::Build build;
  if (!sizes.empty()) build.sizes = {sizes};
  for (runtime::Build& other : making.bundle.builds) {
    if (other.image.name != image.name || other.image.target != image.target ||
        other.image.statics != image.statics || !SamePrograms(other.image, image))
      continue;
    if (!sizes.empty() &&
        std::find(other.sizes.begin(), other.sizes.end(), sizes) == other.sizes.end())
      other.sizes.push_back(sizes);
    return Done();
  }
  build.image = std::move(image);
  for (const runtime::Build& other : making.bundle.builds)
    if (LaunchesAlike(other, build))
      return diags
          .Report(kUsage, Span{},
                  fmt::format("two builds of `{}` differ in what no launch can ask for",
                              build.image.name))
          .Place("command line")
          .Help("a constant of floating point has one value in a bundle");
  if (!making.ptxas.empty()) {
    const auto assemble = [&](const backend::KernelImage& launch,
                              size_t number) -> Result<std::string> {
      TRY(backend::PtxasReport report,
          backend::Assemble(launch.ptx, launch.target, making.ptxas, diags));
      api::SaySpillsOfCall(session.loaded(), p.kernel, p.call, session.pipeline(), {report, number},
                           diags);
      return std::move(report.cubin);
    };
    for (const backend::KernelImage& before : build.image.before) {
      TRY(std::string code, assemble(before, build.cubins_before.size()));
      build.cubins_before.push_back(std::move(code));
    }
    TRY(build.cubin, assemble(build.image, build.image.before.size()));
  }
  making.bundle.builds.push_back(std::move(build));
  return Done();
}

// A launch names a kernel, not a file.
Result<> NoteKernel(Making& making, const frontend::Signature& signature, const std::string& file,
                    DiagSink& diags) {
  const auto [at, added] = making.files.emplace(signature.kernel, SplitKernel(file).first);
  if (added) making.kernels.push_back(signature);
  if (at->second == SplitKernel(file).first) return Done();
  return diags
      .Report(kUsage, Span{},
              fmt::format("`{}` is a kernel of `{}` and of `{}`: a bundle has one of a name",
                          signature.kernel, at->second, SplitKernel(file).first))
      .Place("command line")
      .Help("rename one, or write two bundles");
}

Result<backend::KernelImage> BuildOne(Session& session, const Prepared& p) {
  return api::CompileCall(session.loaded(), p.kernel, p.call, session.pipeline(),
                          {.cache = session.cache()}, session.diags());
}

// Aligned first: of builds that fit equally well a launch takes the first.
Result<> BuildBundle(Session& session, const std::vector<std::string>& words, Making* making) {
  DiagSink& diags = session.diags();
  TRY_VOID(session.CheckOptions());
  TRY(Prepared p, Prepare(session, "build", words));
  TRY(const frontend::Signature signature,
      frontend::SignatureOf(*session.loaded().program, p.kernel, diags));
  TRY_VOID(NoteKernel(*making, signature, session.options().file, diags));
  TRY(backend::KernelImage aligned, BuildOne(session, p));
  const Bindings sizes = SizesOf(signature, p.call);
  auto facts = p.call.facts;
  for (auto& [name, fact] : p.call.facts) fact = {.last_contiguous = fact.last_contiguous};
  TRY(backend::KernelImage any, BuildOne(session, p));
  const bool same = any.ptx == aligned.ptx;
  fmt::print(stderr, "{}{}{} for {}{}: {} bytes of PTX\n", p.kernel, words.empty() ? "" : " ",
             fmt::join(words, " "), any.target, same ? "" : ", aligned and any tensors",
             aligned.ptx.size() + (same ? 0 : any.ptx.size()));
  if (!same) {
    Prepared with_facts = p;
    with_facts.call.facts = std::move(facts);
    TRY_VOID(Keep(session, with_facts, *making, std::move(aligned), sizes));
  }
  return Keep(session, p, *making, std::move(any), sizes);
}

int BuildAll(const Options& options, const std::vector<Wanted>& wanted, Making* making) {
  for (const Wanted& w : wanted)
    for (const std::string& target : SplitAt(options.target, ','))
      for (const std::vector<std::string>& words : Combinations(w)) {
        Options one = options;
        one.file = w.file;
        one.target = target;
        Session session(one);
        (void)BuildBundle(session, words, making).ok();
        const int code = session.Finish();
        if (code != kOk) return code;
      }
  return kOk;
}

// A launch knows its device's architecture, not the machine that a build was made for.
Result<> CheckTargets(Session& session) {
  DiagSink& diags = session.diags();
  std::map<std::string, std::string> by_arch;
  for (const std::string& target : SplitAt(session.options().target, ',')) {
    TRY(const api::Machine machine, api::ReadMachine(target, session.loaded().sources, diags));
    const auto [at, added] = by_arch.emplace(machine->arch, target);
    if (!added)
      return diags
          .Report(
              kUsage, Span{},
              fmt::format("`{}` and `{}` are both {}: a launch could not tell their builds apart",
                          at->second, target, at->first))
          .Place("command line")
          .Help("name one machine of each architecture");
  }
  return Done();
}

Result<> CheckWords(Session& session, const std::vector<Wanted>& wanted) {
  const Options& options = session.options();
  DiagSink& diags = session.diags();
  if (options.output.empty())
    return diags.Report(kUsage, Span{}, "a bundle needs a file: -o FILE").Place("command line");
  if (options.output == "-" && !options.c_source.empty())
    return diags.Report(kUsage, Span{}, "a C source needs the bundle's file: -o FILE")
        .Place("command line");
  if (options.ptxas == "refine")
    return diags.Report(kBadChoice, Span{}, "--ptxas of `tilec bundle`", options.ptxas)
        .Place("command line")
        .Help("`tilec build --ptxas=refine --pin=x.sched` finds a schedule that --schedule takes");
  size_t builds = 0;
  for (const Wanted& w : wanted) builds += CountCombinations(w, kMostBuilds);
  if (builds <= kMostBuilds) return CheckTargets(session);
  return diags
      .Report(kUsage, Span{}, fmt::format("more than {} combinations of values", kMostBuilds))
      .Place("command line")
      .Help("write several bundles");
}

Result<> WriteAll(const Options& options, const Making& making, DiagSink& diags) {
  const auto write = [&](const std::string& path, const std::string& text) -> Result<> {
    std::string why;
    if (WriteOutput(path, text, &why)) return Done();
    return diags.Report(kFileUnwritable, Span{}, path, why).Place("command line");
  };
  std::string name = options.word;
  if (name.empty()) {
    name = options.output.substr(options.output.rfind('/') + 1);
    name = name.substr(0, name.find('.'));
  }
  const std::string bytes = runtime::WriteBundle(making.bundle);
  TRY_VOID(write(options.output, bytes));
  if (!options.header.empty())
    TRY_VOID(write(options.header,
                   BundleHeader(name, !options.c_source.empty(), making.kernels, making.bundle)));
  if (!options.c_source.empty())
    TRY_VOID(write(options.c_source,
                   EmbeddedSource(name, std::filesystem::absolute(options.output).string())));
  size_t cubins = 0;
  for (const runtime::Build& build : making.bundle.builds) cubins += !build.cubin.empty();
  fmt::print(stderr, "{}: {} build(s), {} with machine code, {} bytes\n", options.output,
             making.bundle.builds.size(), cubins, bytes.size());
  return Done();
}

}  // namespace

int CmdBundle(const Options& options) {
  Session session(options);
  DiagSink& diags = session.diags();
  const auto words = ReadBundleWords(options.assignments, diags);
  if (!words.ok()) return session.Finish();
  const auto wanted = WithEveryKernel(session, *words);
  if (!wanted.ok() || !CheckWords(session, *wanted).ok()) return session.Finish();
  Making making;
  making.bundle.compiler = api::CompilerVersion();
  if (options.ptxas != "off") making.ptxas = Ptxas();
  if (options.ptxas == "report" && making.ptxas.empty())
    diags.Report(kNeedsPtxas, Span{}).Place("command line");
  else if (const int code = BuildAll(options, *wanted, &making); code != kOk)
    return code;
  else
    (void)WriteAll(options, making, diags).ok();
  return session.Finish();
}

}  // namespace tilec::tools
