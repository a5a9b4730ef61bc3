// SPDX-License-Identifier: Apache-2.0
#include "api/environment.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>

#include "runtime/kernel_cache.h"

namespace tilec::api {

std::string CacheDirectoryFromEnvironment() {
  return runtime::DefaultCacheDirectory(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
}

std::string BuildStamp() {
  Dl_info info = {};
  struct stat s = {};
  if (dladdr(reinterpret_cast<void*>(&BuildStamp), &info) == 0 || !info.dli_fname) return "?";
  // The main program may be named as it was typed; its own link in /proc is always right.
  if (::stat(info.dli_fname, &s) != 0 && ::stat("/proc/self/exe", &s) != 0) return "?";
  return fmt::format("{}.{}.{}", s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

}  // namespace tilec::api
