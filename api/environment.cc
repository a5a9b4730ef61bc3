// SPDX-License-Identifier: Apache-2.0
#include "api/environment.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>

#include "backend/ptxas.h"
#include "runtime/kernel_cache.h"

namespace tilec::api {

std::string CacheDirectoryFromEnvironment() {
  return runtime::DefaultCacheDirectory(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
}

std::string PtxasFromEnvironment() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  return backend::FindPtxas({text("PTXAS"), text("CUDA_HOME"), text("PATH")});
}

std::string StampOf(const std::string& file) {
  struct stat s = {};
  if (::stat(file.c_str(), &s) != 0) return "?";
  return fmt::format("{}.{}.{}", s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

std::string BuildStamp() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&BuildStamp), &info) == 0 || !info.dli_fname) return "?";
  // The main program may be named as it was typed; its own link in /proc is always right.
  const std::string stamp = StampOf(info.dli_fname);
  return stamp != "?" ? stamp : StampOf("/proc/self/exe");
}

}  // namespace tilec::api
