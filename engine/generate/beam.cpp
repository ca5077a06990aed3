#include "generate/beam.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::generate {
namespace {

constexpr double kOut = -1e9; // added to the score of forbidden tokens, as in the reference

} // namespace

BeamSearch::BeamSearch(const Options& options, const std::vector<std::vector<int32_t>>& prompts,
                       std::vector<std::vector<int32_t>> sources)
    : options_(options), sampler_(options), beams_(static_cast<std::size_t>(options.beams)),
      sources_(std::move(sources)) {
    for (const std::vector<int32_t>& prompt : prompts) {
        prompt_lengths_.push_back(prompt.size());
        for (std::size_t k = 0; k < beams_; ++k) running_.push_back({prompt, k == 0 ? 0.0 : kOut, false});
        results_.emplace_back(beams_, Beam{prompt, kOut, false});
    }
    may_improve_.assign(prompts.size(), 1);
    parents_.resize(running_.size());
    tokens_.resize(running_.size());
}

std::vector<BeamSearch::Candidate> BeamSearch::candidates(std::size_t prompt, std::span<const float> logits,
                                                          std::vector<float>& scores) {
    const std::size_t vocabulary = logits.size() / rows();
    std::vector<Candidate> all;
    all.reserve(beams_ * vocabulary);
    for (std::size_t k = 0; k < beams_; ++k) {
        const Beam& beam = running_[prompt * beams_ + k];
        const std::span<const float> row = logits.subspan((prompt * beams_ + k) * vocabulary, vocabulary);
        const float top = *std::ranges::max_element(row);
        double sum = 0.0;
        for (const float x : row) sum += std::exp(static_cast<double>(x) - top);
        const double normalizer = top + std::log(sum);
        for (std::size_t v = 0; v < vocabulary; ++v) scores[v] = static_cast<float>(row[v] - normalizer);
        sampler_.process({beam.ids, static_cast<int64_t>(prompt_lengths_[prompt]),
                          sources_.empty() ? std::span<const int32_t>() : std::span<const int32_t>(sources_[prompt])},
                         scores);
        for (std::size_t v = 0; v < vocabulary; ++v)
            all.push_back({k, static_cast<int32_t>(v), scores[v] + beam.score, false});
    }
    const std::size_t keep = std::min(all.size(), beams_ * std::max<std::size_t>(2, 1 + options_.eos.size()));
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(keep), all.end(),
                      [](const Candidate& a, const Candidate& b) {
                          if (a.score != b.score) return a.score > b.score;
                          return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
                      });
    all.resize(keep);
    for (Candidate& c : all)
        c.ends = made_ + 1 >= options_.max_new_tokens || std::ranges::find(options_.eos, c.token) != options_.eos.end();
    return all;
}

void BeamSearch::go_on(std::size_t prompt, std::span<const Candidate> candidates) {
    std::vector<Candidate> order(candidates.begin(), candidates.end());
    for (Candidate& c : order)
        if (c.ends) c.score += kOut;
    std::ranges::stable_sort(order, [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    std::vector<Beam> next;
    for (std::size_t k = 0; k < beams_; ++k) {
        const Candidate& c = order[std::min(k, order.size() - 1)];
        const std::size_t from = prompt * beams_ + c.beam;
        next.push_back({running_[from].ids, k < order.size() ? c.score : kOut, false});
        next.back().ids.push_back(c.token);
        parents_[prompt * beams_ + k] = static_cast<int32_t>(from);
        tokens_[prompt * beams_ + k] = c.token;
    }
    std::move(next.begin(), next.end(), running_.begin() + static_cast<std::ptrdiff_t>(prompt * beams_));
}

void BeamSearch::keep_finished(std::size_t prompt, std::span<const Candidate> candidates) {
    std::vector<Beam>& results = results_[prompt];
    const bool full = std::ranges::all_of(results, &Beam::finished);
    if (!may_improve_[prompt] || (full && options_.early_stopping == EarlyStopping::when_full)) return;
    const double divisor = std::pow(static_cast<double>(made_ + 1), options_.length_penalty);
    // Only the first `beams` candidates can be results; the others ensure that enough beams continue.
    for (std::size_t i = 0; i < std::min(beams_, candidates.size()); ++i) {
        const Candidate& c = candidates[i];
        if (!c.ends) continue;
        Beam beam{running_[prompt * beams_ + c.beam].ids, c.score / divisor, true};
        beam.ids.push_back(c.token);
        results.push_back(std::move(beam));
    }
    std::ranges::stable_sort(results, [](const Beam& a, const Beam& b) { return a.score > b.score; });
    results.resize(beams_);
}

Status BeamSearch::step(std::span<const float> logits) {
    if (done_) return failed_precondition("beam search is over");
    if (logits.empty() || logits.size() % rows() != 0)
        return internal_error(fmt::format("{} scores for {} beams", logits.size(), rows()));
    if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); }))
        return failed_precondition(fmt::format("the model's scores for token {} of the beams are not numbers", made_));
    std::vector<float> scores(logits.size() / rows());
    bool all_end = true;
    for (std::size_t prompt = 0; prompt < results_.size(); ++prompt) {
        const std::vector<Candidate> found = candidates(prompt, logits, scores);
        all_end = all_end && std::ranges::all_of(found, &Candidate::ends);
        keep_finished(prompt, found);
        go_on(prompt, found);
    }
    ++made_;
    bool any_improves = false, all_full = true;
    for (std::size_t prompt = 0; prompt < results_.size(); ++prompt) {
        // A running beam's score can only fall; the heuristic is which length it is scored at.
        const bool at_end = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0.0;
        const auto length = static_cast<double>(at_end ? options_.max_new_tokens : made_);
        const double possible = running_[prompt * beams_].score / std::pow(length, options_.length_penalty);
        const std::vector<Beam>& results = results_[prompt];
        const bool full = std::ranges::all_of(results, &Beam::finished);
        const double worst = results.back().score;
        // Empty slots are replaced by everything above kOut.
        const bool better =
            std::ranges::any_of(results, [&](const Beam& beam) { return possible > (beam.finished ? worst : kOut); });
        may_improve_[prompt] = may_improve_[prompt] && better;
        any_improves = any_improves || may_improve_[prompt];
        all_full = all_full && full;
    }
    done_ = all_end || !any_improves || (all_full && options_.early_stopping == EarlyStopping::when_full);
    return {};
}

std::vector<BeamSearch::Sequence> BeamSearch::best() const {
    std::vector<Sequence> sequences;
    const double divisor = std::pow(static_cast<double>(std::max<int64_t>(1, made_)), options_.length_penalty);
    for (std::size_t prompt = 0; prompt < results_.size(); ++prompt) {
        std::vector<Beam> all = results_[prompt];
        if (!done_) {
            std::erase_if(all, [](const Beam& beam) { return !beam.finished; });
            for (std::size_t k = 0; k < beams_; ++k) {
                const Beam& beam = running_[prompt * beams_ + k];
                all.push_back({beam.ids, beam.score / divisor, false});
            }
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(options_.sequences); ++i)
            sequences.push_back({all[i].ids, all[i].score});
    }
    return sequences;
}

} // namespace hekla::generate
