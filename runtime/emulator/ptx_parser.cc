// PTX text → PtxModule. Declarations and scopes are resolved here, so later phases see register,
// variable and label ids only. Inline assembly relies on `{ }` scopes: the same `P1` and
// `LAB_WAIT` are declared many times per kernel.
//
// Whatever the bytes, parsing ends with a module or a diagnostic: every count, nesting depth and
// size has a limit. Of debug information only `.file` and `.loc` are read.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/ptx_debug.h"
#include "runtime/emulator/ptx_scope.h"

namespace tilec::runtime::emulator {
namespace {

class Parser : private PtxDebugReader {
 public:
  Parser(PtxModule* module, const PtxPlaces& places, DiagSink& diags)
      : PtxDebugReader(module->text, places, diags), m_(*module) {
    scopes_.Open();
  }

  bool Run() {
    while (token_.kind != Token::Kind::kEnd)
      if (!ModuleItem()) return false;
    if (m_.target.empty()) return Fail("the text has no `.target`, is it PTX?");
    m_.notes = Notes();
    return true;
  }

 private:
  bool ModuleItem() {
    if (Accept(';')) return true;
    if (token_.kind != Token::Kind::kWord || token_.text[0] != '.')
      return Fail("expected a directive, found " + Found());
    std::string_view w = token_.text;
    if (w == ".version" || w == ".address_size") {
      bool wide = w == ".address_size";
      Advance();
      if (wide && (token_.kind != Token::Kind::kInt || token_.bits != 64))
        return Fail("only `.address_size 64` is known, found " + Found());
      if (token_.kind == Token::Kind::kEnd) return Fail("expected a number");
      Advance();
      return true;
    }
    if (w == ".target") {
      Advance();
      std::string_view name;
      if (!Word(&name)) return false;
      m_.target = std::string(name);
      while (Accept(','))
        if (!Word(&name)) return false;
      return true;
    }
    if (LineTable()) return true;
    if (w == ".pragma") return Advance(), SkipTo(';');
    if (w == ".section") {
      while (token_.kind != Token::Kind::kEnd && !token_.Is('{')) Advance();
      return SkipBraces();
    }
    if (w == ".visible" || w == ".weak" || w == ".common" || w == ".internal")
      return Advance(), true;
    if (w == ".extern") {
      Advance();
      extern_ = true;
      return true;
    }
    if (w == ".func") {
      extern_ = false;
      while (token_.kind != Token::Kind::kEnd && !token_.Is(';') && !token_.Is('{')) Advance();
      return token_.Is('{') ? SkipBraces() : Expect(';');
    }
    if (w == ".entry") {
      extern_ = false;
      return ParseEntry();
    }
    if (SpaceFromWord(w) >= 0) return ParseVariable();
    places_.At(diags_.Report(kPtxRefused, {}, "the directive `" + std::string(w) + "`"),
               token_.line);
    return false;
  }

  static int SpaceFromWord(std::string_view w) {
    if (w == ".param") return static_cast<int>(Space::kParam);
    if (w == ".shared") return static_cast<int>(Space::kShared);
    if (w == ".global") return static_cast<int>(Space::kGlobal);
    if (w == ".const") return static_cast<int>(Space::kConst);
    if (w == ".local") return static_cast<int>(Space::kLocal);
    return -1;
  }

  // [.align N] [.vK] .type name [n][m] — shared by parameters and variables.
  bool Declarator(Variable* v) {
    v->line = token_.line;
    uint64_t align = 0, lanes = 1;
    bool typed = false, pointer = false;
    while (token_.kind == Token::Kind::kWord && token_.text[0] == '.') {
      std::string_view w = token_.text;
      if (w == ".align") {
        Advance();
        uint64_t n = 0;
        if (!Int(&n, 1 << 20)) return false;
        if (n == 0 || (n & (n - 1)) != 0) return Fail(".align needs a power of two");
        if (!pointer) align = n;
        continue;
      }
      if (w == ".attribute") {
        Advance();
        if (!SkipTo(')')) return false;
        continue;
      }
      if (w == ".ptr") {
        pointer = true;
      } else if (pointer && SpaceFromWord(w) >= 0) {
      } else if (w == ".v2" || w == ".v4") {
        lanes = w == ".v2" ? 2 : 4;
      } else {
        Type t = TypeFromName(w.substr(1));
        if (t == Type::kNone || t == Type::kPred || typed)
          return Fail("expected a data type, found " + Found());
        v->type = t;
        typed = true;
      }
      Advance();
    }
    if (!typed) return Fail("expected a data type, found " + Found());
    if (!Word(&v->name)) return false;
    uint64_t element = static_cast<uint64_t>(TypeBits(v->type)) / 8 * lanes;
    v->align = static_cast<uint32_t>(align != 0 ? align : element);
    v->bytes = element;
    bool empty = false;
    for (int dims = 0; Accept('['); ++dims) {
      if (dims > 8) return Fail("more than 8 array dimensions");
      if (Accept(']')) {
        empty = true;
        continue;
      }
      uint64_t n = 0;
      if (!Int(&n, kMaxVariableBytes) || !Expect(']')) return false;
      if (__builtin_mul_overflow(v->bytes, n, &v->bytes) || v->bytes > kMaxVariableBytes)
        return TooBig("the size of a variable", n, kMaxVariableBytes);
    }
    if (empty) v->bytes = 0, v->dynamic = true;
    return true;
  }

  bool Initializer(Variable* v) {
    int depth = 0;
    uint64_t width = static_cast<uint64_t>(TypeBits(v->type)) / 8;
    do {
      if (token_.Is('{')) {
        if (++depth > 16) return Fail("initialiser nested too deeply");
        Advance();
        continue;
      }
      if (token_.Is('}')) {
        --depth;
        Advance();
      } else {
        bool negative = Accept('-');
        uint64_t bits = token_.bits;
        if (token_.kind == Token::Kind::kF64 && v->type == Type::kF32)
          bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
        else if (token_.kind != Token::Kind::kInt && token_.kind != Token::Kind::kF32 &&
                 token_.kind != Token::Kind::kF64)
          return Fail("only numbers may initialise a variable here, found " + Found());
        if (negative) {
          const int sign = std::min(TypeBits(v->type), 64) - 1;
          bits = token_.kind == Token::Kind::kInt ? 0 - bits : bits ^ (1ull << sign);
        }
        Advance();
        for (uint64_t i = 0; i < width; ++i)
          v->init.push_back(static_cast<uint8_t>(i < 8 ? bits >> (8 * i) : 0));
        if (v->init.size() > v->bytes && !v->dynamic)
          return Fail("more initialisers than the variable has elements");
      }
      if (depth > 0 && !token_.Is('}') && !Expect(',')) return false;
    } while (depth > 0);
    return true;
  }

  bool ParseVariable() {
    Space space = static_cast<Space>(SpaceFromWord(token_.text));
    bool is_extern = extern_;
    extern_ = false;
    Advance();
    do {
      Variable v;
      v.space = space;
      if (!Declarator(&v)) return false;
      if (Accept('=')) {
        if (space == Space::kShared || space == Space::kLocal)
          return Fail("shared and local variables cannot be initialised");
        if (!Initializer(&v)) return false;
        if (v.dynamic) v.bytes = v.init.size(), v.dynamic = false;
      }
      if (v.dynamic && (space != Space::kShared || !is_extern))
        return Fail("an array without a size must be `.extern .shared`");
      if (is_extern && !v.dynamic) {
        places_.At(diags_.Report(
                       kPtxRefused, {},
                       "the external variable `" + std::string(v.name) + "`: there is no linker"),
                   v.line);
        return false;
      }
      if (!AddVariable(std::move(v))) return false;
    } while (Accept(','));
    return Expect(';');
  }

  bool AddVariable(Variable v) {
    auto [it, added] = scopes_.back().variables.emplace(v.name, m_.variables.size());
    if (!added) {
      // The same dynamic array may be declared once per kernel source.
      if (v.dynamic && m_.variables[static_cast<size_t>(it->second)].dynamic) return true;
      places_.At(diags_.Report(kPtxRedefined, {}, v.name), v.line);
      return false;
    }
    uint64_t* used = nullptr;
    uint64_t unused = 0;
    switch (v.space) {
      case Space::kShared:
        used = entry_ != nullptr ? &entry_->shared_bytes : &m_.shared_bytes;
        break;
      case Space::kLocal: used = entry_ != nullptr ? &entry_->local_bytes : nullptr; break;
      case Space::kParam: used = entry_ != nullptr ? &entry_->param_bytes : nullptr; break;
      case Space::kGlobal:
      case Space::kConst: used = &unused; break;
    }
    if (used == nullptr) return FailAt(v.line, "this variable must stand in a function");
    if (v.dynamic) {
      m_.shared_align = std::max(m_.shared_align, v.align);
      if (entry_ != nullptr) entry_->shared_align = std::max(entry_->shared_align, v.align);
    } else {
      v.offset = (*used + v.align - 1) / v.align * v.align;
      *used = v.offset + v.bytes;
      uint64_t limit = kMaxSpaceBytes[static_cast<size_t>(v.space)];
      if (*used > limit) return TooBig("the size of a state space", *used, limit);
      uint32_t* align = entry_ != nullptr ? &entry_->shared_align : &m_.shared_align;
      if (v.space == Space::kShared) *align = std::max(*align, v.align);
    }
    if (entry_ != nullptr) v.entry = static_cast<int32_t>(m_.entries.size());
    m_.variables.push_back(std::move(v));
    return true;
  }

  bool Triple(uint32_t* out) {
    Advance();
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3; ++i) {
      uint64_t n = 0;
      if (!Int(&n, 0x7fffffff)) return false;
      out[i] = static_cast<uint32_t>(n);
      if (i == 2 || !Accept(',')) break;
    }
    return true;
  }

  bool ParseEntry() {
    Advance();
    Entry entry;
    entry.line = token_.line;
    entry_ = &entry;
    entry.shared_bytes = m_.shared_bytes;
    entry.shared_align = m_.shared_align;
    if (!Word(&entry.name)) return false;
    for (const Entry& e : m_.entries)
      if (e.name == entry.name) {
        places_.At(diags_.Report(kPtxRedefined, {}, entry.name), token_.line);
        return false;
      }
    scopes_.Open();
    if (Accept('(') && !Accept(')')) {
      do {
        if (!token_.IsWord(".param")) return Fail("expected `.param`, found " + Found());
        Advance();
        Variable v;
        v.space = Space::kParam;
        if (!Declarator(&v)) return false;
        if (v.dynamic) return Fail("a parameter needs a size");
        entry.params.push_back(static_cast<int32_t>(m_.variables.size()));
        if (!AddVariable(std::move(v))) return false;
      } while (Accept(','));
      if (!Expect(')')) return false;
    }
    while (token_.kind == Token::Kind::kWord && token_.text[0] == '.') {
      std::string_view w = token_.text;
      if (w == ".reqntid") {
        if (!Triple(entry.reqntid)) return false;
      } else if (w == ".maxntid") {
        if (!Triple(entry.maxntid)) return false;
      } else if (w == ".reqnctapercluster") {
        if (!Triple(entry.reqcluster)) return false;
      } else if (w == ".minnctapersm" || w == ".maxnreg" || w == ".maxclusterrank") {
        bool regs = w == ".maxnreg";
        Advance();
        uint64_t n = 0;
        if (!Int(&n, 0x7fffffff)) return false;
        if (regs) entry.maxnreg = static_cast<uint32_t>(n);
      } else if (w == ".explicitcluster" || w == ".noreturn" || w == ".blocksareclusters") {
        Advance();
      } else if (w == ".pragma") {
        if (!SkipTo(';')) return false;
      } else {
        return Fail("unknown entry directive " + Found());
      }
    }
    if (!token_.Is('{')) return Fail("expected the body of the entry, found " + Found());
    if (!Body()) return false;
    scopes_.Close();
    entry_ = nullptr;
    m_.entries.push_back(std::move(entry));
    return true;
  }

  bool Body() {
    size_t base = scopes_.size();
    Advance();
    scopes_.Open();
    while (scopes_.size() > base) {
      if (token_.kind == Token::Kind::kEnd)
        return Fail(fmt::format("the body of `{}` is never closed", entry_->name));
      if (Accept('{')) {
        if (scopes_.size() > kMaxScopes) return TooBig("nesting", scopes_.size(), kMaxScopes);
        scopes_.Open();
      } else if (token_.Is('}')) {
        if (!CloseScope()) return false;
        Advance();
      } else if (!BodyItem()) {
        return false;
      }
    }
    return true;
  }

  bool CloseScope() {
    Scope& scope = scopes_.back();
    Scope& parent = scopes_.at(scopes_.size() - 2);
    bool outermost = scopes_.size() == 3;  // module, parameters, body
    for (auto [statement, name] : scope.pending) {
      auto it = scope.labels.find(name);
      if (it == scope.labels.end()) {
        if (outermost) {
          places_
              .At(diags_.Report(kPtxUndefined, {}, name),
                  entry_->body[static_cast<size_t>(statement)].line)
              .Help("the target of a branch must be a label of the same function");
          return false;
        }
        parent.pending.emplace_back(statement, name);
        continue;
      }
      entry_->body[static_cast<size_t>(statement)].operands[0].index = it->second;
    }
    scopes_.Close();
    return true;
  }

  bool BodyItem() {
    if (Accept(';')) return true;
    if (token_.kind == Token::Kind::kWord && token_.text[0] == '.') {
      std::string_view w = token_.text;
      if (w == ".reg") return Registers();
      if (LineTable()) return true;
      if (w == ".pragma" || w == ".callprototype" || w == ".branchtargets" || w == ".calltargets")
        return SkipTo(';');
      if (SpaceFromWord(w) >= 0) return ParseVariable();
      if (w == ".extern") {
        extern_ = true;
        return Advance(), true;
      }
      places_.At(diags_.Report(kPtxRefused, {}, "the directive `" + std::string(w) + "`"),
                 token_.line);
      return false;
    }
    if (token_.kind == Token::Kind::kWord && next_.Is(':')) {
      Label label{token_.text, static_cast<int32_t>(entry_->body.size()), token_.line};
      auto [it, added] = scopes_.back().labels.emplace(label.name, entry_->labels.size());
      if (!added) {
        places_.At(diags_.Report(kPtxRedefined, {}, label.name), token_.line);
        return false;
      }
      entry_->labels.push_back(label);
      Advance();
      Advance();
      return true;
    }
    return Instruction();
  }

  bool Registers() {
    Advance();
    Type type = Type::kNone;
    if (token_.kind == Token::Kind::kWord && token_.text[0] == '.')
      type = TypeFromName(token_.text.substr(1));
    if (type == Type::kNone) return Fail("expected a register type, found " + Found());
    Advance();
    do {
      std::string_view name;
      if (!Word(&name)) return false;
      bool added = true;
      if (Accept('<')) {
        uint64_t n = 0;
        if (!Int(&n, 1u << 30) || !Expect('>')) return false;
        added = scopes_.back().ranges.emplace(name, RegisterRange{n, type}).second;
      } else {
        added = scopes_.Declare(scopes_.back(), &entry_->registers, name, {name, 0, false, type});
      }
      if (!added) {
        if (diags_.has_errors()) return false;
        places_.At(diags_.Report(kPtxRedefined, {}, name), token_.line);
        return false;
      }
    } while (Accept(','));
    return Expect(';');
  }

  bool Undefined(std::string_view name, int line) {
    if (diags_.has_errors()) return false;  // a limit was hit
    places_.At(diags_.Report(kPtxUndefined, {}, name), line);
    return false;
  }

  bool NamedOperand(Operand* o) {
    std::string_view name = token_.text;
    int line = token_.line;
    if (name[0] == '.') return Fail("expected an operand, found " + Found());
    Advance();
    if (name == "_") {
      o->kind = Operand::Kind::kSink;
      return true;
    }
    if (name == "WARP_SZ") {
      o->kind = Operand::Kind::kInt;
      o->bits = 32;
      return true;
    }
    if (scopes_.Find(name, &entry_->registers, o)) return true;
    if (entry_->registers.size() >= kMaxRegisters)
      return TooBig("the number of registers", entry_->registers.size() + 1, kMaxRegisters);
    return Undefined(name, line);
  }

  // Sums of signed integers after a base: +4, +-16, -8.
  bool Offset(uint64_t* sum) {
    while (token_.Is('+') || token_.Is('-')) {
      bool negative = token_.Is('-');
      Advance();
      if (Accept('-')) negative = !negative;
      if (token_.kind != Token::Kind::kInt) return Fail("expected a number, found " + Found());
      *sum += negative ? 0 - token_.bits : token_.bits;
      Advance();
    }
    return true;
  }

  bool Value(Operand* o) {
    if (Accept('!')) {
      o->negated = true;
      if (token_.kind != Token::Kind::kWord) return Fail("expected a predicate, found " + Found());
      return NamedOperand(o);
    }
    bool negative = false, invert = false;
    while (token_.Is('-') || token_.Is('+') || token_.Is('~')) {
      if (token_.Is('-')) negative = !negative;
      if (token_.Is('~')) invert = !invert;
      Advance();
    }
    switch (token_.kind) {
      case Token::Kind::kInt:
        o->kind = Operand::Kind::kInt;
        o->bits = negative ? 0 - token_.bits : token_.bits;
        if (invert) o->bits = ~o->bits;
        Advance();
        return Offset(&o->bits);
      case Token::Kind::kF32:
        o->kind = Operand::Kind::kF32;
        o->bits = negative ? token_.bits ^ 0x80000000u : token_.bits;
        Advance();
        return true;
      case Token::Kind::kF64:
        o->kind = Operand::Kind::kF64;
        o->bits = negative ? token_.bits ^ (1ull << 63) : token_.bits;
        Advance();
        return true;
      case Token::Kind::kWord: {
        if (negative || invert) return Fail("expected a number, found " + Found());
        if (!NamedOperand(o)) return false;
        if (o->kind == Operand::Kind::kSymbol) return Offset(&o->bits);
        return true;
      }
      case Token::Kind::kEnd:
      case Token::Kind::kPunct:
      case Token::Kind::kString:
      case Token::Kind::kBad: break;
    }
    return Fail("expected an operand, found " + Found());
  }

  bool Vector(Operand* o) {
    o->kind = Operand::Kind::kVector;
    do {
      if (o->parts.size() >= kMaxParts)
        return TooBig("a vector operand", o->parts.size(), kMaxParts);
      o->parts.emplace_back();
      if (!Value(&o->parts.back())) return false;
    } while (Accept(','));
    return Expect('}');
  }

  bool Address(Operand* o) {
    o->kind = Operand::Kind::kAddress;
    o->parts.emplace_back();
    if (!Value(&o->parts[0]) || !Offset(&o->bits)) return false;
    while (Accept(',')) {
      if (o->parts.size() > 4) return Fail("an address has too many parts");
      o->parts.emplace_back();
      if (Accept('{') ? !Vector(&o->parts.back()) : !Value(&o->parts.back())) return false;
    }
    return Expect(']');
  }

  bool AnyOperand(Operand* o) {
    if (Accept('{')) return Vector(o);
    if (Accept('[')) return Address(o);
    if (!Value(o)) return false;
    if (!Accept('|')) return true;
    o->second.emplace_back();
    return Value(&o->second[0]);
  }

  bool Instruction() {
    Statement s;
    s.line = token_.line;
    if (Accept('@')) {
      s.guard_negated = Accept('!');
      Operand o;
      if (token_.kind != Token::Kind::kWord) return Fail("expected a predicate, found " + Found());
      if (!NamedOperand(&o)) return false;
      if (o.kind != Operand::Kind::kRegister ||
          entry_->registers[static_cast<size_t>(o.reg)].type != Type::kPred)
        return FailAt(s.line, "the guard after `@` is no predicate register");
      s.guard = o.reg;
    }
    if (token_.kind != Token::Kind::kWord || token_.text[0] == '%' || token_.text[0] == '.')
      return Fail("expected an instruction, found " + Found());
    s.text = token_.text;
    s.SplitText();
    s.line = token_.line;
    Advance();
    if (s.opcode == "call" || s.opcode == "brx" || s.opcode == "tex" || s.opcode == "suld") {
      while (token_.kind != Token::Kind::kEnd && !token_.Is(';')) Advance();  // the decoder refuses
    } else if (s.opcode == "bra") {
      std::string_view name;
      if (!Word(&name)) return false;
      scopes_.back().pending.emplace_back(static_cast<int32_t>(entry_->body.size()), name);
      s.operands.emplace_back();
      s.operands[0].kind = Operand::Kind::kLabel;
    } else if (!token_.Is(';')) {
      do {
        if (s.operands.size() >= 16) return Fail("an instruction with more than 16 operands");
        s.operands.emplace_back();
        if (!AnyOperand(&s.operands.back())) return false;
      } while (Accept(','));
    }
    if (!Expect(';')) return false;
    if (entry_->body.size() >= kMaxStatements)
      return TooBig("the number of instructions", entry_->body.size() + 1, kMaxStatements);
    entry_->body.push_back(std::move(s));
    return true;
  }

  PtxModule& m_;
  ScopeStack scopes_;
  Entry* entry_ = nullptr;
  bool extern_ = false;
};

}  // namespace

Result<std::unique_ptr<PtxModule>> ParsePtx(const std::string& text, const PtxPlaces& places,
                                            DiagSink& diags) {
  if (text.size() > kMaxText)
    return diags.Report(kPtxTooBig, {}, "the text", text.size(), kMaxText).Place(places.name);
  auto module = std::make_unique<PtxModule>();
  module->text = text;
  DiagSink local;  // "has an error been reported" must mean by this parse
  Parser parser(module.get(), places, local);
  bool ok = parser.Run();
  local.MoveTo(diags);
  if (!ok) return DiagSink::Propagate();
  return module;
}

}  // namespace tilec::runtime::emulator
