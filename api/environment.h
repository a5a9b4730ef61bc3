// The one place of the library that looks at the environment: where the cache on disk is, and who
// assembles. Nothing that changes what is compiled may be read here.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tilec::api {

// $XDG_CACHE_HOME/tilec, or $HOME/.cache/tilec, or "".
std::string CacheDirectoryFromEnvironment();

// $PTXAS, or ptxas in $CUDA_HOME/bin or in a folder of $PATH, or "".
std::string PtxasFromEnvironment();

// Size and time of a file: differs between builds of a program. "?" if there is none.
std::string StampOf(const std::string& file);

// Differs between builds of this program or library: the stamp of the file that holds it.
// Part of every cache key, so that a rebuilt compiler never meets its predecessor's images.
std::string BuildStamp();

}  // namespace tilec::api
