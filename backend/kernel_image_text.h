// What writing and reading the text of an image must agree on: its version and the words for kinds.
// A text of another version is not read: the cache makes it anew.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/kernel_image.h"

namespace tilec::backend {

constexpr int kImageVersion = 3;
// … where a map has steps, which readers of version 3 would pass over.
constexpr int kImageVersionOfSteps = 4;

const char* Spelling(Direction d);
const char* Spelling(EntryParam::Kind k);

}  // namespace tilec::backend
