// SPDX-License-Identifier: MIT
#include <tapehead/detail/blas.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>

#include <cblas.h>
#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/runtime.h>

// OpenBLAS exports these, but no header declares them; other builds may lack them, hence weak.
extern "C" {
__attribute__((weak)) char* openblas_get_corename();
__attribute__((weak)) char* openblas_get_config();
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) void openblas_read_env();
__attribute__((weak)) void gotoblas_dynamic_quit();
__attribute__((weak)) void gotoblas_dynamic_init();
}

namespace tapehead {
namespace {

bool repaired = false;

// OpenBLAS before 0.3.25 does not know some recent Intel models and falls back to SSE3 kernels, five times slower
// (OpenMathLib/OpenBLAS#4267). Naming the kernel set and running its start-up again mends that inside the process.
void repair_kernel_choice() {
#if defined(__x86_64__) && defined(__linux__)
  const char* off = std::getenv("TAPEHEAD_BLAS_REPAIR");
  if ((off != nullptr && std::strcmp(off, "off") == 0) || std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  if (!openblas_get_corename || !openblas_get_config || !openblas_read_env || !gotoblas_dynamic_quit ||
      !gotoblas_dynamic_init) {
    return;
  }
  int major = 0, minor = 0, patch = 0;
  if (std::sscanf(openblas_get_config(), "OpenBLAS %d.%d.%d", &major, &minor, &patch) != 3 || major != 0 ||
      minor != 3 || patch >= 25) {
    return;
  }
  const std::string core = openblas_get_corename();
  if (core != "Prescott" && core != "Nehalem") return;
  __builtin_cpu_init();
  const char* better = nullptr;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    better = "SkylakeX";
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    better = "Haswell";
  }
  if (better == nullptr) return;
  setenv("OPENBLAS_CORETYPE", better, 1);
  openblas_read_env();
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv("OPENBLAS_CORETYPE");
  repaired = core != openblas_get_corename();
#endif
}

int blas_size(Index size) {
  if (size > std::numeric_limits<int>::max()) {
    throw ValueError(
        fmt::format("matmul: an axis of {} is longer than BLAS can count ({})", size, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(size);
}

void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
          const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void call(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
          const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

#if defined(__x86_64__)
constexpr unsigned kFlushBits = 0x8040;  // flush-to-zero and denormals-are-zero in MXCSR
#elif defined(__aarch64__)
constexpr unsigned long long kFlushBits = 1ULL << 24;  // FZ in FPCR
#endif

}  // namespace

std::string blas_core() {
  detail::blas_prepare_thread();
  if (!openblas_get_corename) return "unknown";
  return std::string(openblas_get_corename()) + (repaired ? " (repaired)" : "");
}

namespace detail {

void blas_prepare_thread() {
  static std::once_flag once;
  std::call_once(once, repair_kernel_choice);
  thread_local bool done = false;
  if (done) return;
  done = true;
  static std::mutex mutex;  // the openmp build counts per thread, and setting it is not thread-safe
  const std::lock_guard lock(mutex);
  if (openblas_set_num_threads) openblas_set_num_threads(1);
}

template <class T>
void blas_tile(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride) {
  blas_prepare_thread();
  const FlushSubnormals flush;
  call(a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans, blas_size(m), blas_size(n),
       blas_size(k), alpha, a.data, blas_size(std::max<Index>(1, a.stride)), b.data,
       blas_size(std::max<Index>(1, b.stride)), beta, c, blas_size(std::max<Index>(1, c_stride)));
}

template void blas_tile(Index, Index, Index, float, MatrixView<float>, MatrixView<float>, float, float*, Index);
template void blas_tile(Index, Index, Index, double, MatrixView<double>, MatrixView<double>, double, double*, Index);

FlushSubnormals::FlushSubnormals() {
#if defined(__x86_64__)
  saved_ = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(saved_) | kFlushBits);
#elif defined(__aarch64__)
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(saved_ | kFlushBits));
#else
  saved_ = 0;
#endif
}

FlushSubnormals::~FlushSubnormals() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(saved_));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(saved_));
#endif
}

}  // namespace detail
}  // namespace tapehead
