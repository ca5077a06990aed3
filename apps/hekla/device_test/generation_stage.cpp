// Generates greedily with the cache, and computes the scores of the whole text again without it: they choose the same
// tokens.
#include "device_test/device_facts.hpp"
#include "device_test/test_stages.hpp"
#include "fixture.hpp"
#include "generate/decoder_program.hpp"
#include "generate/generator.hpp"
#include "infer/open/model_tensors.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "verification.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::app {
namespace {

// Scores that differ by less, relative to the largest, may be ordered by rounding.
constexpr double kTie = 1e-5;

struct Recomputed {
    int64_t tokens = 0, equal = 0, ties = 0;
    double seconds = 0; // of generation
};

// Returns the scores [length, vocabulary] of a text, computed in one pass.
Result<program::HostTensor> scores_of(program::Runtime& runtime, program::ParameterStore& store,
                                      const plugin::Composition& composition, const std::vector<int32_t>& ids) {
    const auto length = static_cast<int64_t>(ids.size());
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(1, length));
    const std::vector<std::string> wanted{"logits"};
    HK_ASSIGN(graph::Graph graph, composition.build(HK_MODE_EVALUATE, fields, wanted));
    graph.losses.clear();
    graph.metrics.clear();
    program::CompileOptions options;
    options.outputs = wanted;
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, store, options));
    for (const plugin::BatchField& field : fields) {
        if (!program->has_input(field.name)) continue;
        if (field.name != "input_ids" && field.name != "next_ids")
            return internal_error(fmt::format("the objective has an unexpected field '{}'", field.name));
        HK_TRY(program->set_input(field.name, std::as_bytes(std::span(ids))));
    }
    HK_TRY(program->run());
    return program->read_output(wanted.front());
}

Result<Recomputed> recompute(program::Runtime& runtime, const plugin::Registry& registry,
                             const std::filesystem::path& folder, const Log& log) {
    HK_ASSIGN(const Fixture fixture, read_fixture(registry, folder));
    HK_ASSIGN(const FixtureModel model, describe_fixture(registry, fixture, log));
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(model.graph)));
    HK_TRY(upload(*store, model.parameters));
    HK_TRY(infer::upload_described_buffers(*store, model.graph));
    HK_ASSIGN(const auto decoder, generate::make_program_decoder(runtime, *store, *model.composition));
    constexpr std::size_t kPrompt = 4;
    generate::Options options;
    options.max_new_tokens = 24;
    generate::Request request;
    request.prompts = {{1, 2, 3, 4}};
    HK_ASSIGN(const generate::Output output, generate::generate(*decoder, request, options));
    const std::vector<int32_t>& ids = output.rows[0].ids;
    HK_ASSIGN(const program::HostTensor scores, scores_of(runtime, *store, *model.composition, ids));
    const std::span<const float> all = scores.floats();
    const std::size_t vocabulary = all.size() / ids.size();
    Recomputed made{.seconds = output.statistics.seconds};
    for (std::size_t at = kPrompt; at < ids.size(); ++at) {
        const auto row = all.subspan((at - 1) * vocabulary, vocabulary);
        const auto best = std::ranges::max_element(row);
        const float chosen = row[static_cast<std::size_t>(ids[at])];
        double size = 0;
        for (const float score : row) size = std::max(size, static_cast<double>(std::abs(score)));
        ++made.tokens;
        if (*std::ranges::min_element(row) == *best) continue; // nothing was computed
        if (*best == chosen && std::isfinite(chosen))
            ++made.equal;
        else if (static_cast<double>(*best) - static_cast<double>(chosen) <= kTie * size)
            ++made.ties;
    }
    return made;
}

} // namespace

Result<StageOutcome> generation_stage(const StageInput& input) {
    HK_ASSIGN(const std::filesystem::path packed, packed_fixtures());
    HK_ASSIGN(const auto runtime, stage_runtime(input));
    const plugin::Registry registry = scan_plugins(input.globals);
    StageOutcome outcome;
    int64_t tokens = 0, right = 0;
    for (const char* name : {"gpt2", "llama"}) {
        HK_ASSIGN(const Recomputed made, recompute(*runtime, registry, packed / name, input.globals.log()));
        outcome.result[name] = {{"tokens", made.tokens}, {"equal", made.equal}, {"ties", made.ties}};
        tokens += made.tokens;
        right += made.equal + made.ties;
        if (made.tokens == 0 || made.equal + made.ties < made.tokens)
            outcome.problem = fmt::format("{}: {} of {} tokens are those that the scores without a cache choose", name,
                                          made.equal + made.ties, made.tokens);
    }
    outcome.text = fmt::format("{} of {} greedy tokens are those of a pass without the cache", right, tokens);
    return outcome;
}

} // namespace hekla::app
