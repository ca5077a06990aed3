#include "graph/text_form/sized_text.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace hekla::graph {
namespace {

// A number that depends on sizes is encoded as kNumber, its 2^n factors, and kEndsFactors: "1 0 0 32" is 1 + 32 *
// sizes[0] * sizes[1]. A list that grows with them is encoded as one of kParts, its count in the same form, the
// elements of the longest list, and kEndsList, all inside its brackets.
constexpr char kNumber = '\x01', kEndsFactors = '\x03', kEndsList = '\x04';
constexpr char kFirst = '\x02', kMiddle = '\x05', kLast = '\x06'; // which elements a shorter list has
constexpr char kParts[] = {kFirst, kMiddle, kLast};
constexpr std::string_view kStarts = "\x01\x02\x05\x06";
constexpr std::string_view kComma = ", ";
constexpr std::size_t kMostDigits = 18; // of a number that is compared
constexpr std::size_t kMostSizes = 4;

bool is_digit_of_number(char c) { return c >= '0' && c <= '9'; }

// Returns the next run of digits or of other characters; a bracket is a run by itself.
std::string_view next_run(std::string_view text) {
    std::size_t end = 1;
    while (text[0] != '[' && end < text.size() && text[end] != '[' &&
           is_digit_of_number(text[end]) == is_digit_of_number(text[0]))
        ++end;
    return text.substr(0, end);
}

// Returns the content of the brackets that the text begins with.
std::string_view list_of(std::string_view text) { return text.substr(1, text.find(']') - 1); }

int64_t count_of(std::string_view list) {
    int64_t count = list.empty() ? 0 : 1;
    for (std::size_t at = 0; (at = list.find(kComma, at)) != std::string_view::npos; at += kComma.size()) ++count;
    return count;
}

// Returns the first, middle or last `count` elements of a list; nothing if it is shorter or has no such middle.
std::optional<std::string_view> part_of(std::string_view list, char part, int64_t count) {
    const int64_t left_out = count_of(list) - count;
    if (left_out < 0 || (part == kMiddle && left_out % 2 != 0)) return {};
    if (count == 0) return list.substr(0, 0);
    const auto skip = [&](std::size_t at, int64_t elements) {
        for (; elements > 0; --elements) at = list.find(kComma, at) + kComma.size();
        return at;
    };
    const std::size_t start = skip(0, part == kFirst ? 0 : part == kMiddle ? left_out / 2 : left_out);
    return list.substr(start, list.find(kComma, skip(start, count - 1)) - start);
}

std::vector<int64_t> counts(const std::vector<std::string_view>& texts) {
    std::vector<int64_t> result;
    for (const std::string_view text : texts) result.push_back(count_of(list_of(text)));
    return result;
}

// Computes the factors of a number from its values in the first 2^n samples.
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

// Returns false if the value is negative or does not fit in 63 bits.
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
    const auto refuse = [](std::string_view where) {
        where.remove_prefix(std::min(where.size(), where.find_first_not_of('\n')));
        where = where.substr(0, where.find('\n'));
        return unsupported(fmt::format("its graph depends on sizes otherwise than by sums and products, near: {}",
                                       where.substr(0, 80)));
    };
    std::vector<std::string_view> rest;
    for (const SizedText& sample : samples) rest.push_back(sample.text);
    std::string text;
    const auto put_factors = [&](char kind, std::vector<int64_t> values) {
        if (!factors_of(values, samples)) return false;
        text += kind + fmt::format("{}", fmt::join(values, " ")) + kEndsFactors;
        return true;
    };
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
            if (values.size() < corners) values.push_back(value);
        }
        if (first != "[" || counts(rest) == std::vector<int64_t>(rest.size(), count_of(list_of(rest[0])))) {
            for (std::string_view& one : rest) one.remove_prefix(next_run(one).size());
            if (same)
                text += first;
            else if (!put_factors(kNumber, std::move(values)))
                return refuse(first);
            continue;
        }
        std::vector<int64_t> sizes_of_lists = counts(rest);
        const auto longest = std::ranges::max_element(sizes_of_lists) - sizes_of_lists.begin();
        const std::string_view all = list_of(rest[static_cast<std::size_t>(longest)]);
        const auto* const part = std::ranges::find_if(kParts, [&](char one) {
            return std::ranges::all_of(rest, [&](std::string_view sample) {
                const std::string_view list = list_of(sample);
                return part_of(all, one, count_of(list)) == list;
            });
        });
        sizes_of_lists.resize(corners);
        text += first;
        if (part == std::end(kParts) || !put_factors(*part, std::move(sizes_of_lists))) return refuse(rest[0]);
        text += all;
        text += kEndsList;
        for (std::string_view& one : rest) one.remove_prefix(1 + list_of(one).size());
    }
    for (const SizedText& sample : samples) {
        HK_ASSIGN(const std::string again, close_text(text, sample.sizes));
        if (again != sample.text) return refuse(fmt::format("the sizes {}", fmt::join(sample.sizes, ", ")));
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
        const std::size_t starts = text.find_first_of(kStarts);
        closed += text.substr(0, starts);
        if (starts == std::string_view::npos) break;
        const char kind = text[starts];
        text.remove_prefix(starts + 1);
        for (std::size_t i = 0; i < factors.size(); ++i) {
            const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), factors[i]);
            if (problem != std::errc()) return wrong();
            text.remove_prefix(static_cast<std::size_t>(end - text.data()));
            if (!text.starts_with(i + 1 < factors.size() ? ' ' : kEndsFactors)) return wrong();
            text.remove_prefix(1);
        }
        int64_t value = 0;
        if (!value_of(factors, sizes, value)) return wrong();
        if (kind == kNumber) {
            closed += fmt::format("{}", value);
            continue;
        }
        const std::size_t end = text.find(kEndsList);
        if (end == std::string_view::npos) return wrong();
        const std::optional<std::string_view> list = part_of(text.substr(0, end), kind, value);
        if (!list) return wrong();
        closed += *list;
        text.remove_prefix(end + 1);
    }
    return closed;
}

} // namespace hekla::graph
