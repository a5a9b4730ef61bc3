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
#include "runtime/emulator/ptx_parse.h"

namespace tilec::runtime::emulator {

PtxParser::PtxParser(PtxModule* module, const PtxPlaces& places, DiagSink& diags)
    : PtxDeclarationReader(module, places, diags) {
  scopes_.Open();
}

bool PtxParser::Run() {
  while (token_.kind != Token::Kind::kEnd)
    if (!ModuleItem()) return false;
  if (m_.target.empty()) return Fail("the text has no `.target`, is it PTX?");
  m_.notes = Notes();
  return EveryFunctionKnown();
}

bool PtxParser::ModuleItem() {
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
  if (w == ".visible" || w == ".weak" || w == ".common" || w == ".internal") return Advance(), true;
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
  places_.At(diags_.Report(kPtxRefused, {}, "the directive `" + std::string(w) + "`"), token_.line);
  return false;
}

bool PtxParser::ParseVariable() {
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
      places_.At(
          diags_.Report(kPtxRefused, {},
                        "the external variable `" + std::string(v.name) + "`: there is no linker"),
          v.line);
      return false;
    }
    if (!AddVariable(std::move(v))) return false;
  } while (Accept(','));
  return Expect(';');
}

// What a function gets and gives, and what is handed to one, lies in local memory here.
bool PtxParser::AddVariable(Variable v) {
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

bool PtxParser::Triple(uint32_t* out) {
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
bool PtxParser::Parameters(std::vector<int32_t>* list) {
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
bool PtxParser::ParseFunction() {
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
bool PtxParser::EveryFunctionKnown() {
  for (const PtxModule::Function& f : m_.function_names)
    if (f.address && !f.declared) {
      places_.At(diags_.Report(kPtxUndefined, {}, f.name), f.line);
      return false;
    }
  return true;
}

bool PtxParser::ParseEntry() {
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

Result<std::unique_ptr<PtxModule>> ParsePtx(const std::string& text, const PtxPlaces& places,
                                            DiagSink& diags) {
  if (text.size() > kMaxText)
    return diags.Report(kPtxTooBig, {}, "the text", text.size(), kMaxText).Place(places.name);
  auto module = std::make_unique<PtxModule>();
  module->text = text;
  DiagSink local;  // "has an error been reported" must mean by this parse
  PtxParser parser(module.get(), places, local);
  bool ok = parser.Run();
  local.MoveTo(diags);
  if (!ok) return DiagSink::Propagate();
  return module;
}

}  // namespace tilec::runtime::emulator
