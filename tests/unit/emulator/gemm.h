// A warp-specialised bf16 GEMM (TMA, mbarrier ring, wgmma, setmaxnreg) as a CUDA compiler emits it,
// with its inputs and its reference.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>

#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {

inline constexpr int kSize = 512;

inline uint16_t ToBf16(float x) {
  uint32_t b;
  memcpy(&b, &x, 4);
  return static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
inline float FromBf16(uint16_t x) {
  uint32_t b = uint32_t{x} << 16;
  float f;
  memcpy(&f, &b, 4);
  return f;
}

struct Gemm {
  Emu emu;
  std::vector<uint16_t> a, b;
  uint64_t dc = 0;
  TensorMap map_a, map_b;

  explicit Gemm(EmulatorOptions options = {}) : emu(options), a(kSize * kSize), b(kSize * kSize) {
    std::mt19937 rng(7);
    std::normal_distribution<float> normal;
    for (auto& x : a) x = ToBf16(normal(rng));
    for (auto& x : b) x = ToBf16(normal(rng));
    uint64_t da = emu.Upload(a), db = emu.Upload(b);
    dc = emu.Upload(std::vector<uint16_t>(kSize * kSize));
    map_a = Encode(da);
    map_b = Encode(db);
  }
  TensorMap Encode(uint64_t base) {
    TensorMapDesc d;
    d.dtype = "bf16";
    d.base = base;
    d.dims = {kSize, kSize};
    d.strides_bytes = {kSize * 2};
    d.box = {64, 128};
    d.swizzle_bytes = 128;
    auto m = emu.device->EncodeTensorMap(d, emu.diags);
    EXPECT_TRUE(m.ok()) << emu.Text();
    return m.ok() ? *m : TensorMap{};
  }
  bool Run(const std::string& ptx, LaunchStats* stats = nullptr) {
    if (!emu.Load(ptx)) return false;
    LaunchConfig config;
    config.grid[0] = config.grid[1] = kSize / 128;
    config.block[0] = 384;
    config.smem_bytes = 4 * 32768 + 64;
    return emu.Launch("gemm", config,
                      {KernelArg::Of(map_a), KernelArg::Of(map_b), KernelArg::Of(dc),
                       KernelArg::Of(int32_t{kSize}), KernelArg::Of(int32_t{kSize})},
                      stats);
  }
  void Check() {
    auto c = emu.Download<uint16_t>(dc, kSize * kSize);
    int bad = 0;
    for (int m = 0; m < kSize; m += 7) {
      for (int n = 0; n < kSize; ++n) {
        double want = 0, magnitude = 0;
        for (int k = 0; k < kSize; ++k) {
          double p = double{FromBf16(a[m * kSize + k])} * FromBf16(b[n * kSize + k]);
          want += p;
          magnitude += std::abs(p);
        }
        double got = FromBf16(c[m * kSize + n]);
        if (std::abs(got - want) > std::abs(want) / 256 + magnitude * 1e-5) ++bad;
      }
    }
    EXPECT_EQ(bad, 0);
  }
};

inline std::string Ptx() { return ReadText("tests/unit/emulator/ptx/gemm_wgmma.ptx"); }

// Replaces the n-th occurrence (from 0) of `what`.
inline std::string Replace(std::string s, const std::string& what, const std::string& with,
                           int n = 0) {
  size_t p = s.find(what);
  while (n-- > 0 && p != std::string::npos) p = s.find(what, p + 1);
  EXPECT_NE(p, std::string::npos) << what;
  if (p != std::string::npos) s.replace(p, what.size(), with);
  return s;
}

}  // namespace tilec::runtime
