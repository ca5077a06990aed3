#include "reward/lexicon.hpp"

#include "base/file.hpp"
#include "base/trimmed.hpp"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <unordered_map>
#include <unordered_set>

namespace hekla::reward {
namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '\'' ||
           static_cast<unsigned char>(c) >= 0x80;
}

class Lexicon final : public Reward {
public:
    Lexicon(std::unordered_map<std::string, double> weights, bool lower_case, bool distinct, bool mean)
        : weights_(std::move(weights)), lower_case_(lower_case), distinct_(distinct), mean_(mean) {}
    Status score(std::span<const TextToScore> texts, std::span<double> scores) override {
        for (std::size_t i = 0; i < texts.size(); ++i) scores[i] = score_of(texts[i].completion);
        return {};
    }

private:
    double score_of(std::string_view text) const {
        double sum = 0.0, count = 0.0;
        std::unordered_set<std::string> seen;
        for (std::size_t begin = 0; begin < text.size();) {
            std::size_t end = begin;
            while (end < text.size() && in_word(text[end])) ++end;
            if (end > begin) {
                const std::string_view written = text.substr(begin, end - begin);
                const std::string word = lower_case_ ? lower(written) : std::string(written);
                if (!distinct_ || seen.insert(word).second) {
                    const auto found = weights_.find(word);
                    sum += found != weights_.end() ? found->second : 0.0;
                    count += 1.0;
                }
            }
            begin = end + 1;
        }
        return mean_ && count > 0.0 ? sum / count : sum;
    }
    std::unordered_map<std::string, double> weights_;
    bool lower_case_, distinct_, mean_;
};

Result<std::unordered_map<std::string, double>> read_weights(const std::string& file, bool lower_case) {
    HK_ASSIGN(const std::string content, read_file(file));
    std::unordered_map<std::string, double> weights;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < content.size();) {
        const std::size_t end = std::min(content.find('\n', begin), content.size());
        const std::string_view line = trimmed(std::string_view(content).substr(begin, end - begin));
        begin = end + 1;
        ++number;
        if (line.empty() || line.starts_with('#')) continue;
        const std::size_t cut = line.find_last_of(" \t,");
        const std::string_view weight = cut != std::string_view::npos ? line.substr(cut + 1) : std::string_view();
        double value = 0.0;
        const auto [stopped, error] = std::from_chars(weight.data(), weight.data() + weight.size(), value);
        const bool is_number =
            !weight.empty() && error == std::errc() && stopped == weight.data() + weight.size() && std::isfinite(value);
        const std::string word(cut != std::string_view::npos ? trimmed(line.substr(0, cut), " \t,") : line);
        if (!is_number || word.empty())
            return invalid_argument(
                fmt::format("{}: line {}: '{}': expected a word and a number", file, number, line.substr(0, 60)));
        if (!weights.emplace(lower_case ? lower(word) : word, value).second)
            return invalid_argument(fmt::format("{}: line {}: the word '{}' has a weight already", file, number, word));
    }
    if (weights.empty()) return invalid_argument(fmt::format("{}: has no word with a weight", file));
    return weights;
}

} // namespace

Result<std::unique_ptr<Reward>> make_lexicon(StrictTable& keys) {
    std::string from;
    bool lower_case = true, distinct = false, mean = false;
    keys.require("from", from);
    keys.read("lower_case", lower_case);
    keys.read("distinct", distinct);
    keys.read("mean", mean);
    HK_TRY(keys.finish());
    auto weights = read_weights(from, lower_case);
    if (!weights.ok()) {
        keys.fail("from", weights.message());
        return keys.finish();
    }
    return std::unique_ptr<Reward>(std::make_unique<Lexicon>(weights.take(), lower_case, distinct, mean));
}

} // namespace hekla::reward
