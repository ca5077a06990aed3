#include "infer/passes/likelihood.hpp"

#include "infer/open/model.hpp"

#include "generate/decoder_graph.hpp"
#include "graph/builder.hpp"
#include "graph/passes/fold_cross_entropy.hpp"
#include "graph/passes/id_range.hpp"
#include "graph/passes/simplify.hpp"
#include "graph/reference.hpp"
#include "infer/passes/field_tensors.hpp"
#include "program/estimate.hpp"
#include "program/host_tensor.hpp"
#include "program/program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <utility>

namespace hekla::infer {
namespace {

using graph::Builder;
using graph::Kind;
using graph::Op;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;

constexpr int64_t kTokensOfPass = 1024; // of a pass, about
constexpr int64_t kRowsOfPass = 64;     // of a pass
constexpr std::size_t kPrograms = 64;   // that are kept
constexpr int64_t kUnscored = -100;
constexpr int64_t kFoldedBytes = int64_t{32} << 20; // logits that are never stored as a whole
const std::string kLabels = "likelihood.labels", kLogProbability = "log_probability", kBest = "best", kValues = "value",
                  kEntropy = "entropy";

// Returns the shortest length of 8, 12, 16, 24, 32, 48, ... that holds `length`.
int64_t padded_length(int64_t length) {
    int64_t padded = 8;
    while (padded < length) padded = (padded & (padded - 1)) == 0 ? padded / 2 * 3 : padded / 3 * 4;
    return padded;
}

// Returns the largest n from 1 to `wanted` that `check` accepts, if it accepts all below it; the error for 1 otherwise.
Result<int64_t> longest_of(int64_t wanted, const std::function<Status(int64_t)>& check) {
    if (check(wanted).ok()) return wanted;
    HK_TRY(check(1));
    int64_t fits = 1, too_long = wanted;
    while (too_long - fits > 1) {
        const int64_t middle = fits + (too_long - fits) / 2;
        (check(middle).ok() ? fits : too_long) = middle;
    }
    return fits;
}

// The positions that config.json names; models with relative positions would take more than they were trained for.
int64_t configured_positions(const nlohmann::json& config, int64_t wanted) {
    for (const char* key : {"n_positions", "max_position_embeddings", "n_ctx"})
        if (const auto value = config.find(key); value != config.end() && value->is_number_integer() && *value > 0)
            return std::min(wanted, value->get<int64_t>());
    return wanted;
}

// Returns whether every attention and every recurrent layer reads the tokens before a position only.
bool is_causal(const graph::Graph& graph) {
    return std::ranges::none_of(graph.nodes, [](const graph::Node& node) {
        if (node.op == Op::attention) return node.integer("causal") == 0;
        return (node.op == Op::gru || node.op == Op::lstm) && node.integer("reverse") != 0;
    });
}

} // namespace

bool RowLikelihood::all_greedy() const {
    return std::ranges::all_of(greedy, [](uint8_t one) { return one != 0; });
}

Network network_of(const Model& model) {
    return {model.composition.get(), model.runtime, model.store.get(), &model.parameters};
}

struct Likelihood::State {
    State(const Network& of, LikelihoodOptions given, const generate::DecoderGraphs& decoder)
        : network(of), options(std::move(given)), graphs(decoder) {}

    // The lengths of a pass. Rows of one shape share passes.
    struct PassShape {
        int64_t source = 0; // of the encoder; 0: none
        int64_t length = 0;
        bool operator<(const PassShape& other) const {
            return std::tie(source, length) < std::tie(other.source, other.length);
        }
        int64_t rows() const { // a power of two
            const int64_t fit = std::clamp<int64_t>(kTokensOfPass / (source + length), 1, kRowsOfPass);
            return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(fit)));
        }
    };

    using Outputs = std::map<std::string, Tensor>; // of output_names()

    Network network;
    LikelihoodOptions options;
    generate::DecoderGraphs graphs;
    bool pads_sources = false;                                // the encoder reads a mask
    int32_t decoder_start = 0;                                // of an encoder-decoder
    int64_t ids = 0, source_ids = 0;                          // of the tables that ids are looked up in; 0: in none
    std::map<int64_t, int64_t> longest_rows, longest_sources; // by the length that was wanted
    std::map<PassShape, std::unique_ptr<program::Program>> programs;

    bool encodes() const { return graphs.encoder_decoder(); }
    std::vector<std::string> output_names() const {
        std::vector<std::string> names{kLogProbability, kBest};
        if (!options.values.empty()) names.push_back(kValues);
        if (options.entropies) names.push_back(kEntropy);
        return names;
    }
    Tensors fields_of(const PassShape& shape, int64_t rows) const;
    Result<graph::Graph> graph_of(const Tensors& fields) const;
    Result<int64_t> longest(bool source, int64_t wanted);
    program::CompileOptions compile_options() const;
    Result<program::Program*> program_of(const PassShape& shape, const Tensors& fields);
    Tensors filled(const PassShape& shape, int64_t rows, std::span<const std::size_t> chosen,
                   std::span<const LikelihoodRow> all, std::span<const RowLikelihood> results) const;
    Result<Outputs> compute(const PassShape& shape, const Tensors& fields);
    Status check(const LikelihoodRow& row, const std::string& name) const;
    Status score(const PassShape& shape, int64_t rows, std::span<const std::size_t> chosen,
                 std::span<const LikelihoodRow> all, std::vector<RowLikelihood>& results);
};

Likelihood::Likelihood(std::unique_ptr<State> state) : state_(std::move(state)) {}
Likelihood::~Likelihood() = default;

bool Likelihood::encoder_decoder() const { return state_->encodes(); }

Result<int64_t> Likelihood::longest(int64_t wanted) { return state_->longest(false, wanted); }

Result<std::unique_ptr<Likelihood>> Likelihood::create(const Network& network, LikelihoodOptions options) {
    if (!std::isfinite(options.temperature) || options.temperature <= 0.0)
        return invalid_argument(fmt::format("temperature is {}, expected a number above 0", options.temperature));
    HK_ASSIGN(const generate::DecoderGraphs graphs, generate::DecoderGraphs::create(*network.composition));
    if (graphs.virtual_tokens() > 0)
        return unsupported(
            "the likelihood of texts is not computed for an adapter with virtual tokens: use another kind "
            "of adapter, or none");
    auto state = std::make_unique<State>(network, std::move(options), graphs);
    const bool encodes = state->encodes();
    if (encodes) {
        HK_ASSIGN(const generate::Options generation,
                  generate::options_from(network.composition->config(), nlohmann::json::object(), 0));
        if (!generation.decoder_start)
            return invalid_argument("an encoder-decoder needs decoder_start_token_id in its config.json to begin with");
        state->decoder_start = *generation.decoder_start;
    }
    HK_ASSIGN(const graph::Graph graph, state->graph_of(state->fields_of({encodes ? 1 : 0, 1}, 1)));
    if (!encodes && !is_causal(graph))
        return unsupported(
            "this model reads the tokens after a position too, so it gives no likelihood of a text: use a "
            "language model that was trained to predict the next token");
    state->pads_sources = graph.find_leaf(Op::input, "attention_mask") != graph::kNone;
    state->source_ids = graph::id_range(graph, "input_ids");
    state->ids = encodes ? graph::id_range(graph, "decoder_input_ids") : state->source_ids;
    return std::unique_ptr<Likelihood>(new Likelihood(std::move(state)));
}

Tensors Likelihood::State::fields_of(const PassShape& shape, int64_t rows) const {
    Tensors fields;
    fields[encodes() ? "decoder_input_ids" : "input_ids"] = integers(rows, shape.length, 0);
    if (encodes()) {
        fields["input_ids"] = integers(rows, shape.source, 0);
        fields["attention_mask"] = integers(rows, shape.source, 0);
    } else if (options.both_sides) {
        fields["prefix_length"] = {Kind::int32, Shape{rows}, std::vector<double>(static_cast<std::size_t>(rows), 1.0)};
    }
    return fields;
}

Result<graph::Graph> Likelihood::State::graph_of(const Tensors& fields) const {
    Tensors of_model = fields;
    of_model.erase(kLabels);
    std::vector<std::string> ports{"logits"};
    if (!options.values.empty()) ports.push_back(options.values);
    HK_ASSIGN(graph::Graph graph, network.composition->build(HK_MODE_EVALUATE, described(of_model), ports));
    const ValueId logits = graph.outputs.at("logits");
    const ValueId values = options.values.empty() ? graph::kNone : graph.outputs.at(options.values);
    const Shape rows = fields.at(encodes() ? "decoder_input_ids" : "input_ids").shape, shape = graph.shape(logits);
    if (shape.rank() != 3 || shape[0] != rows[0] || shape[1] != rows[1])
        return unsupported(fmt::format("the likelihood of tokens needs logits [{}, {}, vocabulary]; the head's are {}",
                                       rows[0], rows[1], shape.text()));
    if (values != graph::kNone && graph.shape(values) != rows)
        return unsupported(fmt::format("the values of tokens need a port '{}' {}; the head's is {}", options.values,
                                       rows.text(), graph.shape(values).text()));
    graph.outputs.clear();
    Builder b(std::move(graph));
    ValueId scaled = logits;
    if (options.temperature != 1.0) scaled = b(Op::div, {logits, b.scalar(options.temperature)});
    const ValueId loss =
        b(Op::cross_entropy, {scaled, b.input(kLabels, Kind::int32, rows)}, {{"ignore_index", kUnscored}});
    if (b.ok()) {
        b.output(kLogProbability, b(Op::neg, {loss}));
        b.output(kBest, b(Op::argmax, {scaled}));
        if (values != graph::kNone) b.output(kValues, values);
        if (options.entropies) {
            const ValueId logs = b(Op::log_softmax, {scaled});
            const ValueId sum =
                b(Op::sum, {b(Op::mul, {b(Op::exp, {logs}), logs})}, {{"axes", std::vector<int64_t>{2}}});
            b.output(kEntropy, b(Op::neg, {sum}));
        }
    }
    HK_ASSIGN(graph, b.finish());
    // Chunks of equally many rows, so that the same kernels compute each.
    int64_t rows_of_chunk = rows[0];
    while (rows_of_chunk > 1 && rows_of_chunk * rows[1] * shape[2] * 4 > kFoldedBytes) rows_of_chunk /= 2;
    const int64_t chunk = rows[0] > 1 ? rows_of_chunk * rows[1] : 0;
    HK_ASSIGN(graph, graph::fold_cross_entropy(graph, {.least_bytes = kFoldedBytes, .chunk = chunk}));
    return graph::simplify(graph);
}

Result<int64_t> Likelihood::State::longest(bool source, int64_t wanted) {
    std::map<int64_t, int64_t>& known = source ? longest_sources : longest_rows;
    if (const auto found = known.find(wanted); found != known.end()) return found->second;
    const int64_t most = configured_positions(network.composition->config(), wanted);
    HK_ASSIGN(const int64_t longest, longest_of(most, [&](int64_t length) {
                  const PassShape shape = source      ? PassShape{length, 1}
                                          : encodes() ? PassShape{1, length}
                                                      : PassShape{0, length};
                  return network.composition->check(HK_MODE_EVALUATE, described(fields_of(shape, 1)));
              }));
    known[wanted] = longest;
    return longest;
}

program::CompileOptions Likelihood::State::compile_options() const {
    program::CompileOptions compile;
    compile.gradients = program::Gradients::ignore;
    compile.outputs = output_names();
    compile.equal_rows = true;
    return compile;
}

Status Likelihood::estimate(program::Estimator& estimator, const plugin::Composition& composition,
                            LikelihoodOptions options, int64_t length) {
    HK_ASSIGN(const generate::DecoderGraphs graphs, generate::DecoderGraphs::create(composition));
    State state({&composition, nullptr, nullptr, nullptr}, std::move(options), graphs);
    HK_ASSIGN(const int64_t longest, state.longest(false, padded_length(length)));
    const State::PassShape shape{graphs.encoder_decoder() ? longest : 0, longest};
    HK_ASSIGN(const graph::Graph graph, state.graph_of(state.fields_of(shape, shape.rows())));
    return estimator.add(graph, state.compile_options(), 0.0).status();
}

Result<program::Program*> Likelihood::State::program_of(const PassShape& shape, const Tensors& fields) {
    if (const auto found = programs.find(shape); found != programs.end()) return found->second.get();
    if (programs.size() == kPrograms) programs.clear(); // an encoder without a mask has one per length
    HK_ASSIGN(const graph::Graph graph, graph_of(fields));
    HK_ASSIGN(std::unique_ptr<program::Program> program,
              program::Program::compile(*network.runtime, graph, *network.store, compile_options()));
    return programs.emplace(shape, std::move(program)).first->second.get();
}

Status Likelihood::State::check(const LikelihoodRow& row, const std::string& name) const {
    if (row.from >= row.ids.size())
        return invalid_argument(fmt::format("{} has {} tokens and is scored from token {} on: nothing to score", name,
                                            row.ids.size(), row.from + 1));
    if (!encodes() && row.from == 0)
        return invalid_argument(
            fmt::format("{} is scored from its first token on: a language model needs a token before it", name));
    if (encodes() && row.source.empty()) return invalid_argument(fmt::format("{} has no text for the encoder", name));
    const auto outside = [](const std::vector<int32_t>& all, int64_t range) {
        return std::ranges::find_if(all, [&](int32_t id) { return id < 0 || (range > 0 && id >= range); });
    };
    for (const auto& [all, range] : {std::pair(&row.ids, ids), std::pair(&row.source, source_ids)})
        if (const auto bad = outside(*all, range); bad != all->end())
            return invalid_argument(fmt::format("{}: token {} is {}, expected a token id of the model, 0 to {}", name,
                                                bad - all->begin() + 1, *bad, range - 1));
    return {};
}

Tensors Likelihood::State::filled(const PassShape& shape, int64_t rows, std::span<const std::size_t> chosen,
                                  std::span<const LikelihoodRow> all, std::span<const RowLikelihood> results) const {
    Tensors fields = fields_of(shape, rows);
    Tensor labels = integers(rows, shape.length, kUnscored);
    Tensor& ids = fields.at(encodes() ? "decoder_input_ids" : "input_ids");
    for (std::size_t r = 0; r < chosen.size(); ++r) {
        const LikelihoodRow& row = all[chosen[r]];
        const std::size_t cut = results[chosen[r]].cut, first = encodes() ? 0 : cut + 1;
        // A position holds the token before the one that is scored there.
        for (std::size_t t = first; t < row.ids.size(); ++t) {
            const std::size_t at = r * static_cast<std::size_t>(shape.length) + t - first;
            ids.data[at] = t > 0 ? row.ids[t - 1] : decoder_start;
            if (t >= row.from) labels.data[at] = row.ids[t];
        }
        if (!encodes()) {
            if (options.both_sides) fields.at("prefix_length").data[r] = static_cast<double>(row.from - cut);
            continue;
        }
        for (std::size_t t = cut; t < row.source.size(); ++t) {
            const std::size_t at = r * static_cast<std::size_t>(shape.source) + t - cut;
            fields.at("input_ids").data[at] = row.source[t];
            fields.at("attention_mask").data[at] = 1.0;
        }
    }
    fields[kLabels] = std::move(labels);
    return fields;
}

Result<Likelihood::State::Outputs> Likelihood::State::compute(const PassShape& shape, const Tensors& fields) {
    if (network.runtime == nullptr) { // the graph is not kept: rows are not padded, so that lengths rarely repeat
        HK_ASSIGN(const graph::Graph graph, graph_of(fields));
        graph::Feeds feeds;
        feeds.fields = fields;
        feeds.parameters = *network.parameters;
        feeds.buffers = *network.parameters;
        std::vector<ValueId> wanted;
        for (const std::string& name : output_names()) wanted.push_back(graph.outputs.at(name));
        HK_ASSIGN(std::vector<Tensor> values, graph::evaluate(graph, feeds, wanted));
        Outputs outputs;
        for (std::size_t i = 0; i < wanted.size(); ++i) outputs.emplace(output_names()[i], std::move(values[i]));
        return outputs;
    }
    HK_ASSIGN(program::Program * program, program_of(shape, fields));
    for (const auto& [name, tensor] : fields)
        if (program->has_input(name)) HK_TRY(program->set_input(name, program::bytes_of(tensor)));
    HK_TRY(program->run());
    Outputs outputs;
    for (const std::string& name : output_names()) {
        HK_ASSIGN(const program::HostTensor values, program->read_output(name));
        outputs.emplace(name, program::tensor_of(values));
    }
    return outputs;
}

Status Likelihood::State::score(const PassShape& shape, int64_t rows, std::span<const std::size_t> chosen,
                                std::span<const LikelihoodRow> all, std::vector<RowLikelihood>& results) {
    HK_ASSIGN(const Outputs outputs, compute(shape, filled(shape, rows, chosen, all, results)));
    for (std::size_t r = 0; r < chosen.size(); ++r) {
        const LikelihoodRow& row = all[chosen[r]];
        RowLikelihood& result = results[chosen[r]];
        const std::size_t first = encodes() ? 0 : result.cut + 1;
        for (std::size_t t = row.from; t < row.ids.size(); ++t) {
            const std::size_t at = r * static_cast<std::size_t>(shape.length) + t - first;
            const double value = outputs.at(kLogProbability).data[at];
            result.log_probabilities.push_back(static_cast<float>(value));
            result.greedy.push_back(outputs.at(kBest).data[at] == row.ids[t] ? 1 : 0);
            if (!options.values.empty()) result.values.push_back(static_cast<float>(outputs.at(kValues).data[at]));
            if (options.entropies) result.entropies.push_back(static_cast<float>(outputs.at(kEntropy).data[at]));
            result.sum += value;
        }
    }
    return {};
}

Result<std::vector<RowLikelihood>> Likelihood::run(std::span<const LikelihoodRow> rows,
                                                   const std::function<std::string(std::size_t)>& name) {
    State& s = *state_;
    std::vector<RowLikelihood> results(rows.size());
    if (rows.empty()) return results;
    int64_t longest_row = 1, longest_source = 1;
    for (const LikelihoodRow& row : rows) {
        longest_row = std::max(longest_row, static_cast<int64_t>(row.ids.size()));
        longest_source = std::max(longest_source, static_cast<int64_t>(row.source.size()));
    }
    // Those of the longest padded row, so that a shorter row is padded to the same length in any company.
    HK_ASSIGN(const int64_t positions, s.longest(false, padded_length(longest_row)));
    int64_t source_positions = 0;
    if (s.encodes()) { HK_ASSIGN(source_positions, s.longest(true, padded_length(longest_source))); }
    const auto name_of = [&](std::size_t i) { return name ? name(i) : fmt::format("row {}", i + 1); };
    std::map<State::PassShape, std::vector<std::size_t>> by_shape;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        HK_TRY(s.check(rows[i], name_of(i)));
        const std::size_t before = s.encodes() ? 0 : 1;
        const auto fed = static_cast<int64_t>(rows[i].ids.size() - before);
        const auto scored = static_cast<int64_t>(rows[i].ids.size() - rows[i].from);
        const bool too_long = s.encodes() ? fed > positions : scored > positions;
        if (too_long)
            return invalid_argument(fmt::format("{}: {} tokens to score exceed the model's {} positions; score the "
                                                "text in parts",
                                                name_of(i), scored, positions));
        State::PassShape shape{0, std::min(fed, positions)};
        if (s.encodes()) {
            const auto source = static_cast<int64_t>(rows[i].source.size());
            shape.source = std::min(source, source_positions);
            results[i].cut = static_cast<std::size_t>(source - shape.source);
        } else {
            results[i].cut = static_cast<std::size_t>(fed - shape.length);
        }
        if (s.network.runtime != nullptr) {
            shape.length = std::min(padded_length(shape.length), positions);
            if (s.pads_sources) shape.source = std::min(padded_length(shape.source), source_positions);
        }
        by_shape[shape].push_back(i);
    }
    std::size_t done = 0;
    for (const auto& [shape, members] : by_shape) {
        const int64_t at_once = s.network.runtime != nullptr ? shape.rows() : 1;
        for (std::size_t begin = 0; begin < members.size();) {
            HK_TRY(s.options.stop.check_now("scoring rows"));
            const std::size_t count = std::min(static_cast<std::size_t>(at_once), members.size() - begin);
            HK_TRY(s.score(shape, at_once, std::span(members).subspan(begin, count), rows, results));
            begin += count;
            done += count;
            if (s.options.progress) s.options.progress(done, rows.size());
        }
    }
    return results;
}

} // namespace hekla::infer
