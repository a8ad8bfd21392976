// SPDX-License-Identifier: MIT
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/detail/parallel.h>
#include <tapehead/error.h>
#include <tapehead/losses.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>
#include <tapehead/random.h>
#include <tapehead/runtime.h>

#include "full.h"

using namespace tapehead;

namespace {

// Puts the number of threads back.
struct KeepThreads {
  int before = num_threads();
  ~KeepThreads() { set_num_threads(before); }
};

Tensor waves(const Shape& shape, double phase) {
  Tensor out = empty(shape);
  for (float& value : out.write<float>()) value = static_cast<float>(std::sin(phase += 1.7));
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.body().storage->data(), b.body().storage->data(), a.body().storage->bytes()) == 0;
}

// Results and gradients of operations that are large enough to be cut.
std::vector<Tensor> compute() {
  std::vector<Tensor> out;
  const auto keep = [&](const Tensor& result, const std::vector<Tensor>& leaves) {
    out.push_back(result.detach());
    result.backward({.gradient = waves(result.shape(), 0.5)});
    for (const Tensor& leaf : leaves) out.push_back(leaf.grad());
  };
  const auto leaf = [](Tensor x) { return x.requires_grad_(); };
  {
    const Tensor a = leaf(waves({301, 503}, 0)), b = leaf(waves({503}, 1));
    keep(a * b + exp(a), {a, b});
  }
  {
    const Tensor x = leaf(waves({301, 503}, 2));
    keep(sum(x), {x});
  }
  {
    const Tensor x = leaf(waves({301, 503}, 2));
    keep(mean(x, 0), {x});
  }
  {
    const Tensor a = leaf(waves({300, 200}, 3)), b = leaf(waves({200, 310}, 4));
    keep(matmul(a, b), {a, b});
  }
  {
    const Tensor x = leaf(waves({6, 70, 128}, 3)), w = leaf(waves({256, 128}, 4)), b = leaf(waves({256}, 5));
    keep(linear(x, w, b), {x, w, b});
  }
  {
    const Tensor x = leaf(waves({700, 130}, 6));
    keep(softmax(x), {x});
  }
  {
    const Tensor x = leaf(waves({700, 130}, 6)), w = leaf(waves({130}, 7)), b = leaf(waves({130}, 8));
    keep(layer_norm(x, w, b), {x, w, b});
  }
  {
    const Tensor q = leaf(waves({2, 4, 150, 32}, 9)), k = leaf(waves({2, 4, 150, 32}, 10)),
                 v = leaf(waves({2, 4, 150, 32}, 11));
    keep(scaled_dot_product_attention(q, k, v, {.mask = Mask::causal(), .need_weights = false}).output, {q, k, v});
  }
  {
    const Tensor weight = leaf(waves({50, 64}, 12));
    Tensor ids = zeros({2000}, DType::i64);
    Index i = 0;
    for (Index& id : ids.write<Index>()) {
      i += 7;
      id = i * i % 50;
    }
    keep(embedding(weight, ids), {weight});
  }
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& x) { return gelu(x, Gelu::tanh) + tanh(x) * sigmoid(x); },
           [](const Tensor& x) {
             return sum(permute(x, {1, 0}), 0) + mean(x, 1);
           },
           [](const Tensor& x) { return variance(x, 1) + logsumexp(x, 1); },
           [](const Tensor& x) { return cumsum(x, 0); },
           [](const Tensor& x) { return sort(x, 1).values; },
           [](const Tensor& x) {
             return einsum("ij,kj->ik", {x, slice(x, 0, {.stop = 90})});
           },
           [](const Tensor& x) { return rms_norm(x, ones({203})); },
           [](const Tensor& x) { return cross_entropy(x, argmin(x, 1)); },
           [](const Tensor& x) { return dropout(x, 0.3); },
       }) {
    manual_seed(5);
    const Tensor x = leaf(waves({407, 203}, 13));
    keep(f(x), {x});
  }
  {
    manual_seed(6);
    Tensor p = leaf(randn({211, 403}));
    AdamW adam({{"p", p}}, {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      sum(p * p * p).backward();
      out.push_back(full({1}, clip_grad_norm(adam.parameters(), 0.5), DType::f64));
      adam.step();
    }
    out.push_back(p.detach());
  }
  return out;
}

}  // namespace

TEST_CASE("results have the same bits for any number of threads") {
  const KeepThreads keep;
  set_num_threads(1);
  const std::vector<Tensor> one = compute();
  for (const int threads : {1, 2, 3, 4}) {
    set_num_threads(threads);
    const std::vector<Tensor> many = compute();
    REQUIRE(many.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      CAPTURE(threads);
      CAPTURE(i);
      CHECK(same_bits(one[i], many[i]));
    }
  }
}

TEST_CASE("every chunk is visited once, on any number of threads") {
  const KeepThreads keep;
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    CHECK(num_threads() == threads);
    for (const Index chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(chunks));
      detail::parallel_for(chunks, [&](Index chunk) { ++visits[static_cast<std::size_t>(chunk)]; });
      for (const std::atomic<int>& count : visits) CHECK(count == 1);
    }
    std::vector<std::atomic<int>> items(100003);
    detail::parallel_ranges(100003, 1, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) ++items[static_cast<std::size_t>(i)];
    });
    int wrong = 0;
    for (const std::atomic<int>& count : items) wrong += count != 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE("an exception in a chunk reaches the caller, and the pool goes on") {
  const KeepThreads keep;
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    for (int round = 0; round < 20; ++round) {
      CHECK_THROWS_WITH_AS(detail::parallel_for(64,
                                                [&](Index chunk) {
                                                  if (chunk == round) throw ValueError("test: chunk");
                                                }),
                           "test: chunk", ValueError);
      std::atomic<int> done{0};
      detail::parallel_for(64, [&](Index) { ++done; });
      CHECK(done == 64);
    }
  }
}

TEST_CASE("parallel work inside parallel work is done") {
  const KeepThreads keep;
  set_num_threads(3);
  std::atomic<int> done{0};
  detail::parallel_for(8, [&](Index) { detail::parallel_for(8, [&](Index) { ++done; }); });
  CHECK(done == 64);
  CHECK_THROWS_AS(detail::parallel_for(8,
                                       [&](Index) {
                                         detail::parallel_for(8, [&](Index inner) {
                                           if (inner == 5) throw ValueError("test");
                                         });
                                       }),
                  ValueError);
}

TEST_CASE("threads of the user may all start parallel work") {
  const KeepThreads keep;
  set_num_threads(2);
  std::atomic<int> done{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&] {
      for (int round = 0; round < 200; ++round) detail::parallel_for(16, [&](Index) { ++done; });
    });
  }
  for (std::thread& user : users) user.join();
  CHECK(done == 4 * 200 * 16);
}

TEST_CASE("independent models train in threads with the bits of one after another") {
  const auto train = [](int model) {
    const auto values = [&](Index rows, Index columns, double phase) { return 0.3 * waves({rows, columns}, phase); };
    Tensor w1 = values(24, 16, model).requires_grad_(), w2 = values(16, 24, model + 0.5).requires_grad_();
    const Tensor x = values(32, 16, model + 0.25);
    Adam adam({{"w1", w1}, {"w2", w2}}, {.lr = 0.01});
    for (int step = 0; step < (full_run() ? 200 : 20); ++step) {
      mse_loss(softmax(linear(tanh(linear(x, w1)), w2)), x * x).backward();
      adam.step();
    }
    return std::pair(w1.detach(), w2.detach());
  };
  std::vector<std::pair<Tensor, Tensor>> together(4);
  std::vector<std::thread> threads;
  for (int model = 0; model < 4; ++model) {
    threads.emplace_back([&, model] { together[static_cast<std::size_t>(model)] = train(model); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int model = 0; model < 4; ++model) {
    const auto alone = train(model);
    CHECK(same_bits(together[static_cast<std::size_t>(model)].first, alone.first));
    CHECK(same_bits(together[static_cast<std::size_t>(model)].second, alone.second));
  }
}

TEST_CASE("eight threads read one model") {
  const Tensor w1 = waves({64, 96}, 0).requires_grad_(), w2 = waves({96, 64}, 1).requires_grad_();
  const auto answer = [&](int reader) {
    const NoGrad off;
    return softmax(linear(gelu(linear(waves({200, 96}, reader), w1)), w2));
  };
  std::vector<Tensor> together(8);
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 8; ++reader) {
    readers.emplace_back([&, reader] {
      for (int round = 0; round < (full_run() ? 200 : 20); ++round) {
        together[static_cast<std::size_t>(reader)] = answer(reader);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  for (int reader = 0; reader < 8; ++reader) {
    CHECK(same_bits(together[static_cast<std::size_t>(reader)], answer(reader)));
  }
}

TEST_CASE("a thread count below one is refused") {
  const KeepThreads keep;
  CHECK_THROWS_AS(set_num_threads(0), ValueError);
  CHECK_THROWS_AS(set_num_threads(-3), ValueError);
  CHECK(num_threads() == keep.before);
}
