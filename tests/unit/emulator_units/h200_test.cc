// Exact arithmetic against recorded outputs of silicon.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/mma_sync.h"
#include "runtime/emulator/wgmma.h"

namespace tilec::runtime::emulator {
namespace {

struct Recorded {
  std::string instruction;
  Element d, a, b;
  int parameter;  // flags of wgmma, k of mma
  std::vector<uint32_t> row, column;
  uint32_t c, result;
};

std::vector<Recorded> Read() {
  std::ifstream file(std::string(TILEC_SOURCE_DIR) +
                     "/tests/unit/emulator_units/h200_tensor_cores.txt");
  std::vector<Recorded> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Recorded r;
    std::string d, a, b;
    words >> r.instruction >> d >> a >> b >> r.parameter >> std::hex;
    r.d = *ElementFromName(d), r.a = *ElementFromName(a), r.b = *ElementFromName(b);
    const int size = static_cast<int>(ElementBytes(r.a));
    const int k = r.instruction == "mma" ? r.parameter : 32 / size;
    r.row.resize(k), r.column.resize(k);
    for (auto& x : r.row) words >> x;
    for (auto& x : r.column) words >> x;
    words >> r.c >> r.result;
    EXPECT_FALSE(words.fail()) << line;
    all.push_back(r);
  }
  return all;
}

// Output (0, 0) of a wgmma whose first row of A and column of B are the recorded ones.
uint32_t RunWgmma(const Recorded& r) {
  WgmmaShape s = {.n = 8, .a = r.a, .b = r.b, .d = r.d};
  s.negate_a = r.parameter & 1;
  s.satfinite = r.parameter & 2;
  const int size = static_cast<int>(ElementBytes(r.a));
  std::vector<uint8_t> smem(4096);
  for (int i = 0; i < s.k(); i++) {
    // No swizzle, K-major: 16-byte chunks, the second 1024 bytes on.
    const int at = i * size / 16 * 1024 + i * size % 16;
    std::memcpy(&smem[at], &r.row[i], size);
    std::memcpy(&smem[2048 + at], &r.column[i], size);
  }
  std::vector<uint32_t> cells(4 * 128 * 32);
  WgmmaRegisters registers;
  for (int w = 0; w < 4; w++) {
    for (int i = 0; i < 128; i++) registers.acc[w][i] = &cells[(w * 128 + i) * 32];
  }
  cells[0] = r.c;
  const uint64_t descriptor = uint64_t{1024 >> 4} << 16 | uint64_t{128 >> 4} << 32;
  std::string error;
  EXPECT_TRUE(Wgmma(s, {descriptor, descriptor | 2048 >> 4, true, {smem.data(), 4096}}, registers,
                    Arithmetic::kExact, &error))
      << error;
  return r.d == Element::kF16 ? cells[0] & 0xffff : cells[0];
}

uint32_t RunMma(const Recorded& r) {
  const MmaShape s = {.k = r.parameter, .a = r.a, .b = r.b, .c = r.d, .d = r.d};
  const int size = static_cast<int>(ElementBytes(r.a));
  uint32_t a[4][32] = {}, b[4][32] = {}, d[4][32] = {};
  for (int i = 0; i < s.k; i++) {
    const int byte = i * size;
    const int lane = byte % 16 / 4;
    std::memcpy(reinterpret_cast<uint8_t*>(&a[byte / 16 * 2][lane]) + byte % 4, &r.row[i], size);
    std::memcpy(reinterpret_cast<uint8_t*>(&b[byte / 16][lane]) + byte % 4, &r.column[i], size);
  }
  d[0][0] = r.c;
  const uint32_t* pa[] = {a[0], a[1], a[2], a[3]};
  const uint32_t* pb[] = {b[0], b[1], b[2], b[3]};
  uint32_t* pd[] = {d[0], d[1], d[2], d[3]};
  MmaSync(s, pa, pb, pd, pd, Arithmetic::kExact);
  return r.d == Element::kF16 ? d[0][0] & 0xffff : d[0][0];
}

TEST(H200, ExactArithmeticIsTheHardwares) {
  std::map<std::string, int> lines;
  for (const Recorded& r : Read()) {
    const uint32_t got = r.instruction == "wgmma" ? RunWgmma(r) : RunMma(r);
    EXPECT_EQ(got, r.result) << r.instruction << " " << ElementName(r.d) << "." << ElementName(r.a)
                             << "." << ElementName(r.b) << " parameter " << r.parameter;
    lines[r.instruction]++;
  }
  EXPECT_EQ(lines["wgmma"], 240);
  EXPECT_EQ(lines["mma"], 260);
}

}  // namespace
}  // namespace tilec::runtime::emulator
