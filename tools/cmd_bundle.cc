// tilec bundle: kernels built ahead of time, for hosts without a compiler (runtime/bundle.h).
//
//   tilec bundle gemm.tile:gemm attention.tile:attention D=64,128 causal=false,true -o
//   kernels.tilec
//
// A word that is no NAME=VALUES names a kernel; what follows it are its values, of which every
// combination is built. Each is built for aligned tensors and, where that gives another program,
// for any.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/bundle.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/prepare.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

constexpr size_t kMostBuilds = 4096;

struct Wanted {
  std::string file;                               // FILE[:KERNEL]
  std::vector<std::vector<std::string>> choices;  // NAME=VALUE, by name
};

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == at)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

Result<std::vector<Wanted>> ReadWords(const std::vector<std::string>& words, DiagSink& diags) {
  std::vector<Wanted> out;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      out.push_back({word, {}});
      continue;
    }
    if (out.empty())
      return diags.Report(kUsage, Span{}, fmt::format("`{}` stands in front of its kernel", word))
          .Place("command line")
          .Help("tilec bundle FILE[:KERNEL] NAME=VALUE,… [FILE[:KERNEL] …] -o FILE");
    std::vector<std::string> choice;
    for (const std::string& value : Split(word.substr(equals + 1), ','))
      choice.push_back(word.substr(0, equals + 1) + value);
    out.back().choices.push_back(std::move(choice));
  }
  return out;
}

// Every combination, the last name counting fastest.
std::vector<std::vector<std::string>> Combinations(const Wanted& wanted) {
  std::vector<std::vector<std::string>> out(1);
  for (const std::vector<std::string>& choice : wanted.choices) {
    std::vector<std::vector<std::string>> next;
    for (const std::vector<std::string>& before : out)
      for (const std::string& word : choice) {
        next.push_back(before);
        next.back().push_back(word);
      }
    out = std::move(next);
  }
  return out;
}

Result<backend::KernelImage> BuildOne(Session& session, const Prepared& p) {
  return api::CompileCall(session.loaded(), p.kernel, p.call, session.pipeline(), session.cache(),
                          nullptr, nullptr, session.diags());
}

// Aligned first: a launch takes the first build that fits.
Result<> Build(Session& session, const std::vector<std::string>& words, runtime::Bundle* bundle) {
  TRY(Prepared p, Prepare(session, "build", words));
  TRY(backend::KernelImage aligned, BuildOne(session, p));
  for (auto& [name, facts] : p.call.facts) facts = {.last_contiguous = facts.last_contiguous};
  TRY(backend::KernelImage any, BuildOne(session, p));
  const bool same = any.ptx == aligned.ptx;
  fmt::print(stderr, "{}: {}{}, {} bytes of PTX\n", p.kernel, fmt::join(words, " "),
             same ? "" : " (aligned, and any tensors)",
             aligned.ptx.size() + (same ? 0 : any.ptx.size()));
  if (!same) bundle->images.push_back(std::move(aligned));
  bundle->images.push_back(std::move(any));
  return Done();
}

int BuildWanted(const Options& options, const Wanted& wanted, runtime::Bundle* bundle) {
  for (const std::vector<std::string>& words : Combinations(wanted)) {
    Options one = options;
    one.file = wanted.file;
    Session session(one);
    if (session.CheckOptions().ok()) (void)Build(session, words, bundle).ok();
    const int code = session.Finish();
    if (code != kOk) return code;
  }
  return kOk;
}

}  // namespace

int CmdBundle(const Options& options) {
  Session session(options);
  const auto wanted = ReadWords(options.assignments, session.diags());
  if (!wanted.ok()) return session.Finish();
  size_t builds = 0;
  for (const Wanted& w : *wanted) builds += Combinations(w).size();
  if (builds == 0 || builds > kMostBuilds || options.output.empty()) {
    session.diags()
        .Report(kUsage, Span{},
                options.output.empty()
                    ? std::string("a bundle needs a file: -o FILE")
                    : fmt::format("{} builds; 1 to {} are possible", builds, kMostBuilds))
        .Place("command line")
        .Help("tilec bundle FILE[:KERNEL] NAME=VALUE,… [FILE[:KERNEL] …] -o FILE");
    return session.Finish();
  }
  runtime::Bundle bundle;
  bundle.compiler = api::CompilerVersion();
  for (const Wanted& w : *wanted) {
    const int code = BuildWanted(options, w, &bundle);
    if (code != kOk) return code;
  }
  std::string why;
  const std::string bytes = runtime::WriteBundle(bundle);
  if (!WriteOutput(options.output, bytes, &why))
    session.diags().Report(kFileUnwritable, Span{}, options.output, why).Place("command line");
  else
    fmt::print(stderr, "{}: {} images, {} bytes\n", options.output, bundle.images.size(),
               bytes.size());
  return session.Finish();
}

}  // namespace tilec::tools
