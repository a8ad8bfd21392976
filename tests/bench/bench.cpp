// SPDX-License-Identifier: MIT
// Times operations and training steps, one JSON line each: {"case", "ms" (median), "min_ms"} and, where it says
// something, "gflops" or "gbytes_per_s" of the median. Case names carry the sizes; fwdbwd is forward and backward.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <CLI/CLI.hpp>

#include <tapehead/detail/blas.h>
#include <tapehead/tapehead.h>

namespace th = tapehead;

namespace {

struct Work {
  double flop = 0;
  double bytes = 0;
};

class Bench {
 public:
  Bench(std::string only, bool quick) : only_(std::move(only)), quick_(quick) {}

  // `setup` makes the inputs and returns the step to time; it runs only when the case is wanted.
  void run(const std::string& name, const Work& work, const std::function<std::function<void()>()>& setup) const {
    if (name.find(only_) == std::string::npos) return;
    const std::function<void()> step = setup();
    step();
    step();
    const double once = seconds(step);
    int repeats = std::clamp(static_cast<int>(1 / std::max(once, 1e-7)), 5, 2000);
    if (quick_) repeats = std::max(3, repeats / 5);
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) times.push_back(seconds(step));
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    std::string rate;
    if (work.flop > 0) rate = fmt::format(", \"gflops\": {:.1f}", work.flop / median * 1e-9);
    if (work.bytes > 0) rate = fmt::format(", \"gbytes_per_s\": {:.1f}", work.bytes / median * 1e-9);
    fmt::print("{{\"case\": \"{}\", \"ms\": {:.5f}, \"min_ms\": {:.5f}{}}}\n", name, median * 1e3, times[0] * 1e3,
               rate);
    std::fflush(stdout);
  }

 private:
  static double seconds(const std::function<void()>& step) {
    const auto start = std::chrono::steady_clock::now();
    step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::string only_;
  bool quick_;
};

th::Tensor leaf(const th::Shape& shape) { return th::randn(shape).requires_grad_(); }

void tape(const Bench& bench) {
  bench.run("tape_chain_1000_add16_fwdbwd", {}, [] {
    return [x = leaf({16}), y = th::randn({16})]() mutable {
      x.zero_grad();
      th::Tensor z = x;
      for (int i = 0; i < 1000; ++i) z = z + y;
      th::sum(z).backward();
    };
  });
}

void products(const Bench& bench) {
  for (const th::Index n : {64, 256, 1024}) {
    bench.run(fmt::format("matmul_{}_fwdbwd", n), {.flop = 6.0 * std::pow(n, 3)}, [n] {
      return [a = leaf({n, n}), b = leaf({n, n})]() mutable {
        a.zero_grad();
        b.zero_grad();
        th::sum(th::matmul(a, b)).backward();
      };
    });
  }
  for (const auto& [batch, in, out] :
       std::vector<std::array<th::Index, 3>>{{32, 64, 64}, {768, 128, 512}, {2048, 768, 3072}}) {
    bench.run(fmt::format("linear_{}x{}x{}_fwdbwd", batch, in, out),
              {.flop = 6.0 * static_cast<double>(batch * in * out)}, [batch = batch, in = in, out = out] {
                return [layer = th::Linear(in, out), x = leaf({batch, in}), g = th::randn({batch, out})]() mutable {
                  layer.weight.zero_grad();
                  layer.bias.zero_grad();
                  x.zero_grad();
                  layer(x).backward({.gradient = g});
                };
              });
  }
}

struct Gemm {
  th::Index m, n, k;
  bool transpose_a, transpose_b;
};

// Products as layers and attention ask for them, by the library's own kernels and by BLAS in one call.
void kernels(const Bench& bench) {
  using View = th::detail::MatrixView<float>;
  for (const Gemm& s : std::vector<Gemm>{{768, 128, 128, false, true},
                                         {768, 512, 128, false, true},
                                         {768, 128, 512, false, true},
                                         {768, 128, 512, false, false},
                                         {512, 128, 768, true, false},
                                         {768, 3072, 256, true, false},
                                         {384, 1536, 2048, true, false},
                                         {1024, 1024, 512, true, false},
                                         {64, 64, 32, false, true},
                                         {64, 32, 64, false, false},
                                         {64, 32, 64, true, false},
                                         {768, 65, 128, false, true},
                                         {1024, 1024, 1024, false, false},
                                         {2048, 384, 1536, false, true},
                                         {1, 768, 3072, false, true}}) {
    for (const bool blas : {false, true}) {
      bench.run(fmt::format("gemm_{}_{}x{}x{}_{}{}", blas ? "blas" : "own", s.m, s.n, s.k, s.transpose_a ? 't' : 'n',
                            s.transpose_b ? 't' : 'n'),
                {.flop = 2.0 * static_cast<double>(s.m * s.n * s.k)}, [=] {
                  return
                      [=, a = th::randn({s.m, s.k}), b = th::randn({s.k, s.n}), c = th::empty({s.m, s.n})]() mutable {
                        const View left{a.read<float>().data(), s.transpose_a ? s.m : s.k, s.transpose_a};
                        const View right{b.read<float>().data(), s.transpose_b ? s.k : s.n, s.transpose_b};
                        float* const to = c.write<float>().data();
                        if (blas) {
                          th::detail::blas_tile(s.m, s.n, s.k, 1.0F, left, right, 0.0F, to, s.n);
                        } else {
                          th::detail::gemm_tile(s.m, s.n, s.k, 1.0F, left, right, 0.0F, to, s.n);
                        }
                      };
                });
    }
  }
}

// One input, one output of its shape: `passes` is how often memory is crossed both ways together.
void mapping(const Bench& bench, const std::string& name, const th::Shape& shape, double passes,
             const std::function<th::Tensor(const th::Tensor&)>& f) {
  bench.run(name, {.bytes = passes * 4 * static_cast<double>(shape.numel())}, [=] {
    return [f, x = leaf(shape), g = th::randn(shape)]() mutable {
      x.zero_grad();
      f(x).backward({.gradient = g});
    };
  });
}

void rows(const Bench& bench) {
  for (const auto& [r, c] : std::vector<std::array<th::Index, 2>>{{64, 64}, {4096, 1024}, {128, 50257}}) {
    mapping(bench, fmt::format("softmax_{}x{}_fwdbwd", r, c), {r, c}, 5,
            [](const th::Tensor& x) { return th::softmax(x); });
  }
  const th::LayerNorm norm(768);
  mapping(bench, "layernorm_4096x768_fwdbwd", {4096, 768}, 5, [&norm](const th::Tensor& x) {
    for (th::NamedTensor& p : norm.parameters()) p.tensor.zero_grad();
    return norm(x);
  });
  mapping(bench, "gelu_3145728_fwdbwd", {4096 * 768}, 5,
          [](const th::Tensor& x) { return th::gelu(x, th::Gelu::tanh); });
  bench.run("cross_entropy_1024x50257_fwdbwd", {.bytes = 3 * 4 * 1024.0 * 50257}, [] {
    return [x = leaf({1024, 50257}), t = th::randint(0, 50257, {1024})]() mutable {
      x.zero_grad();
      th::cross_entropy(x, t).backward();
    };
  });
}

th::Tensor composed_attention(const th::Tensor& q, const th::Tensor& k, const th::Tensor& v, bool causal) {
  th::Tensor scores = th::matmul(q, k, {.transpose_b = true}) / std::sqrt(static_cast<double>(q.shape()[-1]));
  if (causal) scores = scores + th::triu(th::full({q.shape()[-2], k.shape()[-2]}, -INFINITY), 1);
  return th::matmul(th::softmax(scores), v);
}

void attention(const Bench& bench) {
  using Sizes = std::array<th::Index, 4>;
  for (const Sizes& s :
       std::vector<Sizes>{{12, 4, 64, 32}, {4, 12, 256, 64}, {1, 8, 1024, 64}, {1, 8, 2048, 64}, {1, 8, 4096, 64}}) {
    for (const bool causal : {false, true}) {
      for (const bool fused : {true, false}) {
        if (!fused && s[2] > 2048) continue;
        const th::Shape shape{s[0], s[1], s[2], s[3]};
        const std::string name = fmt::format("sdpa_{}_{}x{}x{}x{}_{}_fwdbwd", fused ? "fused" : "composed", s[0], s[1],
                                             s[2], s[3], causal ? "causal" : "full");
        const double flop = 12.0 * static_cast<double>(shape.numel() * s[2]) * (causal ? 0.5 : 1);
        bench.run(name, {.flop = flop}, [=] {
          return [=, q = leaf(shape), k = leaf(shape), v = leaf(shape), g = th::randn(shape)]() mutable {
            q.zero_grad();
            k.zero_grad();
            v.zero_grad();
            const th::Mask mask = causal ? th::Mask::causal() : th::Mask();
            const th::Tensor y =
                fused ? th::scaled_dot_product_attention(q, k, v, {.mask = mask, .need_weights = false}).output
                      : composed_attention(q, k, v, causal);
            y.backward({.gradient = g});
          };
        });
      }
    }
  }
}

struct Toy : th::Module {
  th::Embedding embedding{10, 32}, positions{16, 32};
  th::SelfAttention attention{32, 32};
  th::Linear out{32, 10};

  th::Tensor operator()(const th::Tensor& ids) const {
    const th::Tensor h = embedding(ids) + positions.weight;
    return out(attention(h).output + h);
  }
  void members(th::Members& m) override {
    m("embedding", embedding);
    m("positions", positions);
    m("attention", attention);
    m("out", out);
  }
};

void steps(const Bench& bench) {
  bench.run("toy_selfattention_step_B32_T16_D32", {}, [] {
    auto model = std::make_shared<Toy>();
    auto optimizer = std::make_shared<th::Adam>(model->parameters(), th::AdamOptions{.lr = 1e-3});
    const th::Tensor ids = th::randint(0, 10, {32, 16});
    const th::Tensor targets = th::slice(ids, 1, {.step = -1});
    return [=] {
      th::cross_entropy((*model)(ids), targets).backward();
      optimizer->step();
    };
  });
}

struct Gpt {
  std::string name;
  th::GPTOptions options;
  th::Index batch, length;
};

void language_models(const Bench& bench, bool quick) {
  std::vector<Gpt> all = {{"nanogpt_cpu_recipe_step_L4_H4_C128_B12_T64_V65",
                           {.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .bias = false},
                           12,
                           64},
                          {"gpt_L6_H6_C384_B8_T256_V65_step",
                           {.vocabulary = 65, .context = 256, .layers = 6, .heads = 6, .width = 384, .bias = false},
                           8,
                           256}};
  if (!quick) {
    all.push_back({"gpt2_124M_B4_T64_step",
                   {.vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768},
                   4,
                   64});
  }
  for (const Gpt& gpt : all) {
    bench.run(gpt.name, {}, [&gpt] {
      auto model = std::make_shared<th::GPT>(gpt.options);
      auto optimizer =
          std::make_shared<th::AdamW>(model->parameters(), th::AdamOptions{.beta2 = 0.99, .weight_decay = 1e-2});
      const th::Tensor ids = th::randint(0, gpt.options.vocabulary, {gpt.batch, gpt.length});
      const th::Tensor targets = th::randint(0, gpt.options.vocabulary, {gpt.batch, gpt.length});
      return [=] {
        th::cross_entropy((*model)(ids), targets).backward();
        th::clip_grad_norm(optimizer->parameters(), 1.0);
        optimizer->step();
      };
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times operations and training steps; one JSON line each.");
  int threads = 1;
  std::string only;
  bool quick = false;
  app.add_option("--threads", threads, "threads to use")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--only", only, "only the cases whose names contain this");
  app.add_flag("--quick", quick, "a fifth of the repetitions");
  CLI11_PARSE(app, argc, argv);

  th::set_num_threads(threads);
  th::manual_seed(0);
  const Bench bench(only, quick);
  tape(bench);
  products(bench);
  kernels(bench);
  rows(bench);
  attention(bench);
  steps(bench);
  language_models(bench, quick);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("{{\"tapehead\": \"0.1.0\", \"threads\": {}, \"blas\": \"{}\", \"peak_rss_mb\": {}}}\n", th::num_threads(),
             th::blas_core(), usage.ru_maxrss / 1024);
}
