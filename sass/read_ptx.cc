// PTX as a list of instructions. Only what the counts need is understood: opcodes, labels with
// their scopes, branches, and of asynchronous products their shape and where A comes from.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "sass/diagnostics.h"
#include "sass/internal.h"

namespace tilec::sass {

namespace {

bool Starts(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool WordByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

// Directives that end with their line; all others end with `;`, or are sections in braces.
bool OfOneLine(std::string_view word) {
  for (std::string_view d :
       {".version", ".target", ".address_size", ".file", ".loc", ".reqntid", ".maxntid",
        ".minnctapersm", ".maxnreg", ".maxnctapersm", ".explicitcluster", ".reqnctapercluster",
        ".maxclusterrank", ".noreturn"})
    if (word == d) return true;
  return false;
}

class PtxReader {
 public:
  PtxReader(const std::string& text, DiagSink& diags) : text_(text), diags_(diags) {}

  Result<Listing> Run() {
    while (Blank(), at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '{') {
        ++at_;
        parents_.push_back(scope_);
        scope_ = static_cast<int>(parents_.size()) - 1;
      } else if (c == '}') {
        if (scope_ <= 0) return Bad("a `}` without its `{`");
        ++at_;
        scope_ = parents_[static_cast<size_t>(scope_)];
      } else if (c == ';') {
        ++at_;
      } else if (c == '.') {
        TRY_VOID(Directive());
      } else if (!Label()) {
        TRY_VOID(Statement());
      }
    }
    if (listing_.code.empty()) return Bad("no instruction");
    if (scope_ != 0) return Bad("a `{` without its `}`");
    // Names mean the nearest label of the scopes around them.
    std::vector<LabelAt> labels;
    for (const Named& label : labels_) labels.push_back({Key(label.name, label.scope), label.at});
    for (size_t i = 0; i < branches_.size(); ++i) {
      std::string& target = listing_.code[static_cast<size_t>(branches_[i].at)].target;
      std::string resolved;
      for (std::string_view rest = target; !rest.empty();) {
        const size_t blank = rest.find(' ');
        resolved += (resolved.empty() ? "" : " ") +
                    Resolved(std::string(rest.substr(0, blank)), branches_[i].scope, labels);
        rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
      }
      target = resolved;
    }
    Cut(labels, &listing_);
    return std::move(listing_);
  }

 private:
  struct Named {
    std::string name;
    int scope = 0, at = 0;
  };

  Reported Bad(const std::string& what) { return diags_.Report(kNotPtx, Span{}, line_, what); }

  void Step() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }

  void Blank() {
    while (at_ < text_.size()) {
      if (text_.compare(at_, 2, "//") == 0) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (text_.compare(at_, 2, "/*") == 0) {
        while (at_ < text_.size() && text_.compare(at_, 2, "*/") != 0) Step();
        at_ = std::min(at_ + 2, text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        Step();
      } else {
        return;
      }
    }
  }

  std::string Word() const {
    size_t end = at_;
    while (end < text_.size() && WordByte(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  // Up to a byte of `ends` outside of brackets; comments count as blanks, blanks as one.
  std::string Until(const char* ends) {
    std::string out;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (depth == 0 && std::string_view(ends).find(c) != std::string_view::npos) return out;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth < 0) return out;
      const bool comment = text_.compare(at_, 2, "//") == 0 || text_.compare(at_, 2, "/*") == 0;
      if (comment || std::isspace(static_cast<unsigned char>(c))) {
        if (std::string_view(ends) == "\n" && !comment && c == '\n') return out;
        Blank();
        if (!out.empty()) out += ' ';
        continue;
      }
      out += c;
      ++at_;
    }
    return out;
  }

  Result<> Directive() {
    const std::string word = Word();
    if (OfOneLine(word)) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      const std::string line = text_.substr(at_, end - at_);
      at_ = end;
      if (word == ".loc") {
        // file, line, column
        const size_t number = line.find(' ', line.find_first_not_of(" \t", 4));
        if (number != std::string::npos) source_ = std::atoi(line.c_str() + number);
      }
      return Done();
    }
    std::string said = Until(";{");
    if (at_ == text_.size()) return Bad("`" + word + "` has no end");
    const bool entry = said.find(".entry") != std::string::npos;
    if (entry && listing_.name.empty()) {
      const size_t name = said.find(".entry") + 7;
      listing_.name = said.substr(name, said.find_first_of(" (", name) - name);
    }
    if (text_[at_] == ';') {
      if (Starts(said, ".branchtargets")) Targets(said.substr(14));
      ++at_;
      return Done();
    }
    // A body is read; sections, and values in braces, are not.
    if (entry || said.find(".func") != std::string::npos) return Done();
    int depth = 0;
    do {
      if (at_ == text_.size()) return Bad("`" + word + "` has no end");
      depth += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
      Step();
    } while (depth > 0);
    return Done();
  }

  // The label in front names a list of them.
  void Targets(const std::string& list) {
    std::string names;
    for (const std::string& name : SplitOperands(list)) names += (names.empty() ? "" : " ") + name;
    if (!labels_.empty()) tables_.push_back({labels_.back().name, names});
  }

  bool Label() {
    const std::string word = Word();
    size_t end = at_ + word.size();
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t')) ++end;
    if (word.empty() || text_.compare(end, 1, ":") != 0 || text_.compare(end, 2, "::") == 0)
      return false;
    labels_.push_back({word, scope_, static_cast<int>(listing_.code.size())});
    at_ = end + 1;
    return true;
  }

  Result<> Statement() {
    Instr in;
    in.line = line_;
    in.source = source_;
    in.text = std::string(Trimmed(Until(";")));
    if (at_ == text_.size() || text_[at_] != ';') return Bad("a statement has no `;`");
    ++at_;
    std::string_view rest = in.text;
    const bool guarded = rest[0] == '@';
    if (guarded) rest = Trimmed(rest.substr(std::min(rest.find(' '), rest.size())));
    const size_t blank = std::min(rest.find(' '), rest.size());
    const std::string_view opcode = rest.substr(0, blank);
    if (opcode.empty()) return Bad("no instruction: `" + in.text + "`");
    const std::vector<std::string> operands = SplitOperands(rest.substr(blank));
    in.kind = KindOfPtx(opcode);
    if (Starts(opcode, "wgmma.mma_async")) {
      in.product = true;
      in.shape = Shape(opcode, operands);
      in.turned = Turned(operands);
    }
    in.select = opcode == "selp.f32";
    in.commit = Starts(opcode, "wgmma.commit_group");
    if (Starts(opcode, "wgmma.wait_group") && !operands.empty())
      in.wait = std::atoi(operands[0].c_str());
    const bool branch = opcode == "bra" || opcode == "bra.uni" || Starts(opcode, "brx.idx");
    if (branch && !operands.empty()) {
      in.target = operands.back();
      for (const Table& table : tables_)
        if (table.name == in.target) in.target = table.names;
      branches_.push_back({"", scope_, static_cast<int>(listing_.code.size())});
    }
    const bool ends =
        branch || opcode == "ret" || opcode == "ret.uni" || opcode == "exit" || opcode == "trap";
    in.falls_through = !ends || guarded;
    listing_.code.push_back(std::move(in));
    return Done();
  }

  // m64n128k16 with A in braces → "64x128x16 RS".
  static std::string Shape(std::string_view opcode, const std::vector<std::string>& operands) {
    std::string shape;
    if (const size_t m = opcode.find(".m64n"); m != std::string_view::npos) {
      shape = std::string(opcode.substr(m + 2, opcode.find('.', m + 1) - m - 2));
      for (char& c : shape)
        if (c == 'n' || c == 'k') c = 'x';
    }
    const bool registers = operands.size() > 1 && operands[1][0] == '{';
    return shape + (registers ? " RS" : "");
  }

  // What stands behind result, operands, `p, 1, 1`: a number for each operand in shared memory.
  static std::string Turned(const std::vector<std::string>& operands) {
    constexpr size_t kFirst = 6;
    const bool registers = operands.size() > 1 && operands[1][0] == '{';
    std::string turned;
    for (size_t i = kFirst; i < operands.size(); ++i)
      if (operands[i] == "1") turned += registers || i > kFirst ? "B" : "A";
    return turned;
  }

  static std::string Key(const std::string& name, int scope) {
    return name + "@" + std::to_string(scope);
  }
  std::string Resolved(const std::string& name, int scope,
                       const std::vector<LabelAt>& labels) const {
    for (;; scope = parents_[static_cast<size_t>(scope)]) {
      const std::string key = Key(name, scope);
      for (const LabelAt& label : labels)
        if (label.name == key) return key;
      if (scope == 0) return name;
    }
  }

  struct Table {
    std::string name, names;
  };

  const std::string& text_;
  DiagSink& diags_;
  size_t at_ = 0;
  int line_ = 1, source_ = 0, scope_ = 0;
  std::vector<int> parents_ = {0};  // of scopes; 0 is the file
  std::vector<Named> labels_, branches_;
  std::vector<Table> tables_;
  Listing listing_;
};

}  // namespace

Result<Listing> ReadPtx(const std::string& text, DiagSink& diags) {
  return PtxReader(text, diags).Run();
}

}  // namespace tilec::sass
