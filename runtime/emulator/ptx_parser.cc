// PTX text → PtxModule. Declarations and scopes are resolved here, so later phases see register,
// variable and label ids only. Inline assembly relies on `{ }` scopes: the same `P1` and
// `LAB_WAIT` are declared many times per kernel.
//
// Whatever the bytes, parsing ends with a module or a diagnostic: every count, nesting depth and
// size has a limit. Of debug information only `.file` and `.loc` are read.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/ptx_declarations.h"

namespace tilec::runtime::emulator {
namespace {

class Parser : private PtxDeclarationReader {
 public:
  Parser(PtxModule* module, const PtxPlaces& places, DiagSink& diags)
      : PtxDeclarationReader(module, places, diags) {
    scopes_.Open();
  }

  bool Run() {
    while (token_.kind != Token::Kind::kEnd)
      if (!ModuleItem()) return false;
    if (m_.target.empty()) return Fail("the text has no `.target`, is it PTX?");
    m_.notes = Notes();
    return EveryFunctionKnown();
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
      return ParseFunction();
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

  // What a function gets and gives, and what is handed to one, lies in local memory here.
  bool AddVariable(Variable v) {
    if (v.space == Space::kParam && entry_ != nullptr && (entry_->function || in_body_))
      v.space = Space::kLocal;
    auto [it, added] = scopes_.back().variables.emplace(v.name, m_.variables.size());
    if (!added) {
      // The same dynamic array may be declared once per kernel source.
      if (v.dynamic && m_.variables[static_cast<size_t>(it->second)].dynamic) return true;
      places_.At(diags_.Report(kPtxRedefined, {}, v.name), v.line);
      return false;
    }
    uint64_t* used = nullptr;
    uint64_t unused = 0;
    const bool function = entry_ != nullptr && entry_->function;
    switch (v.space) {
      case Space::kShared:
        // A function's is the module's: it must be known where the entries' own begin.
        if (function && !m_.entries.empty() && !v.dynamic)
          return FailAt(v.line, "shared memory of a function must be declared before the entries");
        used = entry_ != nullptr && !function ? &entry_->shared_bytes : &m_.shared_bytes;
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
    if (entry_ != nullptr && !function) v.entry = static_cast<int32_t>(m_.entries.size());
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

  // "(.param .u64 a, …)", with variables added to `list`.
  bool Parameters(std::vector<int32_t>* list) {
    if (!Accept('(') || Accept(')')) return true;
    do {
      if (!token_.IsWord(".param"))
        return Fail((token_.IsWord(".reg") ? "parameters in registers are not known here, expected "
                                             "`.param`, found "
                                           : "expected `.param`, found ") +
                    Found());
      Advance();
      Variable v;
      v.space = Space::kParam;
      if (!Declarator(&v)) return false;
      if (v.dynamic) return Fail("a parameter needs a size");
      list->push_back(static_cast<int32_t>(m_.variables.size()));
      if (!AddVariable(std::move(v))) return false;
    } while (Accept(','));
    return Expect(')');
  }

  // .func (.param .b32 result) name (.param .b32 x) { … } — or `;` where it is only declared.
  bool ParseFunction() {
    Advance();
    while (token_.IsWord(".attribute")) {
      Advance();
      if (!SkipTo(')')) return false;
    }
    Entry f;
    f.function = true;
    f.line = token_.line;
    entry_ = &f;
    const size_t variables = m_.variables.size();
    scopes_.Open();
    if (!Parameters(&f.results) || !Word(&f.name) || !Parameters(&f.params)) return false;
    while (token_.kind == Token::Kind::kWord && token_.text[0] == '.') {
      if (token_.IsWord(".pragma") && !SkipTo(';')) return false;
      Advance();
      while (token_.kind == Token::Kind::kInt) Advance();  // .abi_preserve 4
    }
    const auto number = static_cast<size_t>(FunctionNumber(f.name, f.line));
    m_.function_names[number].declared = true;
    const bool body = token_.Is('{');
    if (body) {
      if (m_.function_names[number].body >= 0) {
        places_.At(diags_.Report(kPtxRedefined, {}, f.name), f.line);
        return false;
      }
      if (!Body()) return false;
      m_.function_names[number].body = static_cast<int32_t>(m_.functions.size());
    } else {
      m_.variables.resize(variables);
    }
    scopes_.Close();
    entry_ = nullptr;
    m_.shared_align = std::max(m_.shared_align, f.shared_align);
    if (body) m_.functions.push_back(std::move(f));
    return body || Expect(';');
  }

  // A call of one that is not declared is refused where it is reached; its address is nobody's.
  bool EveryFunctionKnown() {
    for (const PtxModule::Function& f : m_.function_names)
      if (f.address && !f.declared) {
        places_.At(diags_.Report(kPtxUndefined, {}, f.name), f.line);
        return false;
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
    if (!Parameters(&entry.params)) return false;
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
    in_body_ = true;
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
    in_body_ = false;
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
    for (auto [table, slot, name] : scope.table_entries) {
      auto it = scope.labels.find(name);
      if (it == scope.labels.end() && !outermost) {
        parent.table_entries.push_back({table, slot, name});
        continue;
      }
      if (it == scope.labels.end()) {
        places_.At(diags_.Report(kPtxUndefined, {}, name), token_.line);
        return false;
      }
      entry_->tables[table][slot] = it->second;
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
      if (w == ".branchtargets") return BranchTargets();
      if (w == ".pragma" || w == ".callprototype" || w == ".calltargets") return SkipTo(';');
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
      last_label_ = token_.text;
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

  // LIST: .branchtargets L1, L2, … ;
  bool BranchTargets() {
    Advance();
    const size_t table = entry_->tables.size();
    entry_->tables.emplace_back();
    scopes_.back().tables.emplace(last_label_, table);
    do {
      std::string_view name;
      if (!Word(&name)) return false;
      if (entry_->tables[table].size() >= kMaxTargets)
        return TooBig("a list of branch targets", kMaxTargets + 1, kMaxTargets);
      scopes_.back().table_entries.push_back({table, entry_->tables[table].size(), name});
      entry_->tables[table].push_back(-1);
    } while (Accept(','));
    return Expect(';');
  }

  // call (results), target, (arguments), prototype — as a target and two vectors. What is no
  // variable of parameters is the decoder's to refuse.
  bool Call(Statement* s) {
    s->operands.resize(3);
    s->operands[1].kind = s->operands[2].kind = Operand::Kind::kVector;
    auto list = [&](Operand* o) { return Accept(')') || Vector(o, ')'); };
    if (Accept('(') && (!list(&s->operands[1]) || !Expect(','))) return false;
    Operand& target = s->operands[0];
    if (token_.kind != Token::Kind::kWord) return Fail("expected a function, found " + Found());
    if (token_.text[0] == '%') {
      if (!NamedOperand(&target)) return false;
    } else {
      target.kind = Operand::Kind::kFunction;
      target.index = FunctionNumber(token_.text, token_.line);
      Advance();
    }
    if (!Accept(',')) return true;
    if (Accept('(')) {
      if (!list(&s->operands[2])) return false;
      if (!Accept(',')) return true;
    }
    std::string_view prototype;
    return Word(&prototype);
  }

  // brx.idx index, LIST
  bool Branch(Statement* s) {
    s->operands.resize(2);
    if (!Value(s->operands.data()) || !Expect(',')) return false;
    std::string_view name;
    const int line = token_.line;
    if (!Word(&name)) return false;
    s->operands[1].kind = Operand::Kind::kLabel;
    for (size_t k = scopes_.size(); k-- > 0;)
      if (auto it = scopes_.at(k).tables.find(name); it != scopes_.at(k).tables.end()) {
        s->operands[1].index = static_cast<int32_t>(it->second);
        return true;
      }
    return Undefined(name, line);
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

  static bool IsTexture(std::string_view opcode) {
    return opcode == "tex" || opcode == "tld4" || opcode == "suld" || opcode == "sust" ||
           opcode == "sured" || opcode == "txq" || opcode == "suq";
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
    if (s.opcode == "call") {
      if (!Call(&s)) return false;
    } else if (s.opcode == "brx") {
      if (!Branch(&s)) return false;
    } else if (IsTexture(s.opcode)) {
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

  bool extern_ = false;
  bool in_body_ = false;
  std::string_view last_label_;
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
