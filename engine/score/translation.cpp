#include "score/translation.hpp"

#include "text/unicode/utf8.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <unordered_map>

namespace hekla::score {
namespace {

constexpr std::size_t kBleuOrder = 4;
constexpr std::size_t kChrfOrder = 6;
constexpr const char* kVersion = "hekla-0.1"; // the definitions are those of sacreBLEU 2

// Returns whether Python's str.split() treats it as white space.
bool is_separator(char32_t value) { return text::is_white_space(value) || (value >= 0x1C && value <= 0x1F); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
}

std::vector<std::string> words(std::string_view line) {
    std::vector<std::string> out;
    std::string word;
    while (!line.empty()) {
        const text::CodePoint character = text::first_code_point(line);
        if (is_separator(character.value)) {
            if (!word.empty()) out.push_back(std::exchange(word, {}));
        } else {
            word += line.substr(0, character.size);
        }
        line.remove_prefix(character.size);
    }
    if (!word.empty()) out.push_back(std::move(word));
    return out;
}

// Removes white space at the end.
std::string_view without_end(std::string_view line) {
    while (!line.empty()) {
        const std::size_t last = text::last_code_point_start(line);
        if (!is_separator(text::first_code_point(line.substr(last)).value)) break;
        line = line.substr(0, last);
    }
    return line;
}

std::size_t character_size(std::string_view text, std::size_t at) {
    return text::first_code_point(text.substr(at)).size;
}

Status check_lists(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references) {
    if (hypotheses.empty() || references.empty())
        return invalid_argument("translations cannot be scored: there are no hypotheses, or no references");
    for (const std::vector<std::string>& list : references)
        if (list.size() != hypotheses.size())
            return invalid_argument(fmt::format("translations cannot be scored: {} hypotheses and {} references",
                                                hypotheses.size(), list.size()));
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        HK_TRY(text::check_utf8(hypotheses[i], {fmt::format("hypothesis {}", i + 1)}));
        for (const std::vector<std::string>& list : references)
            HK_TRY(text::check_utf8(list[i], {fmt::format("reference {}", i + 1)}));
    }
    return {};
}

using Counts = std::unordered_map<std::string, uint64_t>;

// Counts n-grams of `order` units, joined by `between`.
Counts count_runs(const std::vector<std::string>& units, std::size_t order, std::string_view between) {
    Counts counts;
    for (std::size_t begin = 0; begin + order <= units.size(); ++begin) {
        std::string run = units[begin];
        for (std::size_t i = 1; i < order; ++i) {
            run += between;
            run += units[begin + i];
        }
        ++counts[std::move(run)];
    }
    return counts;
}

struct ChrfCounts {
    std::array<double, kChrfOrder> hypothesis{}, reference{}, match{};
};

double chrf_score(const ChrfCounts& counts) {
    double precision = 0.0, recall = 0.0, orders = 0.0;
    for (std::size_t n = 0; n < kChrfOrder; ++n) {
        if (counts.hypothesis[n] == 0.0 || counts.reference[n] == 0.0) continue;
        precision += counts.match[n] / counts.hypothesis[n];
        recall += counts.match[n] / counts.reference[n];
        orders += 1.0;
    }
    if (orders == 0.0 || precision + recall == 0.0) return 0.0;
    precision /= orders;
    recall /= orders;
    constexpr double kFactor = 4.0; // beta squared
    return 100.0 * (1.0 + kFactor) * precision * recall / (kFactor * precision + recall);
}

std::vector<std::string> characters(std::string_view line) {
    std::vector<std::string> out;
    while (!line.empty()) {
        const text::CodePoint character = text::first_code_point(line);
        if (!is_separator(character.value)) out.emplace_back(line.substr(0, character.size));
        line.remove_prefix(character.size);
    }
    return out;
}

} // namespace

std::vector<std::string> tokenize_13a(std::string_view given) {
    std::string line(given);
    replace_all(line, "<skipped>", "");
    replace_all(line, "-\n", "");
    replace_all(line, "\n", " ");
    for (const auto& [from, to] :
         {std::pair("&quot;", "\""), std::pair("&amp;", "&"), std::pair("&lt;", "<"), std::pair("&gt;", ">")})
        replace_all(line, from, to);
    line = ' ' + line + ' ';
    std::string out;
    for (const char c : line) { // marks except ' , - . become separate tokens
        const bool alone = (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
                           (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
        if (alone) {
            out += ' ';
            out += c;
            out += ' ';
        } else {
            out += c;
        }
    }
    // Each of the next rules scans from left to right, without overlapping matches.
    const auto is_point = [](char c) { return c == '.' || c == ','; };
    line = std::exchange(out, {});
    for (std::size_t at = 0; at < line.size();) { // a period without a digit before it
        const std::size_t size = character_size(line, at);
        out.append(line, at, size);
        const bool digit = is_digit(line[at]);
        at += size;
        if (digit || at >= line.size() || !is_point(line[at])) continue;
        out += ' ';
        out += line[at++];
        out += ' ';
    }
    line = std::exchange(out, {});
    for (std::size_t at = 0; at < line.size();) { // a period without a digit after it
        if (is_point(line[at]) && at + 1 < line.size() && !is_digit(line[at + 1])) {
            out += ' ';
            out += line[at++];
            out += ' ';
        }
        const std::size_t size = character_size(line, at);
        out.append(line, at, size);
        at += size;
    }
    line = std::exchange(out, {});
    for (std::size_t at = 0; at < line.size(); ++at) { // a dash after a digit
        out += line[at];
        if (!is_digit(line[at]) || at + 1 >= line.size() || line[at + 1] != '-') continue;
        out += " - ";
        ++at;
    }
    return words(out);
}

std::string Bleu::text() const {
    return fmt::format(
        "BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", score,
        precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty,
        reference_length > 0 ? static_cast<double>(system_length) / static_cast<double>(reference_length) : 0.0,
        system_length, reference_length);
}

Result<Bleu> bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references) {
    HK_TRY(check_lists(hypotheses, references));
    Bleu out;
    std::array<uint64_t, kBleuOrder> correct{}, total{};
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const std::vector<std::string> hypothesis = tokenize_13a(without_end(hypotheses[i]));
        std::vector<std::vector<std::string>> all;
        for (const std::vector<std::string>& list : references) all.push_back(tokenize_13a(without_end(list[i])));
        // The reference of the nearest length; the shorter one if there are two.
        std::size_t length = all[0].size();
        const auto distance = [&](std::size_t size) {
            return size > hypothesis.size() ? size - hypothesis.size() : hypothesis.size() - size;
        };
        for (const std::vector<std::string>& reference : all)
            if (distance(reference.size()) < distance(length) ||
                (distance(reference.size()) == distance(length) && reference.size() < length))
                length = reference.size();
        out.system_length += hypothesis.size();
        out.reference_length += length;
        for (std::size_t n = 1; n <= kBleuOrder; ++n) {
            Counts most; // the maximum over references
            for (const std::vector<std::string>& reference : all)
                for (const auto& [run, count] : count_runs(reference, n, " ")) most[run] = std::max(most[run], count);
            for (const auto& [run, count] : count_runs(hypothesis, n, " ")) {
                total[n - 1] += count;
                if (const auto found = most.find(run); found != most.end())
                    correct[n - 1] += std::min(count, found->second);
            }
        }
    }
    const auto system = static_cast<double>(out.system_length), reference = static_cast<double>(out.reference_length);
    out.brevity_penalty = system >= reference ? 1.0 : system > 0.0 ? std::exp(1.0 - reference / system) : 0.0;
    out.signature =
        fmt::format("nrefs:{}|case:mixed|eff:no|tok:13a|smooth:exp|version:{}", references.size(), kVersion);
    if (std::ranges::all_of(correct, [](uint64_t count) { return count == 0; })) return out;
    double smoothing = 1.0, logarithms = 0.0;
    bool any_empty = false;
    for (std::size_t n = 0; n < kBleuOrder; ++n) {
        if (total[n] == 0) {
            any_empty = true; // no hypothesis is this long: the score is 0
            break;
        }
        if (correct[n] == 0) {
            smoothing *= 2.0;
            out.precisions[n] = 100.0 / (smoothing * static_cast<double>(total[n]));
        } else {
            out.precisions[n] = 100.0 * static_cast<double>(correct[n]) / static_cast<double>(total[n]);
        }
        logarithms += std::log(out.precisions[n]);
    }
    out.score = any_empty ? 0.0 : out.brevity_penalty * std::exp(logarithms / static_cast<double>(kBleuOrder));
    return out;
}

Result<Chrf> chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references) {
    HK_TRY(check_lists(hypotheses, references));
    ChrfCounts sum;
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const std::vector<std::string> hypothesis = characters(hypotheses[i]);
        ChrfCounts best;
        double best_score = -1.0;
        for (const std::vector<std::string>& list : references) {
            const std::vector<std::string> reference = characters(list[i]);
            ChrfCounts counts;
            for (std::size_t n = 0; n < kChrfOrder; ++n) {
                const Counts theirs = count_runs(reference, n + 1, "");
                for (const auto& [run, count] : theirs) counts.reference[n] += static_cast<double>(count);
                for (const auto& [run, count] : count_runs(hypothesis, n + 1, "")) {
                    if (!theirs.empty()) counts.hypothesis[n] += static_cast<double>(count);
                    if (const auto found = theirs.find(run); found != theirs.end())
                        counts.match[n] += static_cast<double>(std::min(count, found->second));
                }
            }
            const double score = chrf_score(counts);
            if (score <= best_score) continue;
            best_score = score;
            best = counts;
        }
        for (std::size_t n = 0; n < kChrfOrder; ++n) {
            sum.hypothesis[n] += best.hypothesis[n];
            sum.reference[n] += best.reference[n];
            sum.match[n] += best.match[n];
        }
    }
    return Chrf{chrf_score(sum),
                fmt::format("nrefs:{}|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{}", references.size(), kVersion)};
}

} // namespace hekla::score
