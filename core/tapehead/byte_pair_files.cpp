// SPDX-License-Identifier: MIT
// GPT-2's vocab.json, an object with the number of each token, and merges.txt, a pair of tokens in each line.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tapehead/detail/file.h>
#include <tapehead/detail/pre_tokenize.h>
#include <tapehead/detail/utf8.h>
#include <tapehead/error.h>
#include <tapehead/tokenizer.h>

namespace tapehead {
namespace {

using Json = nlohmann::json;
using detail::shown;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw FormatError(fmt::format("BytePairTokenizer::load: {}: {}", path, what));
}

std::string characters_of(const std::string& bytes) {
  std::string out;
  for (const char byte : bytes) out += detail::utf8(detail::character_of(static_cast<unsigned char>(byte)));
  return out;
}

// Told of each piece of the JSON in turn; anything but numbers by name in one object ends the reading.
class VocabReader final : public nlohmann::json_sax<Json> {
 public:
  explicit VocabReader(const std::string& path) : path_(path) {}
  std::unordered_map<std::string, std::uint64_t> numbers;

  bool number_unsigned(number_unsigned_t value) override {
    if (!inside_) unexpected("a number");
    if (!numbers.insert({key_, value}).second) fail(path_, fmt::format("the token \"{}\" comes twice", shown(key_)));
    return true;
  }
  bool start_object(std::size_t /*size*/) override {
    if (std::exchange(inside_, true)) unexpected("an object");
    return true;
  }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return true; }
  bool null() override { unexpected("null"); }
  bool boolean(bool /*value*/) override { unexpected("true or false"); }
  bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { unexpected(text); }
  bool string(string_t& value) override { unexpected(fmt::format("\"{}\"", shown(value))); }
  bool binary(binary_t& /*value*/) override { unexpected("bytes"); }
  bool start_array(std::size_t /*size*/) override { unexpected("a list"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string& /*token*/, const Json::exception& error) override {
    const std::string reason = error.what();
    fail(path_, fmt::format("not JSON at byte {}: {}", position, shown(reason.substr(reason.find("] ") + 2))));
  }

 private:
  [[noreturn]] void unexpected(const std::string& got) const {
    if (!inside_) fail(path_, fmt::format("expected an object with the number of each token, got {}", got));
    fail(path_, fmt::format("expected a number for the token \"{}\", got {}", shown(key_), got));
  }

  const std::string& path_;
  bool inside_ = false;
  std::string key_;
};

std::vector<std::string> read_tokens(const std::string& path) {
  const std::string text = detail::read_file("BytePairTokenizer::load", path);
  detail::check_text("BytePairTokenizer::load: " + path, text);
  VocabReader reader(path);
  Json::sax_parse(text, &reader);
  std::vector<std::string> tokens(reader.numbers.size());
  for (const auto& [name, number] : reader.numbers) {
    const std::optional<std::string> bytes = detail::bytes_of(name);
    if (!bytes || bytes->empty())
      fail(path, fmt::format("the token \"{}\" is not written in GPT-2's characters", shown(name)));
    if (number >= tokens.size()) {
      fail(path, fmt::format("the token \"{}\" has the number {}; {} tokens are numbered from 0 to {}", shown(name),
                             number, tokens.size(), tokens.size() - 1));
    }
    std::string& token = tokens[static_cast<std::size_t>(number)];
    if (!token.empty()) {
      fail(path, fmt::format("the tokens \"{}\" and \"{}\" have one number, {}", shown(characters_of(token)),
                             shown(name), number));
    }
    token = *bytes;
  }
  return tokens;
}

}  // namespace

BytePairTokenizer BytePairTokenizer::load(const std::string& vocab_path, const std::string& merges_path) {
  BytePairTokenizer out(read_tokens(vocab_path));
  for (int byte = 0; byte < 256; ++byte) {
    if (out.bytes_[static_cast<std::size_t>(byte)] < 0) {
      fail(vocab_path, fmt::format("the byte 0x{:02x} has no token", byte));
    }
  }
  const std::string text = detail::read_file("BytePairTokenizer::load", merges_path);
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const auto refuse = [&](const std::string& what) {
      fail(merges_path, fmt::format("line {}, \"{}\", {}", line_number, shown(line), what));
    };
    const std::size_t space = line.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string_view::npos) {
      refuse("is not two tokens with a space between them");
    }
    const auto left = detail::bytes_of(line.substr(0, space)), right = detail::bytes_of(line.substr(space + 1));
    if (!left || !right) refuse("is not written in GPT-2's characters");
    for (const std::string& token : {*left, *right, *left + *right}) {
      if (!out.find(token))
        refuse(fmt::format("takes a token that {} lacks: \"{}\"", vocab_path, shown(characters_of(token))));
    }
    if (!out.add_merge({*out.find(*left), *out.find(*right)})) refuse("comes twice");
  }
  return out;
}

void BytePairTokenizer::save(const std::string& vocab_path, const std::string& merges_path) const {
  std::string vocab, merges = "#version: 0.2\n";
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    vocab += fmt::format("{}{}: {}", i == 0 ? "{" : ", ", Json(characters_of(tokens_[i])).dump(-1, ' ', true), i);
  }
  for (const Pair& pair : pairs_) {
    merges += characters_of(token(pair.left)) + ' ' + characters_of(token(pair.right)) + '\n';
  }
  detail::OutputFile vocab_file("BytePairTokenizer.save", vocab_path),
      merges_file("BytePairTokenizer.save", merges_path);
  vocab_file.write(vocab + '}');
  merges_file.write(merges);
  vocab_file.commit();
  merges_file.commit();
}

}  // namespace tapehead
