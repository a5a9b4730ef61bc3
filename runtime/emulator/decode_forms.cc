// Form matching: which row of ptx_isa.def an instruction is, by its modifiers in the order in which
// the row has them, or in any.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {

namespace {

constexpr Form kForms[] = {
#define PTX(opcode, mods, operands, builder, argument, collective) \
  {opcode, mods, operands, Builder::k##builder, #argument, #collective},
#include "runtime/emulator/ptx_isa.def"
#undef PTX
};

// The forms of an opcode, in their order: every instruction of a text asks for them.
const std::vector<const Form*>& FormsOf(std::string_view opcode) {
  static const auto* const forms = [] {
    auto* by_opcode = new std::unordered_map<std::string_view, std::vector<const Form*>>;
    for (const Form& f : kForms) (*by_opcode)[f.opcode].push_back(&f);
    return by_opcode;
  }();
  static const std::vector<const Form*> none;
  const auto it = forms->find(opcode);
  return it == forms->end() ? none : it->second;
}

bool SameWord(std::string_view pattern, std::string_view word) {
  if (!pattern.empty() && pattern.back() == '*')
    return word.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1);
  return pattern == word;
}

// Is `word` one of "a|b|c"?
bool OneOf(std::string_view choices, std::string_view word) {
  while (true) {
    size_t bar = choices.find('|');
    if (SameWord(choices.substr(0, bar), word)) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

// Matches modifiers against a pattern, trying optional words both ways.
bool MatchMods(std::string_view pattern, const std::string_view* mods, size_t n, Type* types,
               int found) {
  while (!pattern.empty() && pattern[0] == ' ') pattern.remove_prefix(1);
  if (pattern.empty()) return n == 0;
  size_t end = pattern.find(' ');
  std::string_view item = pattern.substr(0, end);
  std::string_view rest = end == std::string_view::npos ? std::string_view() : pattern.substr(end);
  char kind = item[0];
  bool grouped = kind == '(' || kind == '[' || kind == '<';
  std::string_view choices = grouped ? item.substr(1, item.size() - 2) : item;
  if (n > 0 && OneOf(choices, mods[0])) {
    int next = found;
    if (kind == '<') {
      if (found < 2) types[found] = TypeFromName(mods[0]);
      ++next;
    }
    if (MatchMods(rest, mods + 1, n - 1, types, next)) return true;
  }
  return kind == '[' && MatchMods(rest, mods, n, types, found);
}

// Instructions whose modifiers the assembler takes in any order.
bool AnyOrder(std::string_view opcode) {
  static constexpr std::string_view kOpcodes[] = {
      "ld",  "st",  "atom", "red",  "ldu", "ldmatrix", "stmatrix", "wmma",  "mapa", "add",
      "sub", "mul", "fma",  "mad",  "div", "sqrt",     "rcp",      "rsqrt", "ex2",  "lg2",
      "sin", "cos", "cvt",  "setp", "min", "max",      "neg",      "abs",   "shfl", "bfind"};
  return std::find(std::begin(kOpcodes), std::end(kOpcodes), opcode) != std::end(kOpcodes);
}

// The same as MatchMods for modifiers in any order; `used` has a bit for each that is taken.
bool MatchSet(std::string_view pattern, const std::vector<std::string_view>& mods, uint32_t used,
              Type* types, int found) {
  while (!pattern.empty() && pattern[0] == ' ') pattern.remove_prefix(1);
  if (pattern.empty()) return used + 1 == 1u << mods.size();
  const size_t end = pattern.find(' ');
  const std::string_view item = pattern.substr(0, end);
  const std::string_view rest =
      end == std::string_view::npos ? std::string_view() : pattern.substr(end);
  const char kind = item[0];
  const bool grouped = kind == '(' || kind == '[' || kind == '<';
  const std::string_view choices = grouped ? item.substr(1, item.size() - 2) : item;
  for (size_t k = 0; k < mods.size(); ++k) {
    if ((used >> k & 1) != 0 || !OneOf(choices, mods[k])) continue;
    if (kind == '<' && found < 2) types[found] = TypeFromName(mods[k]);
    if (MatchSet(rest, mods, used | 1u << k, types, found + (kind == '<' ? 1 : 0))) return true;
    break;  // another word of the same set would not do better
  }
  return kind == '[' && MatchSet(rest, mods, used, types, found);
}

constexpr size_t kMostMods = 16;

}  // namespace

bool Decoder::MatchForm(const Statement& s, Matched* out) {
  // Tensor copies have `.cta_group` anywhere among their modifiers; the builder looks at it.
  std::vector<std::string_view> mods = s.mods;
  if (s.opcode == "cp")
    std::erase_if(mods, [](auto m) { return m == "cta_group::1" || m == "cta_group::2"; });
  const bool any_order = AnyOrder(s.opcode) && mods.size() <= kMostMods;
  for (const bool ordered : {true, false}) {
    if (!ordered && !any_order) break;
    for (const Form* form : FormsOf(s.opcode)) {
      const Form& f = *form;
      Type types[2] = {Type::kNone, Type::kNone};
      if (ordered ? !MatchMods(f.mods, mods.data(), mods.size(), types, 0)
                  : !MatchSet(f.mods, mods, 0, types, 0))
        continue;
      out->form = form;
      out->t = types[0];
      out->u = types[1];
      return true;
    }
  }
  auto report = places_.At(diags_.Report(kPtxUnknownForm, {}, s.text), s.line);
  std::string known;
  int shown = 0;
  for (const Form* f : FormsOf(s.opcode)) {
    if (shown == 4) break;
    known += (shown++ > 0 ? "; " : "") + std::string(f->opcode) + " " + std::string(f->mods);
  }
  if (!known.empty()) report.Note("forms of this opcode: " + known);
  return false;
}

}  // namespace tilec::runtime::emulator
