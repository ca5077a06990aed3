#include "reward/rules.hpp"

#include "base/trimmed.hpp"
#include "text/expression.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>

namespace hekla::reward {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The text of a column, or the prompt.
std::string_view text_of(const TextToScore& text, const std::string& column) {
    if (column == "prompt") return text.prompt;
    const auto found = text.columns.find(column);
    return found != text.columns.end() ? std::string_view(found->second) : std::string_view();
}

std::vector<std::string> columns_of(const std::string& column) {
    return column.empty() || column == "prompt" ? std::vector<std::string>() : std::vector<std::string>{column};
}

// Bytes at which a character of UTF-8 begins.
std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::string_view> split_characters(std::string_view text) {
    std::vector<std::string_view> all;
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t end = begin + 1;
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
        all.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    return all;
}

std::size_t words(std::string_view text) {
    std::size_t count = 0;
    bool inside = false;
    for (const char c : text) {
        const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
        count += !blank && !inside ? 1 : 0;
        inside = !blank;
    }
    return count;
}

class ExactMatch final : public Reward {
public:
    ExactMatch(std::string column, bool partial) : column_(std::move(column)), partial_(partial) {}
    std::vector<std::string> columns() const override { return columns_of(column_); }
    Status score(std::span<const TextToScore> texts, std::span<double> scores) override {
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const std::string_view wanted = trimmed(text_of(texts[i], column_)), written = trimmed(texts[i].completion);
            scores[i] = partial_ ? agreement(wanted, written) : wanted == written ? 1.0 : 0.0;
        }
        return {};
    }

private:
    static double agreement(std::string_view wanted, std::string_view written) {
        const std::vector<std::string_view> a = split_characters(wanted), b = split_characters(written);
        const std::size_t longer = std::max(a.size(), b.size());
        std::size_t same = 0;
        for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) same += a[i] == b[i] ? 1 : 0;
        return longer > 0 ? static_cast<double>(same) / static_cast<double>(longer) : 1.0;
    }
    std::string column_;
    bool partial_;
};

class Regex final : public Reward {
public:
    Regex(std::string pattern, std::string column, bool whole)
        : pattern_(std::move(pattern)), column_(std::move(column)), whole_(whole) {}
    std::vector<std::string> columns() const override { return columns_of(column_); }
    Status score(std::span<const TextToScore> texts, std::span<double> scores) override {
        for (std::size_t i = 0; i < texts.size(); ++i) {
            if (whole_) {
                HK_ASSIGN(const bool matches, text::matches_expression(pattern_, texts[i].completion));
                scores[i] = matches ? 1.0 : 0.0;
                continue;
            }
            HK_ASSIGN(const std::vector<std::string> found, text::find_matches(pattern_, texts[i].completion));
            const bool right =
                !found.empty() && (column_.empty() || trimmed(found.back()) == trimmed(text_of(texts[i], column_)));
            scores[i] = right ? 1.0 : 0.0;
        }
        return {};
    }

private:
    std::string pattern_, column_;
    bool whole_;
};

class Length final : public Reward {
public:
    Length(double target, bool of_words) : target_(target), of_words_(of_words) {}
    Status score(std::span<const TextToScore> texts, std::span<double> scores) override {
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const auto length =
                static_cast<double>(of_words_ ? words(texts[i].completion) : characters(texts[i].completion));
            scores[i] = std::max(0.0, 1.0 - std::abs(length - target_) / target_);
        }
        return {};
    }

private:
    double target_;
    bool of_words_;
};

// A recursive descent parser; every function returns nothing after an error.
class Expression {
public:
    explicit Expression(std::string_view text) : text_(text) {}
    std::optional<int64_t> whole() {
        const std::optional<int64_t> value = sum(0);
        skip();
        return at_ == text_.size() ? value : std::nullopt;
    }

private:
    static constexpr int kDeepest = 64;
    void skip() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool take(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    std::optional<int64_t> sum(int depth) {
        std::optional<int64_t> value = product(depth);
        for (;;) {
            const bool plus = take('+');
            if (!value || (!plus && !take('-'))) return value;
            const std::optional<int64_t> next = product(depth);
            int64_t result = 0;
            if (!next || (plus ? __builtin_add_overflow(*value, *next, &result)
                               : __builtin_sub_overflow(*value, *next, &result)))
                return {};
            value = result;
        }
    }
    std::optional<int64_t> product(int depth) {
        std::optional<int64_t> value = factor(depth);
        for (;;) {
            const bool times = take('*');
            if (!value || (!times && !take('/'))) return value;
            const std::optional<int64_t> next = factor(depth);
            int64_t result = 0;
            if (!next || (times && __builtin_mul_overflow(*value, *next, &result))) return {};
            if (!times) {
                const bool divides = *next != 0 && !(*next == -1 && *value == std::numeric_limits<int64_t>::min());
                if (!divides || *value % *next != 0) return {};
                result = *value / *next;
            }
            value = result;
        }
    }
    std::optional<int64_t> factor(int depth) {
        if (depth > kDeepest) return {};
        if (take('-')) {
            const std::optional<int64_t> value = factor(depth + 1);
            return value && *value != std::numeric_limits<int64_t>::min() ? std::optional(-*value) : std::nullopt;
        }
        if (take('(')) {
            const std::optional<int64_t> value = sum(depth + 1);
            return take(')') ? value : std::nullopt;
        }
        skip();
        int64_t value = 0;
        const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
        const auto [stopped, error] = std::from_chars(begin, end, value);
        if (error != std::errc() || stopped == begin) return {};
        at_ += static_cast<std::size_t>(stopped - begin);
        return value;
    }
    std::string_view text_;
    std::size_t at_ = 0;
};

class Arithmetic final : public Reward {
public:
    Status score(std::span<const TextToScore> texts, std::span<double> scores) override {
        for (std::size_t i = 0; i < texts.size(); ++i) scores[i] = score_of(texts[i]);
        return {};
    }

private:
    static double score_of(const TextToScore& text) {
        std::string_view prompt = trimmed(text.prompt);
        if (!prompt.ends_with('=')) return kNone;
        prompt.remove_suffix(1);
        const std::size_t line = prompt.rfind('\n'); // what precedes may be demonstrations
        if (line != std::string_view::npos) prompt.remove_prefix(line + 1);
        const std::optional<int64_t> value = value_of_expression(prompt);
        if (!value) return kNone;
        return trimmed(text.completion) == fmt::format("{}", *value) ? 1.0 : 0.0;
    }
};

} // namespace

std::optional<int64_t> value_of_expression(std::string_view text) { return Expression(text).whole(); }

Result<std::unique_ptr<Reward>> make_exact_match(StrictTable& keys) {
    std::string column = "answer";
    bool partial = false;
    keys.read("column", column);
    keys.read("partial", partial);
    if (column.empty()) keys.fail("column", "is empty, expected the name of a column, or \"prompt\"");
    HK_TRY(keys.finish());
    return std::unique_ptr<Reward>(std::make_unique<ExactMatch>(column, partial));
}

Result<std::unique_ptr<Reward>> make_regex(StrictTable& keys) {
    std::string pattern, column;
    bool whole = false;
    keys.require("pattern", pattern);
    keys.read("column", column);
    keys.read("whole", whole);
    if (const auto tried = text::matches_expression(pattern, ""); !tried.ok()) keys.fail("pattern", tried.message());
    if (whole && !column.empty())
        keys.fail("column", "cannot be used with whole = true, which compares the completion with the pattern alone");
    HK_TRY(keys.finish());
    return std::unique_ptr<Reward>(std::make_unique<Regex>(pattern, column, whole));
}

Result<std::unique_ptr<Reward>> make_length(StrictTable& keys) {
    double target = 0.0;
    std::string unit = "characters";
    keys.require("target", target);
    keys.read("unit", unit);
    if (!(target > 0.0) || !std::isfinite(target))
        keys.fail("target", fmt::format("is {}, expected a length above 0", target));
    if (unit != "characters" && unit != "words")
        keys.fail("unit", fmt::format("is '{}', expected characters or words", unit));
    HK_TRY(keys.finish());
    return std::unique_ptr<Reward>(std::make_unique<Length>(target, unit == "words"));
}

Result<std::unique_ptr<Reward>> make_arithmetic(StrictTable& keys) {
    for (const std::string& key : keys.unread()) keys.refuse_key(key, ": this reward has no keys of its own");
    HK_TRY(keys.finish());
    return std::unique_ptr<Reward>(std::make_unique<Arithmetic>());
}

} // namespace hekla::reward
