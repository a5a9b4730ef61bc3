// Tensor maps that nobody should make: map_fuzz [--seconds=S | --maps=N] [--seed=N]
//
// A map is data of the program: a kernel can write all of its 128 bytes, checksum and all.
// Descriptors that are nearly right are encoded, bytes of encoded ones are changed and signed
// again, and what is still a map is used for loads, stores and reductions of small boxes: every
// byte of global memory that is touched must have been asked for, no byte of shared memory outside
// may change, and what is refused must say why. No device, no text: some hundred thousand a second
// of one core, so that a night tries billions. Build with TILEC_SANITIZE for the full effect.
//
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/emulator/tensor_map.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/last_input.h"

namespace {

using namespace tilec;                     // NOLINT: a test program
using namespace tilec::runtime;            // NOLINT
using namespace tilec::runtime::emulator;  // NOLINT

struct Dice {
  uint64_t state;
  uint64_t operator()() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
  }
  uint64_t operator()(uint64_t n) { return (operator()() >> 17) % n; }
};

constexpr uint32_t kShared = 16384;
constexpr uint64_t kGlobal = 1 << 16;
constexpr uint64_t kMostBox =
    1 << 16;  // bytes of a box that is moved, so that a map costs microseconds

uint64_t Checksum(const TensorMap& map) {
  uint64_t sum = 0xcbf29ce484222325ull;
  for (size_t k = 0; k < 120; ++k) sum = (sum ^ map.bytes[k]) * 0x100000001b3ull;
  return sum;
}

// As a kernel would that knows the encoding (tensor_map.cc).
void Sign(TensorMap* map) {
  std::memset(map->bytes + 8, 0, 8);
  const uint64_t sum = Checksum(*map);
  std::memcpy(map->bytes + 8, &sum, 8);
}

class Fuzzer {
 public:
  uint64_t encoded = 0, decoded = 0, moved = 0;

  Fuzzer() : global_(kGlobal), shared_(kShared + 2 * kGuard) {}

  // False: something that must not be.
  bool One(Dice dice) {
    TensorMap map;
    if (good_.empty() || dice(4) == 0) {
      if (!Encode(dice, &map)) return failed_ == nullptr;
    } else {
      map = good_[dice(good_.size())];
    }
    if (dice(4) != 0) {
      for (uint64_t n = 1 + dice(3); n > 0; --n) Change(dice, &map);
      if (dice(16) != 0) Sign(&map);
    }
    TensorMapInfo info;
    std::string why;
    if (!DecodeTensorMap(map.bytes, &info, dice(8) == 0 ? &why : nullptr)) return true;
    ++decoded;
    return Use(dice, info);
  }
  const char* failed() const { return failed_; }

 private:
  static constexpr size_t kGuard = 256;

  bool Encode(Dice& dice, TensorMap* map) {
    static constexpr const char* kTypes[] = {"bf16", "f16", "f32", "tf32", "e4m3", "s8", "u8",
                                             "s32",  "u16", "s64", "f64",  "u32",  "b4", ""};
    static constexpr int kSwizzles[] = {0, 32, 64, 128, 16, -1};
    TensorMapDesc d;
    d.dtype = kTypes[dice(std::size(kTypes))];
    d.base = Base() + dice(64) * 16 + (dice(16) == 0 ? dice(16) : 0);
    const uint64_t rank = dice(32) == 0 ? dice(8) : 1 + dice(5);
    uint64_t stride = 16 * (1 + dice(16));
    for (uint64_t k = 0; k < rank; ++k) {
      d.dims.push_back(dice(64) == 0 ? dice() : 1 + dice(40));
      if (k > 0) d.strides_bytes.push_back(dice(64) == 0 ? dice() : stride);
      if (k > 0) stride *= 1 + dice(4);
      d.box.push_back(dice(64) == 0 ? static_cast<uint32_t>(dice())
                                    : static_cast<uint32_t>(k == 0 ? 8 << dice(4) : 1 + dice(8)));
      if (dice(8) == 0 && d.element_strides.size() == k)
        d.element_strides.push_back(static_cast<uint32_t>(1 + dice(9)));
    }
    d.swizzle_bytes = kSwizzles[dice(dice(16) == 0 ? 6 : 4)];
    d.fill_nan = dice(4) == 0;
    DiagSink diags;
    const auto made = EncodeTensorMap(d, diags);
    if (!made.ok()) {
      if (!diags.has_errors()) failed_ = "refused without a diagnostic";
      return false;
    }
    ++encoded;
    if (good_.size() < 4096)
      good_.push_back(*made);
    else
      good_[dice(good_.size())] = *made;
    *map = *made;
    return true;
  }

  void Change(Dice& dice, TensorMap* map) {
    static constexpr uint64_t kValues[] = {
        0,   1,   2,    3,     4,        7,   8,     9,          15,         16,        255,
        256, 257, 4096, 65535, 1u << 31, ~0u, ~0ull, 1ull << 63, 0x7fffffff, 1ull << 40};
    const size_t at = dice(120);
    const size_t wide = size_t{1} << dice(4);
    const uint64_t value = dice(3) == 0 ? dice() : kValues[dice(std::size(kValues))];
    std::memcpy(map->bytes + at, &value, std::min(wide, 120 - at));
  }

  uint64_t Base() const { return reinterpret_cast<uint64_t>(global_.data()); }

  bool Use(Dice& dice, const TensorMapInfo& info) {
    int32_t coords[5];
    for (int32_t& c : coords)
      c = dice(16) == 0 ? static_cast<int32_t>(dice()) : static_cast<int32_t>(dice(80)) * 4 - 40;
    const auto offset = static_cast<uint32_t>(dice(16) == 0 ? dice() : dice(128) * 128);
    // What is not asked for is poison: a redzone of the allocation lies behind it.
    bool outside = false;
    const GlobalCheck check = [&](uint64_t address, uint64_t bytes, bool) {
      const bool in = address >= Base() && bytes <= kGlobal && address - Base() <= kGlobal - bytes;
      outside = outside || !in;
      return in;
    };
    const uint64_t kind = dice(3);
    const auto op = static_cast<TmaReduceOp>(dice(8));
    const std::optional<TmaReduceOp> reduces = kind == 2 ? std::optional(op) : std::nullopt;
    const TmaResult asked = TmaCheck(info, coords, {kind != 0, reduces}, kShared, offset, check);
    if (asked.ok() && outside) return failed_ = "asked for memory that is not there", false;
    if (!asked.ok())
      return dice(64) != 0 || !Describe(asked, info, offset).empty() ||
             (failed_ = "refused, and nothing to say", false);
    if (asked.bytes > kMostBox) return true;
    ++moved;
    uint8_t* smem = shared_.data() + kGuard;
    const uint8_t mark = static_cast<uint8_t>(dice());
    std::memset(shared_.data(), mark, kGuard);
    std::memset(smem + kShared, mark, kGuard);
    const BoxSource from = {smem, kShared, offset};
    const TmaResult done = kind == 0   ? TmaLoad(info, coords, smem, kShared, offset, check)
                           : kind == 1 ? TmaStore(info, coords, from, check)
                                       : TmaReduce(info, coords, op, from, check);
    if (!done.ok() || done.bytes != asked.bytes)
      return failed_ = "checked, and then refused", false;
    for (size_t k = 0; k < kGuard; ++k)
      if (shared_[k] != mark || smem[kShared + k] != mark)
        return failed_ = "bytes beside shared memory changed", false;
    uint64_t covered = 0;
    ForEachBoxRun(info, offset, [&](uint32_t at, uint32_t bytes) {
      covered += bytes;
      if (at > kShared || bytes > kShared - at) failed_ = "a run outside of shared memory";
    });
    return failed_ == nullptr &&
           (covered == asked.bytes || (failed_ = "runs of other sizes", false));
  }

  std::vector<uint8_t> global_, shared_;
  std::vector<TensorMap> good_;
  const char* failed_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("tensor maps, forged");
  fuzz::Inputs inputs(app, "--maps");
  CLI11_PARSE(app, argc, argv);
  fuzz::ShowLastInputOnDeath();
  Fuzzer fuzzer;
  uint64_t maps = 0;
  for (uint64_t k; inputs.Next(maps, &k);) {
    // Maps that were encoded before are changed: an input is made again from the start of its
    // block.
    constexpr uint64_t kBlock = 4096;
    for (uint64_t n = 0; n < kBlock; ++n, ++maps) {
      fuzz::Last().seed = inputs.seed, fuzz::Last().index = k;
      if (fuzzer.One({fuzz::InputSeed(inputs.seed, k * kBlock + n) | 1})) continue;
      std::printf("block %llu, map %llu: %s\n", static_cast<unsigned long long>(k),
                  static_cast<unsigned long long>(n), fuzzer.failed());
      return 1;
    }
  }
  std::printf("seed %llu: %llu maps, %llu encoded, %llu still maps, %llu moved, %.0f s\n",
              static_cast<unsigned long long>(inputs.seed), static_cast<unsigned long long>(maps),
              static_cast<unsigned long long>(fuzzer.encoded),
              static_cast<unsigned long long>(fuzzer.decoded),
              static_cast<unsigned long long>(fuzzer.moved), inputs.Seconds());
  inputs.PrintSlowest();
  return fuzzer.moved > 0 && fuzzer.decoded < maps ? 0 : 1;
}
