// Bodies of functions: scopes, registers, calls, branches, instructions. Inline assembly relies on
// `{ }` scopes: the same `P1` and `LAB_WAIT` are declared many times per kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/ptx_parse.h"

#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/ptx_declarations.h"

namespace tilec::runtime::emulator {

bool PtxParser::Body() {
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

bool PtxParser::CloseScope() {
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

bool PtxParser::BodyItem() {
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
bool PtxParser::BranchTargets() {
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
bool PtxParser::Call(Statement* s) {
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
bool PtxParser::Branch(Statement* s) {
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

bool PtxParser::Registers() {
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

bool PtxParser::IsTexture(std::string_view opcode) {
  return opcode == "tex" || opcode == "tld4" || opcode == "suld" || opcode == "sust" ||
         opcode == "sured" || opcode == "txq" || opcode == "suq";
}

bool PtxParser::Instruction() {
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

}  // namespace tilec::runtime::emulator
