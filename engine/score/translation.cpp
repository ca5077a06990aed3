#include "score/translation.hpp"

#include "base/utf8.hpp"
#include "text/text_position.hpp"
#include "text/unicode/characters.hpp"

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
        const CodePoint character = first_code_point(line);
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
        const std::size_t last = last_code_point_start(line);
        if (!is_separator(first_code_point(line.substr(last)).value)) break;
        line = line.substr(0, last);
    }
    return line;
}

std::size_t character_size(std::string_view text, std::size_t at) { return first_code_point(text.substr(at)).size; }

Status check_lists(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references) {
    if (hypotheses.empty() || references.empty())
        return invalid_argument("translations cannot be scored: there are no hypotheses, or no references");
    for (const std::vector<std::string>& list : references)
        if (list.size() != hypotheses.size())
            return invalid_argument(fmt::format("translations cannot be scored: {} hypotheses and {} references",
                                                hypotheses.size(), list.size()));
    return {};
}

Status check_sentence(const std::string& hypothesis, std::span<const std::string> references) {
    if (references.empty()) return invalid_argument("a translation cannot be scored without a reference");
    HK_TRY(text::check_utf8(hypothesis, {"hypothesis"}));
    for (std::size_t i = 0; i < references.size(); ++i)
        HK_TRY(text::check_utf8(references[i], {fmt::format("reference {}", i + 1)}));
    return {};
}

// Adds what `count` counts in each sentence of checked lists.
template<class Sums>
Result<Sums> sums_of(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                     Result<Sums> (*count)(const std::string&, std::span<const std::string>)) {
    HK_TRY(check_lists(hypotheses, references));
    Sums sums;
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        std::vector<std::string> all;
        for (const std::vector<std::string>& list : references) all.push_back(list[i]);
        Result<Sums> counts = count(hypotheses[i], all);
        if (!counts.ok()) return counts.status().with_context(fmt::format("sentence {}", i + 1));
        sums.add(counts.value());
    }
    return sums;
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

std::vector<std::string> characters(std::string_view line) {
    std::vector<std::string> out;
    while (!line.empty()) {
        const CodePoint character = first_code_point(line);
        if (!is_separator(character.value)) out.emplace_back(line.substr(0, character.size));
        line.remove_prefix(character.size);
    }
    return out;
}

// Returns all but the signature.
Bleu bleu_of(const BleuCounts& counts) {
    Bleu out;
    out.system_length = counts.system_length;
    out.reference_length = counts.reference_length;
    const auto system = static_cast<double>(out.system_length), reference = static_cast<double>(out.reference_length);
    out.brevity_penalty = system >= reference ? 1.0 : system > 0.0 ? std::exp(1.0 - reference / system) : 0.0;
    if (std::ranges::all_of(counts.correct, [](uint64_t count) { return count == 0; })) return out;
    double smoothing = 1.0, logarithms = 0.0;
    for (std::size_t n = 0; n < kBleuOrder; ++n) {
        const auto total = static_cast<double>(counts.total[n]);
        if (total == 0.0) return out; // no hypothesis is this long: the score is 0
        if (counts.correct[n] == 0) smoothing *= 2.0;
        out.precisions[n] = counts.correct[n] == 0 ? 100.0 / (smoothing * total)
                                                   : 100.0 * static_cast<double>(counts.correct[n]) / total;
        logarithms += std::log(out.precisions[n]);
    }
    out.score = out.brevity_penalty * std::exp(logarithms / static_cast<double>(kBleuOrder));
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

void BleuCounts::add(const BleuCounts& other) {
    for (std::size_t n = 0; n < kBleuOrder; ++n) {
        total[n] += other.total[n];
        correct[n] += other.correct[n];
    }
    system_length += other.system_length;
    reference_length += other.reference_length;
}

double BleuCounts::score() const { return bleu_of(*this).score; }

Result<BleuCounts> bleu_counts(const std::string& hypothesis, std::span<const std::string> references) {
    HK_TRY(check_sentence(hypothesis, references));
    const std::vector<std::string> system = tokenize_13a(without_end(hypothesis));
    std::vector<std::vector<std::string>> all;
    for (const std::string& reference : references) all.push_back(tokenize_13a(without_end(reference)));
    // The reference of the nearest length; the shorter one if there are two.
    const auto distance = [&](std::size_t size) {
        return size > system.size() ? size - system.size() : system.size() - size;
    };
    std::size_t length = all[0].size();
    for (const std::vector<std::string>& reference : all)
        if (distance(reference.size()) < distance(length) ||
            (distance(reference.size()) == distance(length) && reference.size() < length))
            length = reference.size();
    BleuCounts counts;
    counts.system_length = system.size();
    counts.reference_length = length;
    for (std::size_t n = 1; n <= kBleuOrder; ++n) {
        Counts most; // the maximum over references
        for (const std::vector<std::string>& reference : all)
            for (const auto& [run, count] : count_runs(reference, n, " ")) most[run] = std::max(most[run], count);
        for (const auto& [run, count] : count_runs(system, n, " ")) {
            counts.total[n - 1] += count;
            if (const auto found = most.find(run); found != most.end())
                counts.correct[n - 1] += std::min(count, found->second);
        }
    }
    return counts;
}

Result<Bleu> bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references) {
    HK_ASSIGN(const BleuCounts counts, sums_of(hypotheses, references, bleu_counts));
    Bleu out = bleu_of(counts);
    out.signature =
        fmt::format("nrefs:{}|case:mixed|eff:no|tok:13a|smooth:exp|version:{}", references.size(), kVersion);
    return out;
}

void ChrfCounts::add(const ChrfCounts& other) {
    for (std::size_t n = 0; n < kChrfOrder; ++n) {
        hypothesis[n] += other.hypothesis[n];
        reference[n] += other.reference[n];
        match[n] += other.match[n];
    }
}

double ChrfCounts::score() const {
    double precision = 0.0, recall = 0.0, orders = 0.0;
    for (std::size_t n = 0; n < kChrfOrder; ++n) {
        if (hypothesis[n] == 0.0 || reference[n] == 0.0) continue;
        precision += match[n] / hypothesis[n];
        recall += match[n] / reference[n];
        orders += 1.0;
    }
    if (orders == 0.0 || precision + recall == 0.0) return 0.0;
    precision /= orders;
    recall /= orders;
    constexpr double kFactor = 4.0; // beta squared
    return 100.0 * (1.0 + kFactor) * precision * recall / (kFactor * precision + recall);
}

Result<ChrfCounts> chrf_counts(const std::string& hypothesis, std::span<const std::string> references) {
    HK_TRY(check_sentence(hypothesis, references));
    const std::vector<std::string> system = characters(hypothesis);
    ChrfCounts best;
    double best_score = -1.0;
    for (const std::string& text : references) {
        const std::vector<std::string> reference = characters(text);
        ChrfCounts counts;
        for (std::size_t n = 0; n < kChrfOrder; ++n) {
            const Counts theirs = count_runs(reference, n + 1, "");
            for (const auto& [run, count] : theirs) counts.reference[n] += static_cast<double>(count);
            for (const auto& [run, count] : count_runs(system, n + 1, "")) {
                if (!theirs.empty()) counts.hypothesis[n] += static_cast<double>(count);
                if (const auto found = theirs.find(run); found != theirs.end())
                    counts.match[n] += static_cast<double>(std::min(count, found->second));
            }
        }
        const double score = counts.score();
        if (score <= best_score) continue;
        best_score = score;
        best = counts;
    }
    return best;
}

Result<Chrf> chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references) {
    HK_ASSIGN(const ChrfCounts counts, sums_of(hypotheses, references, chrf_counts));
    return Chrf{counts.score(),
                fmt::format("nrefs:{}|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{}", references.size(), kVersion)};
}

} // namespace hekla::score
