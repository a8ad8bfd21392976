// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "layers/filled.h"

using namespace tapehead;

namespace {

// How often each token comes in many draws.
std::map<Index, double> shares(const Tensor& logits, SamplingOptions options, const std::vector<Index>& before = {}) {
  Generator generator(5);
  options.generator = &generator;
  std::map<Index, double> out;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) out[sample_token(logits, options, before)] += 1.0 / kDraws;
  return out;
}

GPT model(Index context = 8) {
  Generator generator(6);
  GPT made({.vocabulary = 11, .context = context, .layers = 2, .heads = 2, .width = 8}, generator);
  made.token_embedding.weight = randn({11, 8}, DType::f32, generator);
  return made;
}

}  // namespace

TEST_CASE("sample_token: shares follow softmax, temperature, top_k and top_p") {
  const Tensor logits = log(tensor({0.1, 0.4, 0.2, 0.3}, DType::f64));
  auto plain = shares(logits, {});
  CHECK(plain[0] == doctest::Approx(0.1).epsilon(0.1));
  CHECK(plain[1] == doctest::Approx(0.4).epsilon(0.05));
  CHECK(plain[3] == doctest::Approx(0.3).epsilon(0.05));
  auto hot = shares(logits, {.temperature = 0.5});  // squares: 1, 16, 4, 9 of 30
  CHECK(hot[1] == doctest::Approx(16.0 / 30).epsilon(0.05));
  CHECK(hot[0] == doctest::Approx(1.0 / 30).epsilon(0.2));
  auto two = shares(logits, {.top_k = 2});
  CHECK(two.size() == 2);
  CHECK(two[1] == doctest::Approx(4.0 / 7).epsilon(0.05));
  auto most = shares(logits, {.top_p = 0.65});  // 0.4 and 0.3 reach it
  CHECK(most.size() == 2);
  CHECK(shares(logits, {.top_p = 1e-9}) == shares(logits, {.temperature = 0}));
  CHECK(sample_token(logits, {.temperature = 0}) == 1);
  CHECK(sample_token(tensor({2, 5, 5}), {.temperature = 0}) == 1);
}

TEST_CASE("sample_token: the penalty divides what is positive and multiplies what is negative") {
  const Tensor logits = tensor({2, 1.5, -1}, DType::f64);
  CHECK(sample_token(logits, {.temperature = 0, .repetition_penalty = 2}, {0, 0}) == 1);
  auto after = shares(logits, {.repetition_penalty = 2}, {0, 2, 0});
  const double all = std::exp(1.0) + std::exp(1.5) + std::exp(-2.0);
  CHECK(after[0] == doctest::Approx(std::exp(1.0) / all).epsilon(0.05));
  CHECK(after[2] == doctest::Approx(std::exp(-2.0) / all).epsilon(0.25));
}

TEST_CASE("sample_token: what leaves nothing to draw from is an error") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(sample_token(tensor({-inf, -inf})), ValueError);
  CHECK_THROWS_AS(sample_token(tensor({1, nan})), ValueError);
  CHECK_THROWS_AS(sample_token(tensor({nan, 1})), ValueError);
  CHECK_THROWS_AS(sample_token(tensor({1, inf})), ValueError);
  CHECK(sample_token(tensor({-inf, 1, -inf})) == 1);
  CHECK_THROWS_AS(sample_token(tensor({1, 2}), {.temperature = -1}), ValueError);
  CHECK_THROWS_AS(sample_token(tensor({1, 2}), {.top_k = -1}), ValueError);
  CHECK_THROWS_AS(sample_token(tensor({1, 2}), {.top_p = 0}), ValueError);
  CHECK_THROWS_AS(sample_token(tensor({1, 2}), {.repetition_penalty = 0}), ValueError);
  CHECK_THROWS_AS(sample_token(tensor({1, 2}), {.repetition_penalty = 2}, {2}), IndexError);
  CHECK_THROWS_AS(sample_token(tensor({{1, 2}})), ShapeError);
}

TEST_CASE("generate: greedy text is the most likely token after each whole text") {
  const GPT gpt = model(12);
  const std::vector<Index> text = generate(gpt, {3, 1, 4}, {.max_tokens = 9, .sampling = {.temperature = 0}});
  REQUIRE(text.size() == 12);
  const NoGrad off;
  for (std::size_t i = 3; i < text.size(); ++i) {
    const Tensor logits = gpt(from_data(std::span(text).first(i), {1, static_cast<Index>(i)}));
    CHECK(argmax(select(select(logits, 0, 0), 0, -1)).item() == static_cast<double>(text[i]));
  }
}

TEST_CASE("generate: goes on beyond the context from its last half") {
  const GPT gpt = model(8);
  const std::vector<Index> text = generate(gpt, {3, 1, 4}, {.max_tokens = 30, .sampling = {.temperature = 0}});
  REQUIRE(text.size() == 33);
  // The ninth token came from a full context; the tenth from the last four tokens before it.
  const NoGrad off;
  const Tensor logits = gpt(from_data(std::span(text).subspan(5, 4), {1, 4}));
  CHECK(argmax(select(select(logits, 0, 0), 0, -1)).item() == static_cast<double>(text[9]));
  std::vector<Index> long_prompt(20, 2);
  CHECK(generate(gpt, long_prompt, {.max_tokens = 1}).size() == 21);
}

TEST_CASE("generate: seeds and streaming") {
  const GPT gpt = model();
  const auto drawn = [&](std::uint64_t seed) {
    Generator generator(seed);
    return generate(gpt, {1}, {.max_tokens = 20, .sampling = {.generator = &generator}});
  };
  CHECK(drawn(1) == drawn(1));
  CHECK(drawn(1) != drawn(2));
  const std::vector<Index> all = drawn(1);
  std::vector<Index> seen;
  Generator generator(1);
  GenerateOptions options{.max_tokens = 20, .sampling = {.generator = &generator}};
  options.on_token = [&](Index token) {
    seen.push_back(token);
    return seen.size() < 5;
  };
  const std::vector<Index> stopped = generate(gpt, {1}, options);
  CHECK(stopped == std::vector<Index>(all.begin(), all.begin() + 6));
  CHECK(seen == std::vector<Index>(all.begin() + 1, all.begin() + 6));
  options.on_token = [](Index) { return false; };
  CHECK(generate(gpt, {1}, options).size() == 2);
}

TEST_CASE("stop_at: a text ends generation wherever tokens cut it") {
  const std::vector<std::string> tokens{"a", "ab", "b\n", "\n", "b\n\nx"};
  const auto text_of = [&](Index token) { return tokens[static_cast<std::size_t>(token)]; };
  // How many tokens are written before it stops.
  const auto written = [&](const std::vector<std::string>& texts, const std::vector<Index>& sequence) {
    const auto goes_on = stop_at(texts, text_of);
    Index count = 1;
    for (const Index token : sequence) {
      if (!goes_on(token)) return count;
      ++count;
    }
    return Index{0};
  };
  CHECK(written({"\n\n"}, {0, 2, 3, 0}) == 3);
  CHECK(written({"\n\n"}, {0, 2, 0, 3, 3}) == 5);
  CHECK(written({"\n\n"}, {0, 4, 0}) == 2);
  CHECK(written({"\n\n"}, {3, 0, 3, 0}) == 0);
  CHECK(written({"zz", "aab"}, {0, 1, 1}) == 2);
  CHECK(written({}, {0, 1}) == 0);
  CHECK_THROWS_AS(stop_at({"a", ""}, text_of), ValueError);

  const GPT gpt = model();
  const auto digit = [](Index token) { return std::to_string(token); };
  const std::vector<Index> all = generate(gpt, {1}, {.max_tokens = 12, .sampling = {.temperature = 0}});
  const std::string stop = digit(all[3]) + digit(all[4]);
  const std::vector<Index> stopped =
      generate(gpt, {1}, {.max_tokens = 12, .sampling = {.temperature = 0}, .on_token = stop_at({stop}, digit)});
  CHECK(stopped.size() <= 5);
  CHECK(digit(stopped[stopped.size() - 2]) + digit(stopped.back()) == stop);
}

TEST_CASE("generate: an empty prompt and dropout are errors") {
  GPT gpt({.vocabulary = 5, .context = 4, .layers = 1, .heads = 1, .width = 4, .dropout = 0.1});
  CHECK_THROWS_AS(generate(gpt, {}), ValueError);
  CHECK_THROWS_WITH_AS(generate(gpt, {1}), "generate: dropout of 0.1 is on; call eval() first", StateError);
  gpt.eval();
  CHECK(generate(gpt, {1}, {.max_tokens = 3}).size() == 4);
  CHECK_THROWS_AS(generate(gpt, {5}), IndexError);
}
