// Bundles under hashes that fit, damaged in their index and in their builds: what whoever writes a
// bundle could write. Reading ends with a bundle or with one message; what is read is written and
// read again as the same; launches are planned with whatever opens.
//
// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "runtime/bundle_file.h"
#include "tests/fuzz/run_all.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tilec {
namespace {

using Rng = std::mt19937_64;
constexpr size_t kHeaderBytes = 40;

backend::KernelImage Image(int64_t d, int align) {
  backend::KernelImage k;
  k.name = k.entry = "gemm";
  k.target = "sm_90a";
  k.ptx = ".version 8.0\n.target sm_90a\n.visible .entry gemm() { ret; }\n";
  const Expr m = Expr::Name("M"), n = Expr::Name("D");
  k.tensors = {{"A", "bf16", backend::Direction::kIn, {m, n}, false},
               {"C", "f32", backend::Direction::kOut, {m}, true}};
  k.scalars = {{"scale", "f32"}, {"count", "i32"}};
  k.statics = {{"D", d}};
  k.tensor_maps = {
      {"A", "bf16", {n, m}, {Expr::Make(Expr::Op::kMul, n, Expr::Const(2))}, {64, 64}, {}, 128}};
  using Kind = backend::EntryParam::Kind;
  k.params = {{Kind::kTensorMap, "A", 0, {}, ""},
              {Kind::kTensorPointer, "C", -1, {}, ""},
              {Kind::kInt, "", -1, Expr::Make(Expr::Op::kCeilDiv, m, Expr::Const(64)), ""},
              {Kind::kScalar, "scale", -1, {}, "f32"}};
  k.facts = {{Expr::Make(Expr::Op::kGe, m, Expr::Const(1)), "M >= 1"}};
  k.alignment = {{"A", align}};
  k.grid[0] = Expr::Make(Expr::Op::kCeilDiv, m, Expr::Const(64));
  k.lines = {{1, "gemm.tile", 3, 5, "dot"}};
  k.roles = {{"copy", 0, 1}};
  k.shared = {{"ring", 0, 1024, 2}};
  return k;
}

std::string Good() {
  runtime::Bundle b = {"fuzz",
                       {{Image(64, 16),
                         "\x7f"
                         "ELFcode",
                         {{{"M", 64}}}},
                        {Image(64, 1), "", {{{"M", 64}}, {{"M", 4096}}}},
                        {Image(128, 16), "", {}}}};
  return runtime::WriteBundle(b);
}

uint64_t Number(const std::string& bytes, size_t at, size_t size = 8) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

void Put(std::string* bytes, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) (*bytes)[at + i] = static_cast<char>(value >> (8 * i));
}

uint64_t HashOf(const std::string& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// A bundle taken apart: where the index has each build's length and hash, and the builds' bytes.
struct Parts {
  std::string head, index;
  std::vector<size_t> at;
  std::vector<std::string> builds;

  explicit Parts(const std::string& good) : head(good.substr(0, kHeaderBytes)) {
    index = good.substr(kHeaderBytes, Number(good, 24));
    size_t begin = kHeaderBytes + index.size(), i = 8 + Number(index, 0);
    while (begin < good.size()) {
      for (const int text : {0, 1}) (void)text, i += 8 + Number(index, i);
      at.push_back(i);
      builds.push_back(good.substr(begin, Number(index, i)));
      begin += builds.back().size();
      uint64_t lists = Number(index, i + 16, 4);
      for (i += 20; lists > 0; --lists) {
        uint64_t names = Number(index, i, 4);
        for (i += 4; names > 0; --names) i += 16 + Number(index, i);
      }
    }
  }
};

// An edit of one place.
void Edit(std::string& bytes, Rng& rng) {
  const char* const words[] = {"-1",
                               "9223372036854775807",
                               "-9223372036854775808",
                               "1e999",
                               "null",
                               "[",
                               "{",
                               "]",
                               "}",
                               "\"",
                               ",",
                               ":",
                               "\\u0000",
                               "\"M*M*M*M\"",
                               "\"M/0\"",
                               "\"((((((((\"",
                               "true",
                               "4294967296",
                               "\"A\"",
                               "\xff\xff\xff\xff"};
  if (bytes.empty()) return;
  const size_t at = rng() % bytes.size();
  const size_t digit = bytes.find_first_of("0123456789", at);
  switch (rng() % 6) {
    case 0: bytes[at] = static_cast<char>(rng()); break;
    case 1: bytes.erase(at, rng() % 64); break;
    case 2: bytes.insert(at, words[rng() % std::size(words)]); break;
    case 3: bytes.insert(at, bytes.substr(rng() % bytes.size(), rng() % 200)); break;
    case 4:
      if (digit != std::string::npos) bytes.replace(digit, 1 + rng() % 3, words[rng() % 4]);
      break;
    default:
      if (digit != std::string::npos) bytes[digit] = static_cast<char>('0' + rng() % 10);
  }
}

// Edits of 1 to 4 places, of the builds first, then lengths and hashes that fit. One in eight keeps
// the hashes that were.
std::string Damage(const Parts& good, Rng& rng) {
  Parts parts = good;
  const bool honest = rng() % 8 != 0;
  uint64_t edits = 1 + rng() % 4;
  for (; edits > 0 && rng() % 4 != 0; --edits) {
    const size_t k = rng() % parts.builds.size();
    std::string& build = parts.builds[k];
    Edit(build, rng);
    Put(&parts.index, parts.at[k], build.size());
    if (honest) Put(&parts.index, parts.at[k] + 8, HashOf(build));
  }
  for (; edits > 0; --edits) Edit(parts.index, rng);
  std::string out = parts.head + parts.index;
  for (const std::string& build : parts.builds) out += build;
  Put(&out, 16, out.size());
  Put(&out, 24, parts.index.size());
  if (honest) Put(&out, 32, HashOf(parts.index));
  if (rng() % 32 == 0) out[rng() % kHeaderBytes] = static_cast<char>(rng());
  return out;
}

bool Wrong(const char* what) { return std::printf("%s\n", what), false; }

// What a launch takes of a bundle that opens, whatever its builds are. False: something that must
// not be.
bool Choose(const std::string& bytes) {
  DiagSink diags;
  const auto file = runtime::BundleFile::Open(ByteSource::In(bytes), "k.tilec", diags);
  if (!file.ok()) return diags.errors() == 1 || Wrong("not opened, with more than one error");
  for (const uint64_t address : {uint64_t{0x1000}, uint64_t{0x1004}, uint64_t{0}}) {
    runtime::LaunchArgs args;
    args.tensors["A"] = {"bf16", address, {100, 64}, {}};
    args.tensors["C"] = {"f32", 0x2000, {100}, {}};
    args.scalars["scale"] = 0.5;
    args.scalars["count"] = int64_t{3};
    for (const std::string& kernel : (*file)->kernels()) {
      DiagSink said;
      const auto choice = runtime::ChooseBuild(**file, kernel, "sm_90a", args, said);
      if (choice.ok() ? *choice >= (*file)->size() : said.errors() != 1)
        return Wrong("a choice without a build or a message");
    }
  }
  return true;
}

// False: something that must not be.
bool One(const Parts& good, Rng& rng, uint64_t* accepted) {
  const std::string& bytes = fuzz::Last().text = Damage(good, rng);
  if (!Choose(bytes)) return false;
  DiagSink diags;
  const auto bundle = runtime::ReadBundle(bytes, "k.tilec", diags);
  if (bundle.ok() == diags.has_errors()) return Wrong("read with an error, or refused without");
  if (!bundle.ok()) return diags.errors() == 1 || Wrong("refused with more than one error");
  ++*accepted;
  const std::string again = runtime::WriteBundle(*bundle);
  const auto second = runtime::ReadBundle(again, "again", diags);
  if (!second.ok() || runtime::WriteBundle(*second) != again)
    return Wrong("what was read is written as something else");
  return true;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) {
  using namespace tilec;
  CLI::App app("bundles, damaged under a hash that fits");
  fuzz::Inputs inputs(app, "--bundles");
  CLI11_PARSE(app, argc, argv);
  const Parts good(Good());
  uint64_t bundles = 0, accepted = 0;
  const auto one = [&](uint64_t seed) {
    Rng rng(seed);
    return One(good, rng, &accepted);
  };
  if (!fuzz::RunAll(inputs, 1, &bundles, one)) return 1;
  std::printf("seed %llu: %llu bundles, %llu read, %.0f s\n",
              static_cast<unsigned long long>(inputs.seed),
              static_cast<unsigned long long>(bundles), static_cast<unsigned long long>(accepted),
              inputs.Seconds());
  // A fuzzer of which nothing gets past the reader tests the reader's first line only.
  return inputs.only > 0 || accepted * 50 > bundles ? 0 : 1;
}
