// A bundle: kernels built ahead of time, in one file that a host loads without a compiler.
//
// A kernel has several builds: for each target, for each set of values that were compiled in, and
// for tensors that are aligned (16 bytes, as allocators give) or not. A launch takes the first
// build of its device's target whose values and facts its arguments meet; order is the writer's,
// best first.
//
// The file, little-endian:
//
//   bytes  0… 7   "tilecbdl"
//   bytes  8…11   version of the format, 1
//   bytes 12…15   number of images
//   bytes 16…23   bytes of the file
//   bytes 24…31   XXH3 (64 bits) of everything behind byte 32
//   then          the compiler's version, and each image as JSON (backend/kernel_image.h); each is
//   a
//                 length of 8 bytes and so many bytes
//
// The hash finds damage; it is no signature: whoever may write a bundle may choose what runs on the
// GPU. Nothing in a file is trusted by the host: lengths are checked against the file, images by
// the reader of images, launches by what every launch is checked by.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel_image.h"
#include "runtime/launch.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime {

struct Bundle {
  std::string compiler;  // its version, for people
  std::vector<backend::KernelImage> images;
};

std::string WriteBundle(const Bundle& bundle);
// `name` is what diagnostics call the bytes.
Result<Bundle> ReadBundle(std::string_view bytes, const std::string& name, DiagSink& diags);

// Which image of `kernel` a launch with these arguments takes on a device of this target. Fails
// with what each build lacked.
Result<size_t> ChooseImage(const Bundle& bundle, const std::string& kernel,
                           const std::string& target, const LaunchArgs& args, DiagSink& diags);

// Kernels by name, each once, in order of their first image.
std::vector<std::string> KernelsOf(const Bundle& bundle);

}  // namespace tilec::runtime
