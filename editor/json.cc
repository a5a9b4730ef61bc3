// SPDX-License-Identifier: Apache-2.0
#include "editor/json.h"

#include <fmt/format.h>

#include <cctype>

namespace tilec::editor {

const Json& At(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}

std::string Text(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

int64_t Number(const Json& object, const char* key, int64_t absent) {
  const Json& value = At(object, key);
  if (!value.is_number_integer()) return absent;
  const auto n = value.get<int64_t>();
  return n >= INT32_MIN && n <= INT32_MAX ? n : absent;
}

bool Flag(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_boolean() && value.get<bool>();
}

Position ReadPosition(const Json& position) {
  return {Number(position, "line", 0), Number(position, "character", 0)};
}

Range ReadRange(const Json& range) {
  return {ReadPosition(At(range, "start")), ReadPosition(At(range, "end"))};
}

Json ToJson(Position position) {
  return {{"line", position.line}, {"character", position.character}};
}

Json ToJson(const Range& range) {
  return {{"start", ToJson(range.start)}, {"end", ToJson(range.end)}};
}

std::string PathOf(const std::string& uri) {
  constexpr std::string_view kScheme = "file://";
  if (uri.compare(0, kScheme.size(), kScheme) != 0) return uri;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    const int lower = std::tolower(static_cast<unsigned char>(c));
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t i = kScheme.size(); i < uri.size(); ++i) {
    const bool escape =
        uri[i] == '%' && i + 2 < uri.size() && digit(uri[i + 1]) >= 0 && digit(uri[i + 2]) >= 0;
    out += escape ? static_cast<char>(16 * digit(uri[i + 1]) + digit(uri[i + 2])) : uri[i];
    if (escape) i += 2;
  }
  return out;
}

std::string UriOf(const std::string& path) {
  if (path.empty() || path[0] != '/') return path;
  std::string out = "file://";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                       std::string_view("/-._~").find(c) != std::string_view::npos;
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace tilec::editor
