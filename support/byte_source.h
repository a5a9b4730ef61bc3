// Bytes that are read where they are needed: memory of the caller's, or an open file. Nothing is
// mapped: a file that another program cuts while it is mapped would kill its reader, here it is a
// read that fails.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilec {

class ByteSource {
 public:
  // `memory` stays as it is while this is used.
  static ByteSource In(std::string_view memory);
  static ByteSource Owned(std::string memory);
  // A regular file; kept open. Nothing, and why, if it cannot be.
  static std::optional<ByteSource> OfFile(const std::string& path, std::string* why);
  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&& other) = delete;
  ~ByteSource();

  uint64_t size() const { return size_; }
  // `count` bytes from `offset` on: `view` is of memory that lives as long as this, or of `place`,
  // which they were read into. Thread-safe. False, and why, if they are not all there.
  bool Read(uint64_t offset, uint64_t count, std::string* place, std::string_view* view,
            std::string* why) const;

 private:
  ByteSource() = default;

  std::string owned_;
  std::string_view memory_;  // of the caller
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace tilec
