// The plan against the machine code: every kernel of the library that has loops with asynchronous
// products is compiled, with its default tunes where a test has them, assembled and disassembled.
// What its PTX has under products is looked for in the SASS (sass/sass.h). The counts are compared
// with those that were accepted, so that an overlap which is lost is seen, and one which is won.
//
//   sass_test ROOT FILE.tile                 FILE from the root, as in tests/replay/corpus.txt
//   sass_test ROOT FILE.tile --write=PATH    its lines of expected.txt, written there
//
// Nothing may spill, no product may be serialised (C75xx), no register of a product in flight may
// be used, unless expected.txt says so. Another version of ptxas than the accepted one orders other
// code: then only what is lost fails. Where there is no ptxas or no nvdisasm the test is skipped.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "api/split.h"
#include "backend/ptxas.h"
#include "sass/sass.h"
#include "support/file.h"
#include "tests/replay/corpus.h"
#include "tests/replay/kept_solutions.h"

namespace tilec {
namespace {

constexpr int kSkipped = 77;
constexpr const char* kVersionLine = "# ptxas ";

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Lines under their kernel's name.
using Kernels = std::map<std::string, std::vector<std::string>>;

// A line that begins with a blank belongs to the kernel above it.
Kernels ReadExpected(const std::string& text, const std::string& file, std::string* version) {
  Kernels kernels;
  std::string kernel;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.rfind(kVersionLine, 0) == 0) *version = line.substr(std::string(kVersionLine).size());
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') {
      kernel = line.rfind(file + ":", 0) == 0 ? line : "";
      if (!kernel.empty()) kernels[kernel];
    } else if (!kernel.empty()) {
      kernels[kernel].push_back(line.substr(2));
    }
  }
  return kernels;
}

// "loop 1, 8 x 64x128x16 RS: ex2 66 of 66" in two: what is counted, and how many.
std::pair<std::string, int> Cut(const std::string& line) {
  const size_t of = line.rfind(" of "), blank = of == line.npos ? of : line.rfind(' ', of - 1);
  if (of == line.npos || blank == line.npos) return {line, 0};
  return {line.substr(0, blank), std::atoi(line.c_str() + blank)};
}

class Tester {
 public:
  Tester(std::string root, std::string file, std::string ptxas, std::string nvdisasm)
      : root_(std::move(root)),
        file_(std::move(file)),
        ptxas_(std::move(ptxas)),
        nvdisasm_(std::move(nvdisasm)),
        version_(backend::PtxasVersion(ptxas_)) {}

  int Run(const std::string& write) {
    std::string why, text;
    const auto cases = replay::ReadCorpus(root_, &why);
    if (!cases) return Fail(why);
    std::string solutions;
    (void)ReadFile(root_ + "/tests/replay/solutions.txt", &solutions, &why);
    replay::KeptSolutions store(solutions);
    bool failed = false;
    // Of kernels whose tests always say their tunes the first call.
    for (const bool by_default : {true, false})
      for (const replay::Case& c : *cases) {
        if (c.id.rfind(file_ + ":", 0) != 0 || c.schedule != "solve" || c.target != "h200")
          continue;
        if (!by_default && !compiled_.insert(c.kernel).second) continue;
        DiagSink diags;
        if (One(c, by_default, &store, diags).ok()) continue;
        fmt::print("{}\n{}", c.id, RenderAll(diags, c.loaded->sources));
        failed = true;
      }
    fmt::print(
        "{}: {} kernels with loops of products, {} claims: {} stand, {} earlier, {} partly, {} "
        "lost; "
        "{} kinds may pass a wait, {} moved\n",
        file_, seen_.size(), claims_, standing_, earlier_, partly_, lost_, free_, moved_);
    if (failed) return 1;
    if (!write.empty()) return Write(write);
    std::string accepted;
    if (!ReadFile(root_ + "/tests/sass/expected.txt", &text, &why)) return Fail(why);
    return Judge(ReadExpected(text, file_, &accepted), accepted);
  }

 private:
  static int Fail(const std::string& why) {
    fmt::print("{}\n", why);
    return 1;
  }

  Result<> One(const replay::Case& c, bool by_default, replay::KeptSolutions* store,
               DiagSink& diags) {
    TRY(const frontend::Signature signature,
        frontend::SignatureOf(*c.loaded->program, c.kernel, diags));
    for (const frontend::TuneInfo& tune : signature.tunes)
      if (by_default && c.id.find(" " + tune.name + "=") != std::string::npos) return Done();
    compiled_.insert(c.kernel);
    api::PipelineOptions options;
    options.schedule = c.schedule;
    options.target = c.target;
    options.solutions = store;
    api::Call call = c.call;
    api::ChooseForm(*c.loaded, signature, options, &call);
    options = options.For(call);
    api::Observation look;
    TRY(ir::Function fn, api::MakeTileIr(*c.loaded, c.kernel, call, &look, diags));
    std::string name = file_ + ":" + c.kernel;
    for (const auto& [what, value] : fn.statics) name += fmt::format(" {}={}", what, value);
    if (seen_.count(name)) return Done();
    TRY(fn, api::LowerToWarps(*c.loaded, std::move(fn), options, &look, diags));
    TRY(const backend::KernelImage image, api::MakeImage(*c.loaded, fn, options, &look, diags));
    TRY(const sass::Listing in_ptx, sass::ReadPtx(image.ptx, diags));
    if (in_ptx.loops.empty()) return Done();
    TRY(const backend::PtxasReport assembled,
        backend::Assemble(image.ptx, image.target, ptxas_, diags));
    TRY(const std::string bytes, sass::CodeOf(assembled.cubin, diags));
    TRY(const std::string text, sass::Disassemble(bytes, image.target, nvdisasm_, diags));
    TRY(const sass::Listing in_sass, sass::ReadSass(text, bytes, diags));
    Keep(name, sass::Compare(in_ptx, in_sass), assembled);
    return Done();
  }

  void Keep(const std::string& name, const sass::Report& report,
            const backend::PtxasReport& assembled) {
    const sass::Assembly assembly = {version_, assembled.registers,
                                     assembled.spill_store_bytes + assembled.spill_load_bytes,
                                     assembled.pipeline};
    fmt::print("{}\n{}\n", name, sass::ToText(report, assembly));
    std::vector<std::string>& lines = seen_[name];
    if (assembly.spilled > 0) lines.push_back(fmt::format("spilled {} bytes", assembly.spilled));
    for (const std::string& remark : assembly.remarks) lines.push_back("remark: " + remark);
    if (!report.hazards.empty())
      lines.push_back(fmt::format("uses of registers in flight: {}", report.hazards.size()));
    const std::string counts = sass::ToLines(report);
    for (size_t at = 0; at < counts.size(); at = counts.find('\n', at) + 1)
      lines.push_back(counts.substr(at, counts.find('\n', at) - at));
    claims_ += report.claims;
    free_ += report.free;
    moved_ += report.moved;
    standing_ += report.standing;
    earlier_ += report.earlier;
    partly_ += report.partly;
    lost_ += report.lost;
  }

  int Write(const std::string& path) const {
    std::string out, why;
    for (const auto& [kernel, lines] : seen_) {
      out += kernel + "\n";
      for (const std::string& line : lines) out += "  " + line + "\n";
    }
    return WriteFileAtomically(path, out, &why) ? 0 : Fail(why);
  }

  int Judge(const Kernels& expected, const std::string& accepted) const {
    const bool same = accepted == version_;
    if (!same)
      fmt::print("expected.txt is of ptxas {}, here is {}: only what is worse counts\n", accepted,
                 version_);
    int faults = 0;
    const auto fault = [&](const std::string& kernel, const std::string& text) {
      fmt::print("{}: {}\n", kernel, text);
      ++faults;
    };
    for (const auto& [kernel, lines] : expected)
      if (!seen_.count(kernel)) fault(kernel, "is expected and was not compiled");
    for (const auto& [kernel, lines] : seen_) {
      const auto at = expected.find(kernel);
      if (at == expected.end()) {
        fault(kernel, "is not in expected.txt");
        continue;
      }
      std::map<std::string, int> before;
      for (const std::string& line : at->second) before.insert(Cut(line));
      for (const std::string& line : lines) {
        const auto [what, count] = Cut(line);
        const auto was = before.find(what);
        const bool counted = line.rfind("loop ", 0) == 0 && line.find(" of ") != line.npos;
        const bool was_same = std::count(at->second.begin(), at->second.end(), line) > 0;
        const bool worse = !counted ? !was_same : was != before.end() && count < was->second;
        if (worse || (same && !was_same))
          fault(kernel, fmt::format("{}{}", line,
                                    was == before.end() ? ", not expected"
                                                        : fmt::format(", was {}", was->second)));
        before.erase(what);
      }
      if (same)
        for (const auto& [what, count] : before) fault(kernel, "no longer: " + what);
    }
    if (faults > 0)
      fmt::print(
          "{} lines of tests/sass/expected.txt moved: what is lost no longer runs beside the "
          "products; where that is meant, `scripts/sass --accept`\n",
          faults);
    return faults > 0 ? 1 : 0;
  }

  std::string root_, file_, ptxas_, nvdisasm_, version_;
  Kernels seen_;
  std::set<std::string> compiled_;  // kernels
  int claims_ = 0, standing_ = 0, earlier_ = 0, partly_ = 0, lost_ = 0;
  int free_ = 0, moved_ = 0;
};

int Main(int argc, char** argv) {
  const std::string path = FromEnvironment("PATH"), cuda = FromEnvironment("CUDA_HOME");
  const std::string ptxas = backend::FindPtxas({FromEnvironment("PTXAS"), cuda, path});
  const std::string nvdisasm = sass::FindNvdisasm({FromEnvironment("NVDISASM"), cuda, ptxas, path});
  if (ptxas.empty() || nvdisasm.empty()) {
    fmt::print("SKIP: no {} on this machine\n", ptxas.empty() ? "ptxas" : "nvdisasm");
    return kSkipped;
  }
  const std::string option = "--write=";
  std::string write;
  if (argc == 4 && std::string(argv[3]).rfind(option, 0) == 0)
    write = std::string(argv[3]).substr(option.size());
  if (argc != 3 && write.empty()) return 2;
  return Tester(argv[1], argv[2], ptxas, nvdisasm).Run(write);
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
