// SPDX-License-Identifier: MIT
// Started with OPENBLAS_CORETYPE=Prescott, so that OpenBLAS has taken the kernels it takes on processors that it does
// not know. The argument says what Tapehead must then run on: "repaired" or "as-is".
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <tapehead/ops.h>
#include <tapehead/runtime.h>

int main(int argc, char** argv) {
  unsetenv("OPENBLAS_CORETYPE");  // left in place it is the user's own choice, which stands
  const std::string wanted = argc > 1 ? argv[1] : "";
  const std::string core = tapehead::blas_core();
  std::printf("wanted %s, BLAS core is %s\n", wanted.c_str(), core.c_str());
  const tapehead::Tensor a = tapehead::ones({512, 512}), b = tapehead::full({512, 512}, 0.5);
  const tapehead::Tensor y = tapehead::matmul(a, b, {.transpose_a = true});  // of a size that BLAS computes
  for (const float value : y.read<float>()) {
    if (value != 256.0F) return 1;
  }
  const bool repaired = core.find("(repaired)") != std::string::npos;
  if (wanted == "repaired" && !repaired) return 77;  // this OpenBLAS or processor gives nothing to repair
  return repaired == (wanted == "repaired") ? 0 : 1;
}
