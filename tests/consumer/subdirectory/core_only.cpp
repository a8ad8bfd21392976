// SPDX-License-Identifier: MIT
// Core alone: its target must not show the layers.
#include <tapehead/tensor.h>
#include <tapehead/version.h>

#if __has_include(<tapehead/module.h>)
#error "Tapehead::core sees the headers of layers/"
#endif

int main() { return tapehead::zeros({2, 3}).numel() == 6 && tapehead::kVersion[0] != '\0' ? 0 : 1; }
