// SPDX-License-Identifier: Apache-2.0
#include "ir/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/diagnostics.h"
#include "support/lines.h"
#include "support/nearest.h"

namespace tilec::ir {

namespace {

constexpr int64_t kMostRoles = 64;

// How ops name their role: by its name where that says which, else by its number.
std::string RoleWord(const Schedule& schedule, int role) {
  if (role >= 0 && role < static_cast<int>(schedule.roles.size())) {
    const std::string& name = schedule.roles[role].name;
    const auto same = std::count_if(schedule.roles.begin(), schedule.roles.end(),
                                    [&](const ScheduledRole& r) { return r.name == name; });
    if (same == 1 && !name.empty() && !ParseInteger(name)) return name;
  }
  return fmt::format("{}", role);
}

std::string NameWord(const std::string& name) { return name.empty() ? "-" : name; }
std::string FromWord(std::string_view word) { return word == "-" ? "" : std::string(word); }

class ScheduleParser {
 public:
  ScheduleParser(std::string_view text, int32_t file, DiagSink& diags)
      : text_(text), file_(file), diags_(diags) {}

  Result<Schedule> Run() {
    for (const TextLine& line : SplitLines(text_, file_)) {
      line_ = &line;
      const std::string_view key = line.words[0].text;
      if (lines_read_++ == 0 && key != "schedule")
        return Syntax(line.words[0], "a schedule starts with `schedule GRAPH`");
      TRY_VOID(ParseLine(key));
    }
    if (lines_read_ == 0)
      return diags_.Report(kScheduleSyntax, Span{file_, 0, 0}, "the schedule is empty");
    if (schedule_.ii < 1)
      return diags_.Report(kScheduleSyntax, Span{file_, 0, 0}, "the schedule has no line `ii`")
          .Help("write `ii CYCLES`, the initiation interval");
    return std::move(schedule_);
  }

 private:
  DiagBuilder At(const DiagDef& def, Span span, const std::string& text) {
    DiagBuilder builder = diags_.Report(def, span, text);
    if (file_ < 0) builder.Place(fmt::format("line {}", line_->number));
    return builder;
  }
  DiagBuilder Syntax(const TextWord& word, const std::string& text) {
    return At(kScheduleSyntax, word.span, text);
  }
  DiagBuilder Value(const TextWord& word, const std::string& text) {
    return At(kScheduleValue, word.span, text);
  }

  Result<> Words(size_t count, const char* form) {
    if (line_->words.size() == count) return Done();
    return At(kScheduleSyntax, line_->span, fmt::format("this line is not `{}`", form));
  }

  Result<int64_t> Number(const TextWord& word, int64_t low, int64_t high) {
    const std::optional<int64_t> value = ParseInteger(word.text);
    if (!value) return Value(word, fmt::format("`{}` is not a number", word.text));
    if (*value < low || *value > high)
      return Value(word, fmt::format("{} is not in {}…{}", *value, low, high));
    return *value;
  }

  Result<TextWord> Field(size_t index, std::string_view key) {
    const TextWord& word = line_->words[index];
    const std::optional<KeyValue> pair = SplitKeyValue(word);
    if (!pair || pair->key != key)
      return Syntax(word, fmt::format("expected `{}=…`, found `{}`", key, word.text));
    return pair->value;
  }
  Result<int64_t> NumberField(size_t index, std::string_view key, int64_t low, int64_t high) {
    TRY(const TextWord value, Field(index, key));
    return Number(value, low, high);
  }

  Result<> Once(bool* seen) {
    if (*seen)
      return Syntax(line_->words[0], fmt::format("a second line `{}`", line_->words[0].text));
    *seen = true;
    return Done();
  }

  Result<int> Role(const TextWord& word) {
    std::vector<std::string> names;
    for (const ScheduledRole& role : schedule_.roles) names.push_back(role.name);
    const auto it = std::find(names.begin(), names.end(), word.text);
    if (it != names.end()) return static_cast<int>(it - names.begin());
    if (const auto number = ParseInteger(word.text)) {
      if (*number >= 0 && *number < static_cast<int64_t>(names.size()))
        return static_cast<int>(*number);
      return Value(word,
                   fmt::format("there is no role {}: {} are defined above", *number, names.size()));
    }
    DiagBuilder builder = Value(word, fmt::format("there is no role `{}` above", word.text));
    const std::string near = NearestName(word.text, names);
    if (!near.empty()) builder.Help(fmt::format("did you mean `{}`?", near));
    return builder;
  }

  Result<> ParseLine(std::string_view key) {
    const std::vector<TextWord>& words = line_->words;
    constexpr int64_t kMost = int64_t{1} << 40;
    if (key == "schedule") {
      TRY_VOID(Words(2, "schedule GRAPH"));
      TRY_VOID(Once(&seen_schedule_));
      schedule_.graph = FromWord(words[1].text);
    } else if (key == "hash") {
      TRY_VOID(Words(2, "hash HEX"));
      TRY_VOID(Once(&seen_hash_));
      const std::string_view hex = words[1].text;
      const auto [end, error] =
          std::from_chars(hex.data(), hex.data() + hex.size(), schedule_.graph_hash, 16);
      if (error != std::errc() || end != hex.data() + hex.size())
        return Value(words[1], fmt::format("`{}` is not a hash of 16 hexadecimal digits", hex));
    } else if (key == "machine") {
      TRY_VOID(Words(2, "machine NAME"));
      TRY_VOID(Once(&seen_machine_));
      schedule_.machine = FromWord(words[1].text);
    } else if (key == "ii") {
      TRY_VOID(Words(2, "ii CYCLES"));
      TRY_VOID(Once(&seen_ii_));
      TRY(schedule_.ii, Number(words[1], 1, kMost));
    } else if (key == "role") {
      TRY_VOID(Words(4, "role NAME warps=N regs=N"));
      ScheduledRole role;
      role.name = FromWord(words[1].text);
      TRY(const int64_t warps, NumberField(2, "warps", 1, kMostRoles));
      role.warps = static_cast<int>(warps);
      TRY(role.regs, NumberField(3, "regs", 0, 1 << 16));
      if (static_cast<int64_t>(schedule_.roles.size()) >= kMostRoles)
        return Value(words[1], fmt::format("more than {} roles", kMostRoles));
      schedule_.roles.push_back(std::move(role));
    } else if (key == "op") {
      TRY_VOID(Words(4, "op NAME cycle=N role=ROLE"));
      ScheduledOp op;
      op.name = words[1].text;
      TRY(op.cycle, NumberField(2, "cycle", -kMost, kMost));
      TRY(const TextWord role, Field(3, "role"));
      TRY(op.role, Role(role));
      schedule_.ops.push_back(std::move(op));
    } else if (key == "channel") {
      TRY_VOID(Words(4, "channel VALUE smem|tmem|reg depth=N"));
      Channel channel;
      channel.value = words[1].text;
      channel.medium = words[2].text;
      if (channel.medium != "smem" && channel.medium != "tmem" && channel.medium != "reg")
        return Value(words[2], fmt::format("`{}` is no medium", channel.medium))
            .Help("a channel is in `smem`, `tmem` or `reg`");
      TRY(const int64_t depth, NumberField(3, "depth", 1, 1 << 20));
      channel.depth = static_cast<int>(depth);
      schedule_.channels.push_back(std::move(channel));
    } else if (key == "order") {
      TRY_VOID(Words(6, "order FROM -> TO UNIT enforced|free"));
      if (words[2].text != "->") return Syntax(words[2], "expected `->`");
      OrderEdge edge{std::string(words[1].text), std::string(words[3].text),
                     std::string(words[4].text), words[5].text == "enforced"};
      if (!edge.enforced && words[5].text != "free")
        return Syntax(words[5], "expected `enforced` or `free`");
      schedule_.order.push_back(std::move(edge));
    } else if (key == "assume") {
      // The words after the key, as they were written.
      schedule_.assumptions.emplace_back(
          words.size() < 2
              ? std::string_view()
              : line_->text.substr(static_cast<size_t>(words[1].text.data() - line_->text.data())));
    } else {
      DiagBuilder builder = Syntax(words[0], fmt::format("no line starts with `{}`", key));
      const std::string near = NearestName(
          key, {"schedule", "hash", "machine", "ii", "role", "op", "channel", "order", "assume"});
      if (!near.empty()) builder.Help(fmt::format("did you mean `{}`?", near));
      return builder;
    }
    return Done();
  }

  const std::string_view text_;
  const int32_t file_;
  DiagSink& diags_;
  const TextLine* line_ = nullptr;
  int lines_read_ = 0;
  bool seen_schedule_ = false, seen_hash_ = false, seen_machine_ = false, seen_ii_ = false;
  Schedule schedule_;
};

}  // namespace

std::string ToText(const Schedule& s) {
  std::string text = fmt::format("schedule {}\nhash {:016x}\nmachine {}\nii {}\n",
                                 NameWord(s.graph), s.graph_hash, NameWord(s.machine), s.ii);
  for (const ScheduledRole& role : s.roles)
    text += fmt::format("role {} warps={} regs={}\n", NameWord(role.name), role.warps, role.regs);
  for (const ScheduledOp& op : s.ops)
    text += fmt::format("op {} cycle={} role={}\n", op.name, op.cycle, RoleWord(s, op.role));
  for (const Channel& channel : s.channels)
    text += fmt::format("channel {} {} depth={}\n", channel.value, channel.medium, channel.depth);
  for (const OrderEdge& edge : s.order)
    text += fmt::format("order {} -> {} {} {}\n", edge.from, edge.to, edge.unit,
                        edge.enforced ? "enforced" : "free");
  for (const std::string& assumption : s.assumptions)
    text += assumption.empty() ? "assume\n" : fmt::format("assume {}\n", assumption);
  return text;
}

Result<Schedule> ParseSchedule(std::string_view text, int32_t file, DiagSink& diags) {
  return ScheduleParser(text, file, diags).Run();
}

}  // namespace tilec::ir
