// SPDX-License-Identifier: Apache-2.0
#include "support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tilec {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string ErrorText() { return std::strerror(errno); }

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

bool ReadFile(const std::string& path, std::string* bytes, std::string* why, uint64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return *why = ErrorText(), false;
  if (S_ISDIR(status.st_mode)) return *why = "it is a directory", false;
  if (!S_ISREG(status.st_mode)) return *why = "it is not a regular file", false;
  if (static_cast<uint64_t>(status.st_size) > max_bytes)
    return *why = "it has " + std::to_string(status.st_size) + " bytes, at most " +
                  std::to_string(max_bytes) + " are read",
           false;
  bytes->resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t n = ::read(file.get(), bytes->data() + done, bytes->size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return *why = ErrorText(), false;
    if (n == 0) break;  // it shrank meanwhile
    done += static_cast<size_t>(n);
  }
  bytes->resize(done);
  return true;
}

bool WriteFileAtomically(const std::string& path, std::string_view bytes, std::string* why) {
  // What is no file (/dev/null, a pipe) is written to, never replaced by one.
  struct stat s = {};
  if (::stat(path.c_str(), &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode)) {
    const Descriptor special(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (special.get() >= 0 && WriteAll(special.get(), bytes)) return true;
    return *why = ErrorText(), false;
  }
  // Two writers never share a temporary file: the first free number is taken.
  std::string beside;
  int fd = -1;
  for (int serial = 0; fd < 0 && serial < 1000; ++serial) {
    beside = path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(serial);
    fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return *why = ErrorText(), false;
  }
  if (fd < 0) return *why = "too many abandoned temporary files beside it", false;
  bool written = false;
  {
    const Descriptor file(fd);
    written = WriteAll(file.get(), bytes);
    if (!written) *why = ErrorText();
  }
  if (written && std::rename(beside.c_str(), path.c_str()) != 0) {
    *why = ErrorText();
    written = false;
  }
  if (!written) ::unlink(beside.c_str());
  return written;
}

}  // namespace tilec
