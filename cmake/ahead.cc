// A target has a source; this one has none to say (cmake/at_once.cmake).
// SPDX-License-Identifier: Apache-2.0
int main() { return 0; }
