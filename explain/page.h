// Style and script of the page: the files of page/, built in.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tilec::explain {

std::string_view PageStyle();
std::string_view PageScript();

}  // namespace tilec::explain
