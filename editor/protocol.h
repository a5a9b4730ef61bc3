// The frame around a message: "Content-Length: N", blank line, N bytes of JSON (Language Server
// Protocol 3.17, base protocol). Bytes come in pieces of any size.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tilec::editor {

inline constexpr size_t kMostMessageBytes = size_t{64} << 20;
inline constexpr size_t kMostHeaderBytes = 4096;

class FrameReader {
 public:
  void Add(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole message; nullopt: more bytes are needed, or the stream is broken.
  std::optional<std::string> Next();
  // Nothing that follows can be understood: a header without a length, or one that is too large.
  const std::string& broken() const { return broken_; }

 private:
  std::string buffer_, broken_;
};

std::string Frame(const std::string& message);

}  // namespace tilec::editor
