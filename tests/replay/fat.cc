// What a bundle for two machines holds: has each build of the one a counterpart of the other, with
// the same values and the same facts of its tensors? And which of its programs are those of the
// replay (expected.txt), to the byte?
//
//   fat BUNDLE ONE OTHER [EXPECTED]
//
// ONE and OTHER are architectures (sm_90a sm_100a). EXPECTED: lines of the replay, or another
// bundle; of the programs for ONE it is counted how many are among theirs. Fails where a
// counterpart is missing.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "runtime/bundle.h"
#include "runtime/kernel_cache.h"

namespace tilec {
namespace {

std::string TextOf(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string HashOf(const std::string& ptx) {  // as tests/replay/line.cc
  return runtime::CacheKey().Add("ptx", ptx).Hex().substr(0, 16);
}

std::string KeyOf(const backend::KernelImage& image, int nth) {
  std::string key = image.name;
  for (const auto& [name, value] : image.statics) key += fmt::format(" {}={}", name, value);
  return fmt::format("{} #{}", key, nth);
}

// Of a bundle, or of lines of the replay.
std::set<std::string> ProgramsOf(const char* path, DiagSink& diags) {
  std::set<std::string> programs;
  const std::string text = TextOf(path);
  if (text.starts_with("tilecbdl")) {
    if (const auto bundle = runtime::ReadBundle(text, path, diags); bundle.ok())
      for (const runtime::Build& build : bundle->builds) programs.insert(HashOf(build.image.ptx));
    return programs;
  }
  constexpr std::string_view kMark = ": ptx ";
  for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1))
    programs.insert(text.substr(at + kMark.size(), 16));
  return programs;
}

int Main(int argc, char** argv) {
  if (argc < 4) return 2;
  DiagSink diags;
  const Result<runtime::Bundle> bundle = runtime::ReadBundle(TextOf(argv[1]), argv[1], diags);
  if (!bundle.ok()) return fmt::print("{} is no bundle\n", argv[1]), 2;
  std::map<std::string, std::set<std::string>> keys;  // by target
  std::map<std::string, std::string> hash_of;         // of ONE's programs
  std::map<std::string, int> nth;
  std::map<std::string, std::set<std::string>> kernels;
  int64_t bytes = 0, assembled = 0;
  for (const runtime::Build& build : bundle->builds) {
    const std::string& target = build.image.target;
    // Builds of the same values are of aligned and of any tensors, in this order.
    const std::string plain = KeyOf(build.image, 0);
    const std::string key = KeyOf(build.image, nth[target + plain]++);
    keys[target].insert(key);
    kernels[target].insert(build.image.name);
    if (target == argv[2]) hash_of[key] = HashOf(build.image.ptx);
    bytes += static_cast<int64_t>(build.image.ptx.size());
    assembled += !build.cubin.empty();
  }
  for (const auto& [target, of] : keys)
    fmt::print("{}: {} builds of {} kernels\n", target, of.size(), kernels[target].size());
  fmt::print("{} bytes of PTX, {} of {} builds with machine code\n", bytes, assembled,
             bundle->builds.size());
  int missing = 0;
  for (const auto& [a, b] : {std::pair{argv[2], argv[3]}, std::pair{argv[3], argv[2]}})
    for (const std::string& kernel : kernels[a])
      if (!kernels[b].count(kernel)) fmt::print("{} has no {}\n", b, kernel), ++missing;
  // A form that is one program for both kinds of tensors on one machine may be two on the other.
  for (const auto& [a, b] : {std::pair{argv[2], argv[3]}, std::pair{argv[3], argv[2]}})
    for (const std::string& key : keys[a])
      if (key.ends_with("#0") && !keys[b].count(key))
        fmt::print("{} has no {}\n", b, key), ++missing;
  if (argc > 4) {
    const std::set<std::string> known = ProgramsOf(argv[4], diags);
    int same = 0;
    for (const auto& [key, hash] : hash_of)
      if (known.count(hash))
        ++same;
      else
        fmt::print("not there: {} {}\n", key, hash);
    fmt::print("{} of {} programs for {} are those of {}\n", same, hash_of.size(), argv[2],
               std::string(argv[4]).substr(std::string(argv[4]).rfind('/') + 1));
  }
  return missing > 0;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
