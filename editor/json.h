// Reading JSON that a client sent: every accessor returns something for every value, so that no
// message, however wrong, can make the server throw or stop.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "editor/position.h"

namespace tilec::editor {

using Json = nlohmann::json;

// The member, or null.
const Json& At(const Json& object, const char* key);
// What is no text, number or flag is `absent`; numbers outside of int32 too.
std::string Text(const Json& object, const char* key);
int64_t Number(const Json& object, const char* key, int64_t absent);
bool Flag(const Json& object, const char* key);
Position ReadPosition(const Json& position);
Range ReadRange(const Json& range);

Json ToJson(Position position);
Json ToJson(const Range& range);

// "file:///a%20b.tile" ↔ "/a b.tile". Other schemes stay as they are: untitled documents.
std::string PathOf(const std::string& uri);
std::string UriOf(const std::string& path);

}  // namespace tilec::editor
