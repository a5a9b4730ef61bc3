// SPDX-License-Identifier: Apache-2.0
#include "support/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tilec {

ByteSource ByteSource::In(std::string_view memory) {
  ByteSource out;
  out.memory_ = memory;
  out.size_ = memory.size();
  return out;
}

ByteSource ByteSource::Owned(std::string memory) {
  ByteSource out;
  out.owned_ = std::move(memory);
  out.size_ = out.owned_.size();
  return out;
}

std::optional<ByteSource> ByteSource::OfFile(const std::string& path, std::string* why) {
  ByteSource out;
  struct stat status = {};
  out.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (out.fd_ < 0 || ::fstat(out.fd_, &status) != 0)
    return *why = std::strerror(errno), std::nullopt;
  if (S_ISDIR(status.st_mode)) return *why = "it is a directory", std::nullopt;
  if (!S_ISREG(status.st_mode)) return *why = "it is not a regular file", std::nullopt;
  out.size_ = static_cast<uint64_t>(status.st_size);
  return out;
}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : owned_(std::move(other.owned_)),
      memory_(other.memory_),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

ByteSource::~ByteSource() {
  if (fd_ >= 0) ::close(fd_);
}

bool ByteSource::Read(uint64_t offset, uint64_t count, std::string* place, std::string_view* view,
                      std::string* why) const {
  if (offset > size_ || count > size_ - offset) return *why = "it ends before", false;
  if (fd_ < 0) {
    const std::string_view all = owned_.empty() ? memory_ : std::string_view(owned_);
    *view = all.substr(static_cast<size_t>(offset), static_cast<size_t>(count));
    return true;
  }
  place->resize(static_cast<size_t>(count));
  size_t done = 0;
  while (done < place->size()) {
    const ssize_t n =
        ::pread(fd_, place->data() + done, place->size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return *why = std::strerror(errno), false;
    if (n == 0) return *why = "it was cut while it was used", false;
    done += static_cast<size_t>(n);
  }
  *view = *place;
  return true;
}

}  // namespace tilec
