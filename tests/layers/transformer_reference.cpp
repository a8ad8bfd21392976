// SPDX-License-Identifier: MIT
#include "layers/transformer_reference.h"

#include <cmath>

namespace reference {
namespace {

using std::size_t;

// [rows, inner] [inner, columns]
Numbers product(const Numbers& a, const Numbers& b, size_t rows, size_t inner, size_t columns) {
  Numbers c(rows * columns, 0.0);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t k = 0; k < inner; ++k) c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
    }
  }
  return c;
}

Numbers transposed(const Numbers& a, size_t rows, size_t columns) {
  Numbers out(a.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) out[j * rows + i] = a[i * columns + j];
  }
  return out;
}

// y = x W for x [rows, in]: the gradients of W, added, and of x, returned.
Numbers product_backward(const Numbers& x, const Numbers& w, const Numbers& dy, size_t rows, size_t in, size_t out,
                         Numbers& dw) {
  const Numbers gradient = product(transposed(x, rows, in), dy, in, rows, out);
  for (size_t i = 0; i < gradient.size(); ++i) dw[i] += gradient[i];
  return product(dy, transposed(w, in, out), rows, out, in);
}

// y = x W^T, the other way to store a weight.
Numbers product_backward_stored_by_output(const Numbers& x, const Numbers& w, const Numbers& dy, size_t rows, size_t in,
                                          size_t out, Numbers& dw) {
  const Numbers gradient = product(transposed(dy, rows, out), x, out, rows, in);
  for (size_t i = 0; i < gradient.size(); ++i) dw[i] += gradient[i];
  return product(dy, w, rows, out, in);
}

void add_row(Numbers& x, const Numbers& row) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += row[i % row.size()];
}

void add_row_backward(const Numbers& dy, Numbers& drow) {
  for (size_t i = 0; i < dy.size(); ++i) drow[i % drow.size()] += dy[i];
}

void add(Numbers& x, const Numbers& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0)); }

}  // namespace

struct Transformer::Norm {
  Numbers normalised;         // [rows, width]
  Numbers inverse_deviation;  // [rows]
};

struct Transformer::Attention {
  Numbers x, q, k, v;  // [rows, width], then [rows, heads * head_width]
  Numbers weights;     // [batch, heads, time, time]
  Numbers mixed;       // [rows, heads * head_width]
};

struct Transformer::Block {
  Norm norm1, norm2;
  Attention attention;
  Numbers normed;     // what goes up
  Numbers up;         // [rows, hidden] before gelu
  Numbers activated;  // after
};

Transformer::Transformer(const Sizes& sizes) : sizes_(sizes) {
  const size_t width = sizes.width, inner = sizes.heads * sizes.head_width;
  parameter("token.weight", sizes.vocabulary * width, 0.5);
  parameter("position.weight", sizes.time * width, 0.3);
  for (size_t i = 0; i < sizes.blocks; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    for (const char* norm : {"norm1", "norm2"}) {
      parameter(block + norm + ".weight", width, 0.2, 1);
      parameter(block + norm + ".bias", width, 0.1);
    }
    for (const char* weight : {"W_q", "W_k", "W_v", "W_o"})
      parameter(block + "attention." + weight, width * inner, 0.4);
    parameter(block + "up.weight", sizes.hidden * width, 0.3);
    parameter(block + "up.bias", sizes.hidden, 0.1);
    parameter(block + "down.weight", width * sizes.hidden, 0.2);
    parameter(block + "down.bias", width, 0.1);
  }
  parameter("norm.weight", width, 0.2, 1);
  parameter("norm.bias", width, 0.1);
  parameter("head.weight", sizes.vocabulary * width, 0.3);
}

void Transformer::parameter(const std::string& name, size_t count, double scale, double offset) {
  const double phase = static_cast<double>(values.size());
  Numbers& numbers = values[name];
  for (size_t i = 0; i < count; ++i) {
    const double place = static_cast<double>(i + 1);
    numbers.push_back(offset + scale * std::sin(12.9898 * place + 78.233 * phase + 0.01 * place * place));
  }
}

Numbers Transformer::normalise(const std::string& name, const Numbers& x, Norm& kept) const {
  const size_t width = sizes_.width;
  const Numbers &weight = values.at(name + ".weight"), &bias = values.at(name + ".bias");
  kept.normalised = x;
  Numbers y(x.size());
  for (size_t row = 0; row < x.size() / width; ++row) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i) mean += x[row * width + i] / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) variance += std::pow(x[row * width + i] - mean, 2) / static_cast<double>(width);
    kept.inverse_deviation.push_back(1 / std::sqrt(variance + 1e-5));
    for (size_t i = 0; i < width; ++i) {
      double& normalised = kept.normalised[row * width + i];
      normalised = (x[row * width + i] - mean) * kept.inverse_deviation[row];
      y[row * width + i] = normalised * weight[i] + bias[i];
    }
  }
  return y;
}

// dx = (g - mean(g) - n mean(g n)) / deviation with g = dy weight and n the normalised row.
Numbers Transformer::normalise_backward(const std::string& name, const Norm& kept, const Numbers& dy) {
  const size_t width = sizes_.width;
  const Numbers& weight = values.at(name + ".weight");
  Numbers &dweight = gradients.at(name + ".weight"), &dbias = gradients.at(name + ".bias");
  Numbers dx(dy.size());
  for (size_t row = 0; row < dy.size() / width; ++row) {
    const double* n = &kept.normalised[row * width];
    const double* upstream = &dy[row * width];
    double mean = 0, mean_with_n = 0;
    for (size_t i = 0; i < width; ++i) {
      dweight[i] += upstream[i] * n[i];
      dbias[i] += upstream[i];
      mean += upstream[i] * weight[i] / static_cast<double>(width);
      mean_with_n += upstream[i] * weight[i] * n[i] / static_cast<double>(width);
    }
    for (size_t i = 0; i < width; ++i) {
      dx[row * width + i] = (upstream[i] * weight[i] - mean - n[i] * mean_with_n) * kept.inverse_deviation[row];
    }
  }
  return dx;
}

Numbers Transformer::attend(const std::string& name, const Numbers& x, Attention& kept) const {
  const size_t time = sizes_.time, size = sizes_.head_width, inner = sizes_.heads * size;
  const size_t rows = sizes_.batch * time;
  kept.x = x;
  kept.q = product(x, values.at(name + ".W_q"), rows, sizes_.width, inner);
  kept.k = product(x, values.at(name + ".W_k"), rows, sizes_.width, inner);
  kept.v = product(x, values.at(name + ".W_v"), rows, sizes_.width, inner);
  kept.weights.assign(sizes_.batch * sizes_.heads * time * time, 0.0);
  kept.mixed.assign(rows * inner, 0.0);
  for (size_t matrix = 0; matrix < sizes_.batch * sizes_.heads; ++matrix) {
    const size_t start = matrix / sizes_.heads * time * inner + matrix % sizes_.heads * size;  // of the head's columns
    for (size_t i = 0; i < time; ++i) {
      double* weight = &kept.weights[(matrix * time + i) * time];
      double total = 0;
      for (size_t j = 0; j <= i; ++j) {
        double score = 0;
        for (size_t c = 0; c < size; ++c) score += kept.q[start + i * inner + c] * kept.k[start + j * inner + c];
        weight[j] = std::exp(score / std::sqrt(static_cast<double>(size)));
        total += weight[j];
      }
      for (size_t j = 0; j <= i; ++j) {
        weight[j] /= total;
        for (size_t c = 0; c < size; ++c) {
          kept.mixed[start + i * inner + c] += weight[j] * kept.v[start + j * inner + c];
        }
      }
    }
  }
  return product(kept.mixed, values.at(name + ".W_o"), rows, inner, sizes_.width);
}

Numbers Transformer::attend_backward(const std::string& name, const Attention& kept, const Numbers& dy) {
  const size_t time = sizes_.time, size = sizes_.head_width, inner = sizes_.heads * size, width = sizes_.width;
  const size_t rows = sizes_.batch * time;
  const Numbers dmixed =
      product_backward(kept.mixed, values.at(name + ".W_o"), dy, rows, inner, width, gradients.at(name + ".W_o"));
  Numbers dq(rows * inner, 0.0), dk = dq, dv = dq;
  for (size_t matrix = 0; matrix < sizes_.batch * sizes_.heads; ++matrix) {
    const size_t start = matrix / sizes_.heads * time * inner + matrix % sizes_.heads * size;
    for (size_t i = 0; i < time; ++i) {
      const double* weight = &kept.weights[(matrix * time + i) * time];
      Numbers dweight(i + 1, 0.0);
      double spread = 0;  // sum of weight dweight: what softmax takes off every score of the row
      for (size_t j = 0; j <= i; ++j) {
        for (size_t c = 0; c < size; ++c) {
          dweight[j] += dmixed[start + i * inner + c] * kept.v[start + j * inner + c];
          dv[start + j * inner + c] += weight[j] * dmixed[start + i * inner + c];
        }
        spread += weight[j] * dweight[j];
      }
      for (size_t j = 0; j <= i; ++j) {
        const double dproduct = weight[j] * (dweight[j] - spread) / std::sqrt(static_cast<double>(size));
        for (size_t c = 0; c < size; ++c) {
          dq[start + i * inner + c] += dproduct * kept.k[start + j * inner + c];
          dk[start + j * inner + c] += dproduct * kept.q[start + i * inner + c];
        }
      }
    }
  }
  const auto into = [&](const char* weight, const Numbers& gradient) {
    return product_backward(kept.x, values.at(name + weight), gradient, rows, width, inner,
                            gradients.at(name + weight));
  };
  Numbers dx = into(".W_q", dq);
  add(dx, into(".W_k", dk));
  add(dx, into(".W_v", dv));
  return dx;
}

Numbers Transformer::run(const std::string& name, const Numbers& x, Block& kept) const {
  const size_t rows = sizes_.batch * sizes_.time, width = sizes_.width, hidden = sizes_.hidden;
  Numbers y = x;
  add(y, attend(name + "attention", normalise(name + "norm1", x, kept.norm1), kept.attention));
  kept.normed = normalise(name + "norm2", y, kept.norm2);
  kept.up = product(kept.normed, transposed(values.at(name + "up.weight"), hidden, width), rows, width, hidden);
  add_row(kept.up, values.at(name + "up.bias"));
  for (const double value : kept.up) kept.activated.push_back(value * normal_distribution(value));
  add(y, product(kept.activated, transposed(values.at(name + "down.weight"), width, hidden), rows, hidden, width));
  add_row(y, values.at(name + "down.bias"));
  return y;
}

Numbers Transformer::run_backward(const std::string& name, const Block& kept, const Numbers& dy) {
  const size_t rows = sizes_.batch * sizes_.time, width = sizes_.width, hidden = sizes_.hidden;
  add_row_backward(dy, gradients.at(name + "down.bias"));
  Numbers dup = product_backward_stored_by_output(kept.activated, values.at(name + "down.weight"), dy, rows, hidden,
                                                  width, gradients.at(name + "down.weight"));
  for (size_t i = 0; i < dup.size(); ++i) {
    dup[i] *= normal_distribution(kept.up[i]) + kept.up[i] * normal_density(kept.up[i]);
  }
  add_row_backward(dup, gradients.at(name + "up.bias"));
  const Numbers dnormed = product_backward_stored_by_output(kept.normed, values.at(name + "up.weight"), dup, rows,
                                                            width, hidden, gradients.at(name + "up.weight"));
  Numbers dx = dy;
  add(dx, normalise_backward(name + "norm2", kept.norm2, dnormed));
  add(dx, normalise_backward(name + "norm1", kept.norm1, attend_backward(name + "attention", kept.attention, dx)));
  return dx;
}

double Transformer::loss(const std::vector<size_t>& ids, const std::vector<size_t>& targets) {
  const size_t width = sizes_.width, rows = sizes_.batch * sizes_.time, classes = sizes_.vocabulary;
  for (const auto& [name, numbers] : values) gradients[name].assign(numbers.size(), 0.0);
  Numbers x;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < width; ++i) {
      x.push_back(values.at("token.weight")[ids[row] * width + i] +
                  values.at("position.weight")[row % sizes_.time * width + i]);
    }
  }
  std::vector<Block> kept(sizes_.blocks);
  const auto name_of = [](size_t block) { return "blocks." + std::to_string(block) + "."; };
  for (size_t block = 0; block < sizes_.blocks; ++block) x = run(name_of(block), x, kept[block]);
  Norm last;
  const Numbers normed = normalise("norm", x, last);
  Numbers logits = product(normed, transposed(values.at("head.weight"), classes, width), rows, width, classes);

  double loss = 0;
  for (size_t row = 0; row < rows; ++row) {  // the logits become their gradient: softmax minus one-hot, over the rows
    double* logit = &logits[row * classes];
    double total = 0;
    for (size_t i = 0; i < classes; ++i) total += std::exp(logit[i]);
    loss += (std::log(total) - logit[targets[row]]) / static_cast<double>(rows);
    for (size_t i = 0; i < classes; ++i) {
      logit[i] = (std::exp(logit[i]) / total - (i == targets[row] ? 1 : 0)) / static_cast<double>(rows);
    }
  }

  Numbers dx = normalise_backward("norm", last,
                                  product_backward_stored_by_output(normed, values.at("head.weight"), logits, rows,
                                                                    width, classes, gradients.at("head.weight")));
  for (size_t block = sizes_.blocks; block-- > 0;) dx = run_backward(name_of(block), kept[block], dx);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < width; ++i) {
      gradients.at("token.weight")[ids[row] * width + i] += dx[row * width + i];
      gradients.at("position.weight")[row % sizes_.time * width + i] += dx[row * width + i];
    }
  }
  return loss;
}

void Transformer::step(const AdamW& options) {
  ++steps_;
  for (auto& [name, numbers] : values) {
    Numbers &first = first_[name], &second = second_[name];
    first.resize(numbers.size());
    second.resize(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double g = gradients.at(name)[i];
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * g;
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * g * g;
      const double unbiased_first = first[i] / (1 - std::pow(options.beta1, steps_));
      const double unbiased_second = second[i] / (1 - std::pow(options.beta2, steps_));
      numbers[i] -= options.lr *
                    (unbiased_first / (std::sqrt(unbiased_second) + options.eps) + options.weight_decay * numbers[i]);
    }
  }
}

}  // namespace reference
