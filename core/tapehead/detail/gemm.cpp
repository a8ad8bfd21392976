// SPDX-License-Identifier: MIT
#include <tapehead/detail/gemm.h>

#include <algorithm>
#include <limits>

#include <tapehead/detail/blas.h>
#include <tapehead/detail/gemm_kernels.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/detail/pool.h>

namespace tapehead::detail {
namespace {

template <class T>
class Scratch {
 public:
  explicit Scratch(Index elements)
      : bytes_(static_cast<std::size_t>(elements) * sizeof(T)), data_(static_cast<T*>(allocate(bytes_))) {}
  ~Scratch() { deallocate(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

template <class T>
void run_here(const GemmTask<T>& task) {
  if (task.m == 0 || task.n == 0) return;
  if (task.k == 0) {  // an empty sum
    for (Index i = 0; i < task.m; ++i) {
      for (Index j = 0; j < task.n; ++j) {
        task.c[i * task.c_stride + j] = task.beta == T{0} ? T{0} : task.beta * task.start[i * task.start_stride + j];
      }
    }
    return;
  }
  const FlushSubnormals flush;
  const Scratch<T> scratch(gemm_scratch(task));
  gemm_run(task, scratch.data());
}

template <class T>
GemmTask<T> tile_of(GemmTask<T> task, Index i, Index rows, Index j, Index columns) {
  task.m = std::min(rows, task.m - i);
  task.n = std::min(columns, task.n - j);
  task.a.data += task.a.transposed ? i : i * task.a.stride;
  task.b.data += task.b.transposed ? j * task.b.stride : j;
  task.start += i * task.start_stride + j;
  task.c += i * task.c_stride + j;
  return task;
}

struct TileSize {
  Index rows, columns;
};

// The tiles that this many threads finish soonest. Any tiles give the same bits, so that the number of threads may
// decide. Packing an element of b costs about eight multiply-adds and is done anew for every tile below another. An
// eighth of a tile stands for threads that end apart.
template <class T>
TileSize tile_size(const GemmTask<T>& task, Index threads) {
  constexpr Index kCall = 1 << 16;  // multiply-adds in the time that a tile costs whatever its size
  TileSize best{task.m, task.n};
  if (threads == 1 || task.m * task.n * task.k < 8 * kCall) return best;
  Index least = std::numeric_limits<Index>::max();
  const Index most = 4 * threads;
  for (Index across = 1; across <= std::min(most, (task.n + 47) / 48); ++across) {
    const Index columns = ((task.n + across - 1) / across + 47) / 48 * 48;
    for (Index down = 1; across * down <= most && down <= (task.m + 7) / 8; ++down) {
      const Index rows = ((task.m + down - 1) / down + 7) / 8 * 8;
      const Index tiles = ((task.m + rows - 1) / rows) * ((task.n + columns - 1) / columns);
      const Index tile = (rows + 8) * columns * task.k + kCall;
      const Index cost = (tiles + threads - 1) / threads * tile + tile / 8;
      if (cost < least) {
        least = cost;
        best = {rows, columns};
      }
    }
  }
  return best;
}

template <class T>
void run_tiles(const GemmTask<T>& task) {
  if (task.m == 0 || task.n == 0) return;
  const auto [rows, columns] = tile_size(task, num_threads());
  const Index across = (task.n + columns - 1) / columns, down = (task.m + rows - 1) / rows;
  parallel_for(across * down, [&, rows = rows, columns = columns](Index tile) {
    run_here(tile_of(task, tile / across * rows, rows, tile % across * columns, columns));
  });
}

// Weight gradients need no equal bits from one m to another, and from here on BLAS is level or ahead (core/README.md
// has figures). Everything else stays here whatever the size, for the sake of its bits.
constexpr Index kBlasWork = Index{1} << 27;

// Large tiles, because every call of BLAS packs its operands anew; about eight, so that threads share them.
template <class T>
void run_blas_tiles(const GemmTask<T>& task) {
  const Index row_tile = task.m > 384 ? 256 : std::max<Index>(64, (task.m + 3) / 4);
  const Index down = (task.m + row_tile - 1) / row_tile;
  const Index wanted = (8 + down - 1) / down;
  const Index columns = (std::max<Index>(256, (task.n + wanted - 1) / wanted) + 63) / 64 * 64;
  const Index across = (task.n + columns - 1) / columns;
  parallel_for(down * across, [&](Index tile) {
    const GemmTask<T> t = tile_of(task, tile / across * row_tile, row_tile, tile % across * columns, columns);
    blas_tile<T>(t.m, t.n, t.k, t.alpha, t.a, t.b, t.beta, t.c, t.c_stride);
  });
}

}  // namespace

template <class T>
void gemm(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride) {
  const GemmTask<T> task{m, n, k, alpha, a, b, beta, c, c_stride, c, c_stride};
  if (a.transposed && m * n * k >= kBlasWork) return run_blas_tiles(task);
  run_tiles(task);
}

template <class T>
void gemm_bias(Index m, Index n, Index k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* c, Index c_stride) {
  run_tiles<T>({m, n, k, T{1}, a, b, T{1}, bias, 0, c, c_stride});
}

template <class T>
void gemm_tile(Index m, Index n, Index k, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, T* c, Index c_stride) {
  run_here<T>({m, n, k, alpha, a, b, beta, c, c_stride, c, c_stride});
}

template void gemm(Index, Index, Index, float, MatrixView<float>, MatrixView<float>, float, float*, Index);
template void gemm(Index, Index, Index, double, MatrixView<double>, MatrixView<double>, double, double*, Index);
template void gemm_bias(Index, Index, Index, MatrixView<float>, MatrixView<float>, const float*, float*, Index);
template void gemm_bias(Index, Index, Index, MatrixView<double>, MatrixView<double>, const double*, double*, Index);
template void gemm_tile(Index, Index, Index, float, MatrixView<float>, MatrixView<float>, float, float*, Index);
template void gemm_tile(Index, Index, Index, double, MatrixView<double>, MatrixView<double>, double, double*, Index);

}  // namespace tapehead::detail
