#include "generate/beam.hpp"
#include "generate/generator.hpp"

#include "support.hpp"

#include <algorithm>
#include <map>

using namespace hekla;
using namespace hekla::generate;
using test::HistoryDecoder;
using test::Ids;
using test::scores_after;

namespace {

Ids prompt_of(int length, int seed, int vocabulary) {
    Ids ids;
    for (int i = 0; i < length; ++i) ids.push_back((i * 7 + seed * 13 + i * i) % vocabulary);
    return ids;
}

Ids greedy(Ids ids, int64_t tokens, int64_t vocabulary, int32_t eos = -1) {
    for (int64_t i = 0; i < tokens; ++i) {
        const std::vector<float> scores = scores_after(ids, vocabulary);
        ids.push_back(static_cast<int32_t>(std::ranges::max_element(scores) - scores.begin()));
        if (ids.back() == eos) break;
    }
    return ids;
}

double log_probability(const Ids& history, int32_t token, int64_t vocabulary) {
    const std::vector<float> scores = scores_after(history, vocabulary);
    double sum = 0.0;
    for (const float s : scores) sum += std::exp(static_cast<double>(s));
    return scores[static_cast<std::size_t>(token)] - std::log(sum);
}

// Adds all possible sequences to `all`, sorted by score.
void enumerate(const Ids& ids, double score, std::size_t prompt, const Options& o, int64_t vocabulary,
               std::multimap<double, Ids>& all) {
    const std::size_t made = ids.size() - prompt;
    const bool ended = made > 0 && std::ranges::find(o.eos, ids.back()) != o.eos.end();
    if (ended || made == static_cast<std::size_t>(o.max_new_tokens)) {
        all.emplace(score / std::pow(static_cast<double>(made), o.length_penalty), ids);
        return;
    }
    for (int32_t token = 0; token < vocabulary; ++token) {
        Ids next = ids;
        next.push_back(token);
        enumerate(next, score + log_probability(ids, token, vocabulary), prompt, o, vocabulary, all);
    }
}

} // namespace

TEST_CASE("generator: ragged batches give the same as each row alone, for every mix of chunks") {
    Options o;
    o.max_new_tokens = 9;
    for (const std::vector<int64_t>& chunks : {std::vector<int64_t>{1}, {1, 16}, {1, 16, 128}}) {
        HistoryDecoder decoder(50, chunks);
        Request request;
        for (const int length : {1, 4, 16, 17, 40, 150, 3}) request.prompts.push_back(prompt_of(length, length, 50));
        const auto output = generate::generate(decoder, request, o);
        REQUIRE_MESSAGE(output.ok(), output.message());
        for (std::size_t row = 0; row < request.prompts.size(); ++row) {
            CHECK(output->rows[row].ids == greedy(request.prompts[row], 9, 50));
            CHECK(output->rows[row].made == 9);
        }
        CHECK(output->statistics.prompt_tokens == 231);
        CHECK(output->statistics.tokens == 63);
    }
}

TEST_CASE("generator: a row that fills the context continues from its last half, whatever its neighbors are") {
    const auto sliding = [](const Ids& prompt, int64_t tokens, std::size_t context) {
        Ids ids = prompt, seen = prompt;
        const auto halve = [&] { seen.erase(seen.begin(), seen.end() - static_cast<std::ptrdiff_t>(context / 2)); };
        if (seen.size() > context) halve();
        for (int64_t i = 0; i < tokens; ++i) {
            const std::vector<float> scores = scores_after(seen, 50);
            ids.push_back(static_cast<int32_t>(std::ranges::max_element(scores) - scores.begin()));
            const bool full = seen.size() == context;
            seen.push_back(ids.back());
            if (full) halve();
        }
        return ids;
    };
    Options o;
    o.max_new_tokens = 41;
    for (const std::size_t context : {2, 5, 16}) {
        HistoryDecoder decoder(50);
        decoder.set_context(static_cast<int64_t>(context));
        Request request;
        for (const int length : {1, 4, 5, 16, 17, 40, 3}) request.prompts.push_back(prompt_of(length, length, 50));
        o.slide_context = false;
        CHECK(!generate::generate(decoder, request, o).ok());
        o.slide_context = true;
        const auto output = generate::generate(decoder, request, o);
        REQUIRE_MESSAGE(output.ok(), output.message());
        CHECK(output->context == static_cast<int64_t>(context));
        for (std::size_t row = 0; row < request.prompts.size(); ++row)
            CHECK(output->rows[row].ids == sliding(request.prompts[row], 41, context));
    }
    HistoryDecoder ample(50);
    const auto all = generate::generate(ample, {{prompt_of(3, 1, 50)}, {}}, o);
    REQUIRE(all.ok());
    CHECK(all->context == 0);
    CHECK(all->rows[0].ids == greedy(prompt_of(3, 1, 50), 41, 50));
}

TEST_CASE("generator: adapters begin at the last invocation of a prompt, also where rows lose their first tokens") {
    class Invoked final : public HistoryDecoder {
    public:
        explicit Invoked(int64_t context) : HistoryDecoder(50) { set_context(context); }
        std::span<const plugin::Invocation> invocations() const override { return invocations_; }
        Status begin(const DecodeBatch& session) override {
            HK_TRY(HistoryDecoder::begin(session));
            CHECK(session.repeats * session.sources.at("adapter_start").shape[0] == session.rows);
            return set_fields(session.sources, {});
        }
        Status set_fields(const Fields& fields, std::span<const std::size_t> again) override {
            CHECK(again.empty());
            for (const auto& [name, tensor] : fields) starts[name].push_back(tensor.data);
            return {};
        }
        std::map<std::string, std::vector<std::vector<double>>> starts;

    private:
        std::vector<plugin::Invocation> invocations_{{"adapter_start", {7, 8}}, {"adapter_start.b", {9}}};
    };
    constexpr double kNever = plugin::kNeverStarts;
    Invoked decoder(8);
    Request request;
    request.prompts = {{1, 7, 8, 2}, {7, 8, 7, 8}, {1, 2, 7}, {7, 8, 1, 2, 3, 4, 5, 6, 9, 3}, {1, 2, 3, 4, 5, 6, 7, 8}};
    Options o;
    o.max_new_tokens = 2;
    o.slide_context = true;
    o.sequences = 2;
    o.sample = true;
    REQUIRE(generate::generate(decoder, request, o).ok());
    // The fourth prompt keeps its last 4 tokens, the last one those and the first new token.
    using Starts = std::vector<std::vector<double>>;
    CHECK(decoder.starts["adapter_start"] == Starts{{1, 2, kNever, 0, 6}, {1, 2, kNever, 0, 1}});
    CHECK(decoder.starts["adapter_start.b"] ==
          Starts{{kNever, kNever, kNever, 2, kNever}, {kNever, kNever, kNever, 2, kNever}});
    o.max_new_tokens = 20;
    REQUIRE(generate::generate(decoder, request, o).ok());
    CHECK(decoder.starts["adapter_start"].back() == std::vector<double>{0, 0, kNever, 0, 0});
    CHECK(plugin::last_invocation(Ids{1}, Ids{1, 1}) == -1);
}

TEST_CASE("generator: a prompt is processed in few steps") {
    HistoryDecoder decoder(50);
    Options o;
    o.max_new_tokens = 1;
    REQUIRE(generate::generate(decoder, {{prompt_of(145, 1, 50)}, {}}, o).ok());
    CHECK(decoder.steps() <= 3); // 128, 16, 1
}

TEST_CASE("generator: rows end independently, and tokens are reported as they are generated") {
    HistoryDecoder decoder(12);
    Options o;
    o.max_new_tokens = 40;
    o.eos = {5};
    Request request{{prompt_of(3, 1, 12), prompt_of(5, 2, 12), prompt_of(2, 3, 12)}, {}};
    std::vector<Ids> streamed = request.prompts;
    const auto output = generate::generate(decoder, request, o, [&](std::size_t row, int32_t token) {
        streamed[row].push_back(token);
        return true;
    });
    REQUIRE_MESSAGE(output.ok(), output.message());
    for (std::size_t row = 0; row < 3; ++row) {
        CHECK(output->rows[row].ids == greedy(request.prompts[row], 40, 12, 5));
        CHECK(streamed[row] == output->rows[row].ids);
    }
    int received = 0;
    const auto stopped = generate::generate(decoder, request, o, [&](std::size_t, int32_t) { return ++received < 4; });
    REQUIRE(stopped.ok());
    CHECK(stopped->statistics.tokens == 4);
    CHECK(stopped->stopped);
    CHECK(!output->stopped);
}

TEST_CASE("generator: when stopped it returns what it has, in prompts, tokens and beams") {
    const Request request{{prompt_of(40, 1, 12), prompt_of(5, 2, 12)}, {}};
    Options o;
    o.max_new_tokens = 40;
    for (const int64_t beams : {1, 3}) {
        o.beams = beams;
        std::vector<Ids> before = request.prompts;
        for (const int turns : {0, 5, 6}) { // model calls before the stop; the prompts take three
            HistoryDecoder decoder(12, {1, 16});
            const auto output = generate::generate(decoder, request, o, {}, [&] { return decoder.steps() >= turns; });
            REQUIRE_MESSAGE(output.ok(), output.message());
            CHECK(output->stopped);
            CHECK(decoder.steps() == turns);
            REQUIRE(output->rows.size() == 2);
            for (std::size_t row = 0; row < 2; ++row) {
                const Ids& ids = output->rows[row].ids;
                CHECK(std::equal(request.prompts[row].begin(), request.prompts[row].end(), ids.begin()));
                CHECK(output->rows[row].made == ids.size() - request.prompts[row].size());
                if (turns == 0) CHECK(output->rows[row].made == 0);
                if (turns == 6) CHECK(ids.size() == before[row].size() + 1);
                before[row] = ids;
            }
        }
    }
}

TEST_CASE("generator: sampling does not depend on the other rows in the batch; copies of a prompt differ") {
    HistoryDecoder decoder(30);
    Options o;
    o.max_new_tokens = 12;
    o.sample = true;
    o.seed = 3;
    const Ids first = prompt_of(4, 1, 30);
    const auto alone = generate::generate(decoder, {{first}, {}}, o);
    const auto together = generate::generate(decoder, {{first, prompt_of(20, 2, 30)}, {}}, o);
    REQUIRE(alone.ok());
    REQUIRE(together.ok());
    CHECK(alone->rows[0].ids == together->rows[0].ids);
    o.seed = 4;
    CHECK(generate::generate(decoder, {{first}, {}}, o)->rows[0].ids != alone->rows[0].ids);
    o.seed = 3;
    o.sequences = 3;
    const auto copies = generate::generate(decoder, {{first}, {}}, o);
    REQUIRE(copies.ok());
    REQUIRE(copies->rows.size() == 3);
    CHECK(copies->rows[0].ids == alone->rows[0].ids);
    CHECK(copies->rows[1].ids != copies->rows[0].ids);
}

TEST_CASE("generator: beams with permuted cache rows equal beams with whole histories") {
    for (const bool ends : {false, true}) {
        HistoryDecoder decoder(9);
        Options o;
        o.max_new_tokens = 14;
        o.beams = 4;
        o.sequences = 2;
        if (ends) o.eos = {3};
        o.no_repeat_ngram_size = 3;
        const std::vector<Ids> prompts{prompt_of(3, 1, 9), prompt_of(21, 2, 9), prompt_of(1, 5, 9)};
        const auto output = generate::generate(decoder, {prompts, {}}, o);
        REQUIRE_MESSAGE(output.ok(), output.message());

        BeamSearch search(o, prompts);
        std::vector<Ids> histories;
        for (const Ids& prompt : prompts) histories.insert(histories.end(), 4, prompt);
        while (!search.done()) {
            std::vector<float> logits;
            for (const Ids& history : histories) {
                const std::vector<float> scores = scores_after(history, 9);
                logits.insert(logits.end(), scores.begin(), scores.end());
            }
            REQUIRE(search.step(logits).ok());
            const std::vector<Ids> old = histories;
            for (std::size_t row = 0; row < histories.size(); ++row) {
                histories[row] = old[static_cast<std::size_t>(search.parents()[row])];
                histories[row].push_back(search.tokens()[row]);
            }
        }
        const auto best = search.best();
        REQUIRE(best.size() == output->rows.size());
        for (std::size_t i = 0; i < best.size(); ++i) {
            CHECK(output->rows[i].ids == best[i].ids);
            CHECK(output->rows[i].score == best[i].score);
        }
    }
}

TEST_CASE("beams: with as many beams as sequences, the best ones are found") {
    for (const double penalty : {1.0, 0.0, 2.0})
        for (const bool ends : {false, true}) {
            Options o;
            o.max_new_tokens = 4;
            o.beams = 128;
            o.sequences = 5;
            o.length_penalty = penalty;
            o.early_stopping = EarlyStopping::never;
            if (ends) o.eos = {2};
            HistoryDecoder decoder(4);
            const Ids prompt = prompt_of(3, 4, 4);
            const auto output = generate::generate(decoder, {{prompt}, {}}, o);
            REQUIRE_MESSAGE(output.ok(), output.message());
            std::multimap<double, Ids> all;
            enumerate(prompt, 0.0, prompt.size(), o, 4, all);
            auto best = all.rbegin();
            for (std::size_t i = 0; i < 5; ++i, ++best) {
                CHECK(output->rows[i].ids == best->second);
                CHECK(output->rows[i].score == doctest::Approx(best->first).epsilon(1e-6));
            }
        }
}

TEST_CASE("beams: early stopping stops no earlier than allowed") {
    Options o;
    o.max_new_tokens = 30;
    o.beams = 3;
    o.eos = {1};
    const Ids prompt{4}; // processed in one step, like every token after it
    const auto steps = [&](EarlyStopping early) {
        o.early_stopping = early;
        HistoryDecoder decoder(6);
        const auto output = generate::generate(decoder, {{prompt}, {}}, o);
        REQUIRE_MESSAGE(output.ok(), output.message());
        CHECK(output->rows[0].ids.back() == 1);
        return decoder.steps();
    };
    const int full = steps(EarlyStopping::when_full), heuristic = steps(EarlyStopping::heuristic),
              never = steps(EarlyStopping::never);
    CHECK(full <= heuristic);
    CHECK(heuristic <= never);
    CHECK(full < never);
    CHECK(never <= 30);
}

TEST_CASE("generator: invalid requests are rejected with one sentence") {
    HistoryDecoder decoder(10);
    const auto refused = [&](const Request& request, const Options& options, const char* word) {
        const auto output = generate::generate(decoder, request, options);
        REQUIRE(!output.ok());
        CHECK_MESSAGE(output.message().find(word) != std::string::npos, output.message());
    };
    refused({{}, {}}, {}, "no prompt");
    refused({{{1}, {}}, {}}, {}, "prompt 1 is empty");
    refused({{{1, 10}}, {}}, {}, "token 10");
    refused({{{1, -1}}, {}}, {}, "token -1");
    refused({{{1}}, {{"attention_mask", {}}}}, {}, "attention_mask");
    Options o;
    o.beams = 2;
    o.sample = true;
    refused({{{1}}, {}}, o, "beams");
}
