#include "infer/texts/logit_bias.hpp"

#include "base/json.hpp"
#include "base/read_real.hpp"
#include "text/text_encoder.hpp"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace hekla::infer {
namespace {

Result<int32_t> token_of(const text::Tokenizer& tokenizer, const std::string& name) {
    int32_t id = 0;
    const char* const end = name.data() + name.size();
    if (const auto [rest, problem] = std::from_chars(name.data(), end, id); problem == std::errc() && rest == end)
        return id;
    std::string text = name;
    if (name.size() >= 2 && name.front() == '"' && name.back() == '"') {
        const nlohmann::json quoted = json_or_null(name);
        if (quoted.is_string()) text = quoted.get<std::string>();
    }
    HK_ASSIGN(const std::vector<int32_t> ids, text::TextEncoder(tokenizer).encode(text::TextUse::continuation, text));
    if (ids.size() == 1) return ids[0];
    if (const std::optional<int32_t> found = tokenizer.find(text)) return *found;
    return invalid_argument(fmt::format("the text is {} tokens (ids {}), expected one: give each of them by its id",
                                        ids.size(), fmt::join(ids, ", ")));
}

Result<generate::LogitBias> read_bias(const text::Tokenizer& tokenizer, const std::string& given) {
    const std::size_t equals = given.rfind('=');
    if (equals == std::string::npos || equals == 0)
        return invalid_argument("expected TOKEN=NUMBER, such as 198=-inf or \" the\"=1.5");
    const char* const begin = given.data() + equals + 1;
    const char* const end = given.data() + given.size();
    double value = 0.0;
    const auto [rest, problem] = read_real(begin, end, value);
    const bool forbids = value == -std::numeric_limits<double>::infinity();
    if (problem != std::errc() || rest != end || !(forbids || std::abs(value) <= std::numeric_limits<float>::max()))
        return invalid_argument(
            fmt::format("'{}' is not a bias, expected a finite number, or -inf to forbid the token", begin));
    HK_ASSIGN(const int32_t token, token_of(tokenizer, given.substr(0, equals)));
    return generate::LogitBias{token, static_cast<float>(value)};
}

} // namespace

Result<std::vector<generate::LogitBias>> parse_logit_biases(const text::Tokenizer& tokenizer,
                                                            const std::vector<std::string>& biases) {
    std::vector<generate::LogitBias> all;
    for (const std::string& given : biases) {
        Result<generate::LogitBias> read = read_bias(tokenizer, given);
        if (!read.ok()) return read.status().with_context(fmt::format("logit bias '{}'", given));
        all.push_back(read.value());
    }
    return all;
}

} // namespace hekla::infer
