// SASS as nvdisasm prints it: a line for each instruction, its address in front, `;` behind. What
// it leaves out is read from the code, of which only what was seen is known: the words of products,
// and of a few instructions for integers that 11.8 does not print.
// Registers that are written and read are found by place: the first operand behind predicates is
// the result, but for instructions that have none.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "sass/diagnostics.h"
#include "sass/internal.h"

namespace tilec::sass {

namespace {

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}
bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "R24", also within "-R24.reuse", "|R24|" or "[R24+0x10]"; −1: no register of the thread.
int RegisterIn(std::string_view operand, size_t* at) {
  for (size_t i = *at; i + 1 < operand.size(); ++i) {
    const bool begins = i == 0 || !std::isalnum(static_cast<unsigned char>(operand[i - 1]));
    if (operand[i] != 'R' || !begins || !std::isdigit(static_cast<unsigned char>(operand[i + 1])))
      continue;
    *at = i + 1;
    return std::atoi(std::string(operand.substr(i + 1, 4)).c_str());
  }
  *at = operand.size();
  return -1;
}

bool IsPredicate(std::string_view operand) {
  if (!operand.empty() && operand[0] == '!') operand.remove_prefix(1);
  if (!operand.empty() && operand[0] == 'U') operand.remove_prefix(1);
  return operand.size() == 2 && operand[0] == 'P' &&
         (operand[1] == 'T' || std::isdigit(static_cast<unsigned char>(operand[1])));
}

bool WritesNothing(std::string_view opcode) {
  for (std::string_view prefix :
       {"ST",    "RED.",   "BAR",    "BRA",      "BRX",       "JMP",    "JMX",    "CALL",
        "RET",   "EXIT",   "SYNCS",  "UTMA",     "UBLK",      "WARP",   "DEPBAR", "NOP",
        "FENCE", "MEMBAR", "ERRBAR", "CCTL",     "NANOSLEEP", "FCHK",   "R2P",    "R2UR",
        "BMOV",  "BREAK",  "KILL",   "PREFETCH", "LDGSTS",    "PMTRIG", "ELECT"})
    if (StartsWith(opcode, prefix)) return true;
  return Has(opcode, "SETP");
}

int Width(std::string_view opcode, bool result) {
  if (Has(opcode, ".128")) return 4;
  if (StartsWith(opcode, "LDSM") || StartsWith(opcode, "STSM"))
    return Has(opcode, ".M88.4") || Has(opcode, ".MT88.4") ? 4 : Has(opcode, "88.2") ? 2 : 1;
  const bool memory =
      StartsWith(opcode, "LD") || StartsWith(opcode, "ST") || StartsWith(opcode, "ATOM");
  if (memory) return Has(opcode, ".64") ? 2 : 1;
  for (std::string_view wide :
       {"DADD", "DMUL", "DFMA", "DMNMX", "I2F.F64", "F2F.F64", "F2I.S64", "F2I.U64", "CS2R"})
    if (StartsWith(opcode, wide) && !Has(opcode, "CS2R.32")) return 2;
  if (result && Has(opcode, "IMAD.WIDE")) return 2;
  if (result && (StartsWith(opcode, "HMMA") || StartsWith(opcode, "IMMA"))) return 4;
  return 1;
}

// ---- words of code ----------------------------------------------------------------------------

// Bytes of an instruction; of its lower half: the opcode, its lower bits, which forms share, the
// predicate (7: none), result, A, and N / 8 − 1 of a product; of its upper half: the group that a
// product ends, by scoreboard (7: none).
constexpr int64_t kWordBytes = 16;
constexpr int kGuardAt = 12, kResultAt = 16, kAAt = 24, kNAt = 53, kGroupAt = 20;
constexpr uint64_t kOpcodeMask = 0xfff, kFormMask = 0x1ff, kRegisterMask = 0xff, kNone = 7;
// Products of 8-bit floats, A from shared memory and from registers, as bits of other products in
// the same place say (HGMMA: 0x9f0, 0xdf0).
constexpr uint64_t kQgmma = 0x9f3, kQgmmaRs = 0xdf3;
// Sums, minima and maxima of integers (VIADD, VIADDMNMX, VIMNMX): they write a register.
constexpr uint64_t kIntegers[] = {0x036, 0x046, 0x048};

uint64_t Half(const std::string& code, int64_t at) {
  uint64_t half = 0;
  for (int byte = 7; byte >= 0; --byte)
    half = half << 8 | static_cast<unsigned char>(code[static_cast<size_t>(at + byte)]);
  return half;
}

// True if it is known.
bool FromWord(const std::string& code, int64_t address, Instr* in) {
  if (address + kWordBytes > static_cast<int64_t>(code.size())) return false;
  const uint64_t low = Half(code, address), high = Half(code, address + 8);
  const uint64_t opcode = low & kOpcodeMask;
  const int result = static_cast<int>(low >> kResultAt & kRegisterMask);
  if (opcode == kQgmma || opcode == kQgmmaRs) {
    const int n = 8 * (static_cast<int>(low >> kNAt & 0x1f) + 1);
    const bool registers = opcode == kQgmmaRs;
    in->product = true;
    in->kind = static_cast<int>(Kind::kProduct);
    in->shape = "64x" + std::to_string(n) + "x32" + (registers ? " RS" : "");
    in->d = {result, n / 2};
    if (registers) in->a = {static_cast<int>(low >> kAAt & kRegisterMask), 4};
    in->commit = (high >> kGroupAt & kNone) != kNone;
    in->text = "QGMMA." + in->shape + " R" + std::to_string(result);
    return true;
  }
  for (uint64_t form : kIntegers)
    if ((opcode & kFormMask) == form) {
      in->text = "an operation on integers, R" + std::to_string(result);
      if (result != static_cast<int>(kRegisterMask)) in->writes = {result, 1};
      return true;
    }
  return false;
}

class SassReader {
 public:
  SassReader(const std::string& text, const std::string& code, DiagSink& diags)
      : text_(text), code_(code), diags_(diags) {}

  Result<Listing> Run() {
    int number = 0;
    for (size_t at = 0; at < text_.size();) {
      const size_t end = std::min(text_.find('\n', at), text_.size());
      ++number;
      TRY_VOID(Line(Trimmed(std::string_view(text_).substr(at, end - at)), number));
      at = end + 1;
    }
    if (listing_.code.empty()) return Bad(number, "no instruction");
    Skipped(static_cast<int64_t>(code_.size()), number);
    // Branches to addresses.
    std::map<int64_t, int> at;
    for (size_t i = 0; i < listing_.code.size(); ++i)
      at.emplace(listing_.code[i].address, static_cast<int>(i));
    for (const Instr& in : listing_.code)
      if (StartsWith(in.target, "0x"))
        if (const auto to = at.find(std::strtoll(in.target.c_str(), nullptr, 16)); to != at.end())
          labels_.push_back({in.target, to->second});
    Cut(labels_, &listing_);
    return std::move(listing_);
  }

 private:
  Reported Bad(int line, const std::string& what) {
    return diags_.Report(kNotSass, Span{}, line, what);
  }

  Result<> Line(std::string_view line, int number) {
    // "//----- .text.NAME -----" and what belongs to the object file
    if (line.empty() || StartsWith(line, "//")) return Done();
    if (line.back() == ':') {
      const std::string_view name = line.substr(0, line.size() - 1);
      if (StartsWith(name, ".text.") && listing_.name.empty())
        listing_.name = std::string(name.substr(6));
      labels_.push_back({std::string(name), static_cast<int>(listing_.code.size())});
      return Done();
    }
    if (!StartsWith(line, "/*")) return Done();
    const size_t address = line.find("*/");
    if (address == std::string_view::npos) return Bad(number, "a comment has no end");
    const std::string_view hex = Trimmed(line.substr(2, address - 2));
    const bool is_address =
        !hex.empty() &&
        std::all_of(hex.begin(), hex.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
    line = Trimmed(line.substr(address + 2));
    if (!is_address || line.empty()) return Done();  // the second half of a code word
    const size_t end = line.find(';');
    if (end == std::string_view::npos) return Bad(number, "`" + std::string(line) + "` has no `;`");
    const int64_t at = std::strtoll(std::string(hex).c_str(), nullptr, 16);
    Skipped(at, number);
    TRY_VOID(Instruction(Trimmed(line.substr(0, end)), number));
    listing_.code.back().address = at;
    return Done();
  }

  // Instructions that nvdisasm left out in front of this address.
  void Skipped(int64_t address, int number) {
    if (listing_.code.empty()) return;
    for (int64_t a = listing_.code.back().address + kWordBytes; a < address; a += kWordBytes) {
      Instr in;
      in.line = number;
      in.address = a;
      in.text = "?";
      listing_.unknown += !FromWord(code_, a, &in);
      listing_.code.push_back(std::move(in));
    }
  }

  Result<> Instruction(std::string_view said, int number) {
    Instr in;
    in.line = number;
    for (char c : said)
      if (c != ' ' || in.text.empty() || in.text.back() != ' ') in.text += c == '\t' ? ' ' : c;
    std::string_view rest = in.text;
    bool guarded = false;
    if (StartsWith(rest, "@")) {
      guarded = true;
      rest = Trimmed(rest.substr(std::min(rest.find(' '), rest.size())));
    }
    const size_t blank = std::min(rest.find(' '), rest.size());
    const std::string_view opcode = rest.substr(0, blank);
    if (opcode.empty() || !std::isupper(static_cast<unsigned char>(opcode[0])))
      return Bad(number, "no instruction: `" + std::string(said) + "`");
    const std::vector<std::string> operands = SplitOperands(rest.substr(blank));
    in.kind = KindOfSass(opcode);
    // A constant that the other pipe loads is no arithmetic.
    if (in.kind == static_cast<int>(Kind::kHalf) && operands.size() > 1 &&
        (operands[1] == "-RZ" || operands[1] == "RZ"))
      in.kind = -1;
    in.select = StartsWith(opcode, "FSEL");
    in.spill = StartsWith(opcode, "STL") || StartsWith(opcode, "LDL");
    if (in.kind == static_cast<int>(Kind::kProduct)) {
      TRY_VOID(Product(opcode, operands, number, &in));
    } else {
      Operands(opcode, operands, &in);
    }
    if (StartsWith(opcode, "WARPGROUP.DEPBAR") && operands.size() > 1)
      in.wait = static_cast<int>(std::strtol(operands[1].c_str(), nullptr, 0));
    Flow(opcode, operands, guarded, &in);
    listing_.code.push_back(std::move(in));
    return Done();
  }

  // HGMMA.64x128x16.F32.BF16 R24, R4, gdesc[UR8], R24, gsb0: result, A in registers or not.
  Result<> Product(std::string_view opcode, const std::vector<std::string>& operands, int number,
                   Instr* in) {
    in->product = true;
    const size_t shape = opcode.find(".64x");
    size_t at = 0;
    const int d = operands.size() < 3 ? -1 : RegisterIn(operands[0], &at);
    const size_t end = opcode.find('.', shape == std::string_view::npos ? 0 : shape + 1);
    if (shape == std::string_view::npos || d < 0)
      return Bad(number, "a product without shape or result: `" + in->text + "`");
    in->shape = std::string(opcode.substr(shape + 1, end - shape - 1));
    const int n = std::atoi(in->shape.c_str() + 3);
    // f32 and s32: a register for each of the 64 x n elements of 128 threads; f16: half of it.
    in->d = {d, Has(opcode, ".F16.") || opcode.substr(opcode.size() - 4) == ".F16" ? n / 4 : n / 2};
    at = 0;
    const int a = RegisterIn(operands[1], &at);
    if (a >= 0 && operands[1][0] == 'R') {
      in->a = {a, 4};
      in->shape += " RS";
    }
    in->commit = std::find(operands.begin(), operands.end(), "gsb0") != operands.end();
    for (const char* which : {"A", "B"})
      for (const std::string& operand : operands)
        if (operand.find(std::string(".tnsp") + which) != std::string::npos) in->turned += which;
    return Done();
  }

  static void Operands(std::string_view opcode, const std::vector<std::string>& operands,
                       Instr* in) {
    bool result = !WritesNothing(opcode);
    for (const std::string& operand : operands) {
      if (result && IsPredicate(operand)) continue;
      size_t at = 0;
      if (result) {
        result = false;
        if (operand[0] == 'R') {
          if (const int r = RegisterIn(operand, &at); r >= 0) in->writes = {r, Width(opcode, true)};
          continue;
        }
        if (operand == "RZ") continue;
      }
      const bool address = operand.find('[') != std::string::npos;
      while (at < operand.size())
        if (const int r = RegisterIn(operand, &at); r >= 0) {
          const bool pair = address && Has(operand, ".64");
          in->reads.push_back({r, pair ? 2 : address ? 1 : Width(opcode, false)});
        }
    }
  }

  static void Flow(std::string_view opcode, const std::vector<std::string>& operands, bool guarded,
                   Instr* in) {
    const bool branch = StartsWith(opcode, "BRA") || StartsWith(opcode, "JMP");
    // `(.L_x_1), or 0x1230
    for (const std::string& operand : operands) {
      if (branch && StartsWith(operand, "`("))
        in->target = operand.substr(2, operand.find(')') - 2);
      if (branch && StartsWith(operand, "0x")) in->target = operand;
    }
    // A condition may stand among the operands, too.
    const bool conditional =
        guarded || (branch && operands.size() > 1) || StartsWith(opcode, "BRA.DIV");
    const bool ends = branch || StartsWith(opcode, "EXIT") || StartsWith(opcode, "RET") ||
                      StartsWith(opcode, "BRX") || StartsWith(opcode, "JMX") ||
                      StartsWith(opcode, "KILL");
    in->falls_through = !ends || conditional;
  }

  const std::string &text_, &code_;
  DiagSink& diags_;
  std::vector<LabelAt> labels_;
  Listing listing_;
};

}  // namespace

Result<Listing> ReadSass(const std::string& text, const std::string& code, DiagSink& diags) {
  return SassReader(text, code, diags).Run();
}

}  // namespace tilec::sass
