#include "graph/sized_text.hpp"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::graph {
namespace {

// A number that depends on sizes stands between these as its 2^n factors: "1 0 0 32" is 1 + 32 * sizes[0] * sizes[1].
constexpr char kOpens = '\x01', kCloses = '\x02';
constexpr std::size_t kMostDigits = 18; // of a number that is looked at
constexpr std::size_t kMostSizes = 4;

bool is_digit_of_number(char c) { return c >= '0' && c <= '9'; }

// The next run of digits, or of others.
std::string_view next_run(std::string_view text) {
    std::size_t end = 1;
    while (end < text.size() && is_digit_of_number(text[end]) == is_digit_of_number(text[0])) ++end;
    return text.substr(0, end);
}

// The factors of a number from its values in the first 2^n samples.
bool factors_of(std::vector<int64_t>& values, std::span<const SizedText> samples) {
    for (std::size_t bit = 1, i = 0; bit < values.size(); bit *= 2, ++i) {
        const int64_t low = samples[0].sizes[i], high = samples[bit].sizes[i];
        for (std::size_t at = 0; at < values.size(); ++at) {
            if ((at & bit) != 0) continue;
            const int64_t rise = values[at | bit] - values[at];
            if (rise % (high - low) != 0) return false;
            values[at | bit] = rise / (high - low);
            values[at] -= values[at | bit] * low;
        }
    }
    return true;
}

// False where it is negative, or no number of 63 bits.
bool value_of(std::span<const int64_t> factors, std::span<const int64_t> sizes, int64_t& out) {
    int64_t sum = 0;
    for (std::size_t at = 0; at < factors.size(); ++at) {
        int64_t product = factors[at];
        for (std::size_t i = 0; i < sizes.size(); ++i)
            if ((at >> i & 1) != 0 && __builtin_mul_overflow(product, sizes[i], &product)) return false;
        if (__builtin_add_overflow(sum, product, &sum)) return false;
    }
    out = sum;
    return sum >= 0;
}

} // namespace

Result<std::string> open_text(std::span<const SizedText> samples) {
    const std::size_t sizes = samples.empty() ? 0 : samples[0].sizes.size();
    const std::size_t corners = std::size_t{1} << sizes;
    if (sizes > kMostSizes || samples.size() < corners) return invalid_argument("too few samples for a text of sizes");
    const auto refuse = [&](std::string_view where) {
        return unsupported(fmt::format("the graph depends on its sizes otherwise than by sums and products, near: {}",
                                       where.substr(0, 80)));
    };
    std::vector<std::string_view> rest;
    for (std::size_t i = 0; i < corners; ++i) rest.push_back(samples[i].text);
    std::string text;
    while (!rest[0].empty()) {
        const std::string_view first = next_run(rest[0]);
        const bool number = is_digit_of_number(first[0]);
        std::vector<int64_t> values;
        bool same = true;
        for (std::string_view& one : rest) {
            if (one.empty()) return refuse(first);
            const std::string_view run = next_run(one);
            if (is_digit_of_number(run[0]) != number || (!number && run != first)) return refuse(rest[0]);
            same = same && run == first;
            int64_t value = 0;
            if (number && run.size() <= kMostDigits) std::from_chars(run.data(), run.data() + run.size(), value);
            values.push_back(value);
            one.remove_prefix(run.size());
        }
        if (same) {
            text += first;
        } else {
            if (!factors_of(values, samples)) return refuse(first);
            text += kOpens;
            for (std::size_t i = 0; i < values.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : " ", values[i]);
            text += kCloses;
        }
    }
    for (const SizedText& sample : samples) {
        HK_ASSIGN(const std::string again, close_text(text, sample.sizes));
        if (again != sample.text) return refuse(fmt::format("sizes {}", fmt::join(sample.sizes, ", ")));
    }
    return text;
}

Result<std::string> close_text(std::string_view text, std::span<const int64_t> sizes) {
    const auto wrong = [] { return corrupt("the text of a graph for many sizes is damaged"); };
    if (sizes.size() > kMostSizes) return wrong();
    std::vector<int64_t> factors(std::size_t{1} << sizes.size());
    std::string closed;
    closed.reserve(text.size());
    while (!text.empty()) {
        const std::size_t opens = text.find(kOpens);
        closed += text.substr(0, opens);
        if (opens == std::string_view::npos) break;
        text.remove_prefix(opens + 1);
        for (std::size_t i = 0; i < factors.size(); ++i) {
            const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), factors[i]);
            if (problem != std::errc()) return wrong();
            text.remove_prefix(static_cast<std::size_t>(end - text.data()));
            if (!text.starts_with(i + 1 < factors.size() ? ' ' : kCloses)) return wrong();
            text.remove_prefix(1);
        }
        int64_t value = 0;
        if (!value_of(factors, sizes, value)) return wrong();
        closed += fmt::format("{}", value);
    }
    return closed;
}

} // namespace hekla::graph
