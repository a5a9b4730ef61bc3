// Rows of the instruction table → spellings.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

struct Token {
  std::vector<std::string> choices;
  bool optional = false, type = false;
};

std::vector<std::string> Expand(std::string_view word) {
  if (word == "L1::*") return {"L1::no_allocate", "L1::evict_last"};
  if (word == "L2::*") return {"L2::128B", "L2::evict_last"};
  if (word == "tensormap::*") return {"tensormap::generic"};
  if (word == "sync_restrict::*") return {};
  if (word == "*") return {"async", "alias", "async.global", "async.shared::cta"};
  if (word == "m64*") return {"m64n8k", "m64n64k", "m64n96k", "m64n256k"};
  return {std::string(word)};
}

std::vector<Token> Tokens(std::string_view mods) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < mods.size();) {
    size_t end = std::min(mods.find(' ', at), mods.size());
    std::string_view word = mods.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    Token t;
    t.optional = word[0] == '[';
    t.type = word[0] == '<';
    if (word[0] == '[' || word[0] == '<' || word[0] == '(') word = word.substr(1, word.size() - 2);
    for (size_t p = 0; p <= word.size();) {
      size_t bar = std::min(word.find('|', p), word.size());
      for (std::string& s : Expand(word.substr(p, bar - p))) t.choices.push_back(std::move(s));
      p = bar + 1;
    }
    tokens.push_back(std::move(t));
  }
  return tokens;
}

}  // namespace

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
#define PTX(opcode, mods, operands, builder, argument, collective) {opcode, mods, operands},
#include "runtime/emulator/ptx_isa.def"
#undef PTX
  };
  return rows;
}

bool Variant::Has(std::string_view mod) const {
  return std::find(mods.begin(), mods.end(), mod) != mods.end();
}

std::string Variant::Text() const {
  return mods.empty() ? opcode : fmt::format("{}.{}", opcode, fmt::join(mods, "."));
}

// Forms that nobody has written cases for: of machines that came later than the recordings, or with
// operands that cases have not.
static bool WithoutCases(const Row& r) {
  if (r.opcode == "tensormap" || r.opcode == "clusterlaunchcontrol") return true;
  for (const std::string_view word : {"b128", "f32x2", "cp_mask", "gather4", "scatter4"})
    if (r.mods.find(word) != std::string_view::npos) return true;
  return r.opcode == "st" && r.mods.substr(0, 4) == "bulk";
}

std::vector<Variant> Variants(size_t row) {
  const Row& r = Rows()[row];
  if (WithoutCases(r)) return {};
  const std::vector<Token> tokens = Tokens(r.mods);
  std::vector<size_t> optional;
  for (size_t k = 0; k < tokens.size(); ++k)
    if (tokens[k].optional) optional.push_back(k);
  // Which options are on: none, one, or two that matter together.
  std::vector<std::vector<size_t>> sets = {{}};
  for (size_t k : optional) sets.push_back({k});
  if (optional.size() <= 4)
    for (size_t a = 0; a < optional.size(); ++a)
      for (size_t b = a + 1; b < optional.size(); ++b) sets.push_back({optional[a], optional[b]});
  std::vector<Variant> out;
  for (const std::vector<size_t>& on : sets) {
    std::vector<Variant> open(1);
    open[0].row = row;
    open[0].opcode = r.opcode;
    for (size_t k = 0; k < tokens.size(); ++k) {
      const Token& t = tokens[k];
      if (t.optional && std::find(on.begin(), on.end(), k) == on.end()) continue;
      std::vector<Variant> next;
      for (const Variant& v : open) {
        for (const std::string& choice : t.choices) {
          next.push_back(v);
          next.back().mods.push_back(choice);
          if (t.type) next.back().types.push_back(choice);
        }
      }
      open = std::move(next);
    }
    for (Variant& v : open) out.push_back(std::move(v));
  }
  return out;
}

std::vector<Case> Cases(const Variant& v) {
  std::vector<Case> out;
  LaneCases(v, &out);
  MemoryCases(v, &out);
  CopyCases(v, &out);
  SyncCases(v, &out);
  MatrixCases(v, &out);
  for (Case& c : out) c.row = v.row;
  return out;
}

std::vector<Case> AllCases() {
  std::vector<Case> all;
  std::vector<std::string> seen;
  for (size_t row = 0; row < Rows().size(); ++row)
    for (const Variant& v : Variants(row))
      for (Case& c : Cases(v)) all.push_back(std::move(c));
  // Rows overlap; the first one that can spell a name owns it.
  std::vector<size_t> order(all.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return all[a].name < all[b].name; });
  std::vector<bool> drop(all.size());
  for (size_t k = 1; k < order.size(); ++k)
    if (all[order[k]].name == all[order[k - 1]].name && all[order[k]].row == all[order[k - 1]].row)
      drop[order[k]] = true;
  std::vector<Case> kept;
  for (size_t k = 0; k < all.size(); ++k)
    if (!drop[k]) kept.push_back(std::move(all[k]));
  return kept;
}

int TypeBits(std::string_view type) {
  static constexpr std::pair<std::string_view, int> kBits[] = {
      {"u8", 8},    {"s8", 8},    {"b8", 8},     {"u16", 16},    {"s16", 16},    {"b16", 16},
      {"u32", 32},  {"s32", 32},  {"b32", 32},   {"u64", 64},    {"s64", 64},    {"b64", 64},
      {"f16", 16},  {"bf16", 16}, {"f16x2", 32}, {"bf16x2", 32}, {"f32", 32},    {"f64", 64},
      {"tf32", 32}, {"e4m3", 8},  {"e5m2", 8},   {"e4m3x2", 16}, {"e5m2x2", 16}, {"pred", 1}};
  for (auto [name, bits] : kBits)
    if (name == type) return bits;
  return 0;
}

bool IsFloat(std::string_view type) {
  return !type.empty() && (type[0] == 'f' || type[0] == 'e' || type.substr(0, 2) == "bf" ||
                           type.substr(0, 2) == "tf");
}

std::string ModuleHeader() { return ".version 8.6\n.target sm_90a\n.address_size 64\n"; }

std::string EntryText(const Case& c, const std::string& entry) {
  std::string maps;
  for (size_t k = 0; k < c.maps.size(); ++k)
    maps += fmt::format(", .param .align 64 .b8 map{}[128]", k);
  return fmt::format(
      ".visible .entry {}(.param .u64 in, .param .u64 out, .param .u64 mem{})\n{}\n{{\n"
      ".reg .b64 %in, %out, %mem, %zw;\n.reg .b32 %t, %g, %zn;\n{}\n"
      "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %mem, [mem];\n"
      "mov.u32 %t, %tid.x;\nmov.u32 %g, %ctaid.x;\nmad.lo.u32 %g, %g, {}, %t;\n"
      "mul.wide.u32 %zw, %g, 32;\nadd.u64 %in, %in, %zw;\n"
      "mul.wide.u32 %zw, %g, {};\nadd.u64 %out, %out, %zw;\n{}ret;\n}}\n",
      entry, maps, c.directives, c.declarations, c.threads, c.out_bytes, c.body);
}

}  // namespace tilec::conformance
