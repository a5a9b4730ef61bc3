// Small warp programs in text, put together from parts, and what the verifier says of them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/warp_check/check.h"
#include "tests/unit/h200.h"

namespace tilec::ir {

// The code of the first finding, "" if the program is proved; `text` receives the report.
inline std::string Verdict(const std::string& program, std::string* text = nullptr,
                           WarpCheckStats* stats = nullptr) {
  DiagSink diags;
  SourceMap sources;
  const Result<Function> fn = ParseFunction(program, diags);
  if (!fn.ok() || !Verify(*fn, diags).ok()) {
    ADD_FAILURE() << RenderAll(diags, sources) << program;
    return "not IR";
  }
  const auto result = CheckWarps(*fn, WarpCheckOptions(H200()), diags);
  if (text) *text = RenderAll(diags, sources);
  if (result.ok()) {
    if (stats) *stats = *result;
    return "";
  }
  return diags.all()[0].def->name;
}

// `program` with the first `from` replaced; the test fails if there is none.
inline std::string With(std::string program, const std::string& from, const std::string& to) {
  const size_t at = program.find(from);
  if (at == std::string::npos) ADD_FAILURE() << "no `" << from << "` in\n" << program;
  return at == std::string::npos ? program : program.replace(at, from.size(), to);
}

inline std::string Without(std::string program, const std::string& part) {
  return With(std::move(program), part, "");
}

// A kernel of `warps` warps: tensors A and B [M, K], lens [M], O; one map per tensor of 64 x 64.
inline std::string Kernel(int warps, const std::string& body) {
  return fmt::format(R"(func @t warp {{
  layout #0 = rank 2 t(4:1*2 8:0*1 4:0*16) r(2:1*1 2:0*8 8:1*8)
  param tensor %A: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %B: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %L: tensor<i64, 1> in [M] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %O: tensor<bf16, 2> out [M, K] align=16 stride_align=16 contiguous=1 last_align=8
  param dim %M: i64
  param dim %K: i64
  launch warps={} smem=131072 grid=1
  map %A dims=[1, 0] box=[64, 64] swizzle=128
  map %B dims=[1, 0] box=[64, 64] swizzle=128
  map %O dims=[1, 0] box=[64, 64] swizzle=128
  body {{
    %zero = constant {{value = 0}} : i64
    %i0 = constant {{value = 0}} : i32
    %i1 = constant {{value = 1}} : i32
    %i2 = constant {{value = 2}} : i32
    %i3 = constant {{value = 3}} : i32
    %c64 = constant {{value = 64}} : i64
    {}
  }}
}}
)",
                     warps, body);
}

inline constexpr const char* kTile = "bf16[64, 64], rows=64, cols=64, panel=64, swizzle=128";

// A ring of `depth` slots of `buffer` with barriers full and empty, for `arrivals` releases.
inline std::string Ring(const std::string& name, int offset, int barriers, int depth) {
  return fmt::format(
      "%{0} = smem_alloc {{offset = {1}}} : smem<{2}, depth={4}>\n"
      "%{0}f = mbar_alloc {{offset = {3}}} : mbar<{4}>\n"
      "%{0}e = mbar_alloc {{offset = {5}}} : mbar<{4}>\n",
      name, offset, kTile, 120000 + barriers, depth, 120000 + barriers + 8 * depth);
}

inline std::string Init(const std::string& inits) {
  return "elect do {\n" + inits + "fence_mbar_init\nyield\n}\ncta_sync {id = 0}\n";
}
inline std::string InitRing(const std::string& name, int puts, int releases) {
  return fmt::format("mbar_init %{0}f {{count = {1}}}\nmbar_init %{0}e {{count = {2}}}\n", name,
                     puts, releases);
}

inline std::string Role(const std::string& name, int first, int warps, const std::string& body,
                        int regs = 0) {
  return fmt::format(
      "role {{name = \"{}\", first_warp = {}, warps = {}, regs = {}}} do {{\n{}yield\n}}\n", name,
      first, warps, regs, body);
}

// Slot %s<tag> and parity %p<tag> of the transfer a counter is at; `side`: "f" or "e".
inline std::string Next(const std::string& ring, const std::string& counter, const std::string& tag,
                        int depth, const std::string& side) {
  return fmt::format(
      "%n{2} = counter_read %{1} : i32\n%d{2} = constant {{value = {3}}} : i32\n"
      "%s{2} = mod %n{2}, %d{2} : i32\n%t{2} = div %n{2}, %d{2} : i32\n"
      "%q{2} = and %t{2}, %i1 : i32\n{5}"
      "mbar_wait %{0}{4}, {6}, %s{2}\ncounter_add %{1} {{by = 1}}\n",
      ring, counter, tag, depth, side,
      side == "e" ? fmt::format("%p{0} = xor %q{0}, %i1 : i32\n", tag) : "",
      side == "e" ? "%p" + tag : "%q" + tag);
}

// The producer's half of one transfer.
inline std::string Put(const std::string& ring, const std::string& counter, const std::string& tag,
                       int depth, const std::string& position) {
  return Next(ring, counter, tag, depth, "e") +
         fmt::format(
             "elect do {{\nmbar_expect %{0}f, %s{1} {{bytes = 8192}}\n"
             "tma_load %{0}, %{0}f, {2}, %zero, %s{1} {{map = 0, offset = 0, slotted = 1}}\n"
             "yield\n}}\n",
             ring, tag, position);
}

// The consumer's: awaits, reads by ordinary loads, fences, releases.
inline std::string Take(const std::string& ring, const std::string& counter, const std::string& tag,
                        int depth) {
  return Next(ring, counter, tag, depth, "f") +
         fmt::format(
             "%x{1} = smem_load %{0}, %s{1} : bf16[64, 64]#0\nfence_async\n"
             "elect {{scope = \"warp\"}} do {{\nmbar_arrive %{0}e, %s{1}\nyield\n}}\n",
             ring, tag);
}

inline std::string Counter(const std::string& name) {
  return "%" + name + " = counter {init = 0} : counter\n";
}
inline std::string For(const std::string& lo, const std::string& hi, int step,
                       const std::string& position, const std::string& body) {
  return fmt::format("for {}, {} {{step = {}}} do ({}: i64) {{\n{}yield\n}}\n", lo, hi, step,
                     position, body);
}
inline std::string If(const std::string& condition, const std::string& yes,
                      const std::string& no = "") {
  return fmt::format("if {} do {{\n{}yield\n}} do {{\n{}yield\n}}\n", condition, yes, no);
}
inline std::string Less(const std::string& name, const std::string& a, const std::string& b) {
  return fmt::format("{} = cmp {}, {} {{pred = \"lt\"}} : bool\n", name, a, b);
}
inline std::string Plus(const std::string& name, const std::string& a, int b) {
  return fmt::format("{0}c = constant {{value = {2}}} : i64\n{0} = add {1}, {0}c : i64\n", name, a,
                     b);
}

// Turn i issues its product and awaits that of turn i - 1.
inline constexpr const char* kOverlapped =
    R"(%e = for %zero, %K, %z {step = 64} : f32[64, 64]#0 do (%j: i64, %acc: f32[64, 64]#0) {
NEXT
%g = mma_fence %acc : f32[64, 64]#0
%m = mma %g, %r, %r, %sc, %sc
    {k = 64, split = "m", trans_a = 0, trans_b = 0, zero = 0, k_begin = 0} : f32[64, 64]#0
mma_commit
mma_wait {pending = 1}
%first = cmp %zero, %j {pred = "lt"} : bool
if %first do {
  %before = constant {value = 2} : i32
  %c = add %nc, %before : i32
  %old = mod %c, %dc : i32
  elect {scope = "warp"} do {
    mbar_arrive %re, %old
    yield
  }
  yield
} do {
  yield
}
yield %m
}
%w = mma_wait %e {pending = 0} : f32[64, 64]#0
)";

inline std::string Overlapped() {
  const std::string take = With(kOverlapped, "NEXT\n", Next("r", "cc", "c", 3, "f"));
  return Kernel(
      8, Ring("r", 0, 0, 3) + Init(InitRing("r", 1, 4)) +
             Role("load", 4, 1,
                  Counter("lc") + For("%zero", "%K", 64, "%k", Put("r", "lc", "l", 3, "%k"))) +
             Role("compute", 0, 4,
                  Counter("cc") + "%z = constant {value = 0} : f32[64, 64]#0\n" + take));
}

}  // namespace tilec::ir
