// SPDX-License-Identifier: MIT
// Elements in order.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

using detail::data;
using detail::fresh;

// A NaN is above every number.
template <class T>
bool below(T a, T b) {
  return a < b || (a == a && b != b);
}

template <class T>
struct Item {
  T value;
  Index place;
};

// The places of the first k elements of each line along an axis. Ties go by place, so that the order is the only one.
template <class T>
void first_places(const Tensor& x, int axis, Index k, bool descending, Tensor& places) {
  const Index size = x.shape()[axis];
  const Index inner = x.shape().numel(axis + 1, x.rank());
  const auto before = [descending](const Item<T>& a, const Item<T>& b) {
    if (below(a.value, b.value)) return !descending;
    if (below(b.value, a.value)) return descending;
    return a.place < b.place;
  };
  detail::parallel_ranges(places.numel() / k, 32 * size, [&](Index begin, Index end) {
    std::vector<Item<T>> items(static_cast<std::size_t>(size));
    for (Index line = begin; line < end; ++line) {
      const T* from = data<T>(x) + line / inner * inner * size + line % inner;
      for (Index i = 0; i < size; ++i) items[static_cast<std::size_t>(i)] = {from[i * inner], i};
      if (k == size) {
        std::sort(items.begin(), items.end(), before);
      } else {
        std::partial_sort(items.begin(), items.begin() + k, items.end(), before);
      }
      Index* to = fresh<Index>(places) + line / inner * inner * k + line % inner;
      for (Index i = 0; i < k; ++i) to[i * inner] = items[static_cast<std::size_t>(i)].place;
    }
  });
}

SortResult first_of(const Tensor& x, int axis, Index k, bool descending) {
  Tensor places = empty(x.shape().with(axis, k), DType::i64);
  if (places.numel() > 0) {
    visit_any(x.dtype(), [&](auto zero) { first_places<decltype(zero)>(x, axis, k, descending, places); });
  }
  return {gather(x, axis, places), places};
}

}  // namespace

SortResult sort(const Tensor& x, int axis, bool descending) {
  const int place = normalize_axis("sort", axis, x.rank());
  return first_of(x, place, x.shape()[place], descending);
}

SortResult topk(const Tensor& x, Index k, int axis, bool largest) {
  const int place = normalize_axis("topk", axis, x.rank());
  if (k < 0 || k > x.shape()[place]) {
    throw ValueError(fmt::format("topk: k is {} and x {} has {} elements along axis {}; take k in [0, {}]", k,
                                 to_string(x.shape()), x.shape()[place], place, x.shape()[place]));
  }
  return first_of(x, place, k, largest);
}

}  // namespace tapehead
