#include "generate/decoder_program.hpp"

#include "generate/decoder_graph.hpp"

#include "generate/device_choice.hpp"
#include "generate/virtual_token_decoder.hpp"
#include "program/estimate.hpp"
#include "program/host_tensor.hpp"
#include "program/lowering/choose.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace hekla::generate {
namespace {

namespace kernels = program::kernels::generate;

using graph::Graph;
using graph::kNone;
using graph::Op;
using graph::Tensor;
using program::bytes_of;
using program::HostTensor;
using program::Program;
using program::tensor_of;

// The program of one decoding step. once: "once.NAME" -> state of the store.
struct Turn {
    Graph graph;
    program::CompileOptions options;
};
Result<Turn> describe_turn(const DecoderGraphs& graphs, int64_t rows, int64_t chunk, int64_t capacity,
                           const Fields& sources, const std::map<std::string, std::string>& once,
                           StepKind kind = StepKind::any) {
    Turn turn;
    HK_ASSIGN(turn.graph, graphs.turn(rows, chunk, capacity, sources, kind));
    // Caches of another shape get another name, because a state of the store never changes its size.
    for (graph::Node& node : turn.graph.nodes)
        if (node.op == Op::attention_cached)
            node.set("cache", fmt::format("{}.{}x{}", node.text("cache"), rows, capacity));
    turn.options.gradients = program::Gradients::ignore;
    turn.options.chained = chunk == 1;
    const bool recurrent =
        std::ranges::any_of(turn.graph.outputs, [](const auto& output) { return output.first.starts_with("state."); });
    if (chunk == 1 && !recurrent)
        turn.options.choose = program::ChooseFields{graphs.token_field(), "decode.start", "decode.count"};
    for (const auto& [name, value] : turn.graph.outputs) turn.options.outputs.push_back(name);
    for (const auto& [name, state] : once)
        if (turn.graph.find_leaf(Op::input, name) != kNone) turn.options.state_inputs[name] = state;
    return turn;
}

program::CompileOptions encoder_options(const Graph& graph) {
    program::CompileOptions options;
    options.gradients = program::Gradients::ignore;
    for (const auto& [name, value] : graph.outputs) options.outputs.push_back(name);
    return options;
}

std::string once_state(const std::string& name, const graph::Shape& shape) { return name + shape.text(); }

// Returns the smallest of the sizes that holds `length` tokens, or the largest; 0: none, or one token.
int64_t first_chunk_of(const std::vector<int64_t>& sizes, int64_t length) {
    if (sizes.empty() || length < 2) return 0;
    const auto fits = std::ranges::find_if(sizes, [&](int64_t size) { return size >= length; });
    return fits == sizes.end() ? sizes.back() : *fits;
}

class ProgramDecoder final : public Decoder {
public:
    ProgramDecoder(program::Runtime& runtime, program::ParameterStore& store, DecoderGraphs graphs,
                   const DecoderOptions& options)
        : runtime_(runtime), store_(store), graphs_(graphs), options_(options) {}

    bool encoder_decoder() const override { return graphs_.encoder_decoder(); }
    int64_t vocabulary() const override { return vocabulary_; }
    std::span<const plugin::Invocation> invocations() const override { return graphs_.invocations(); }
    int64_t capacity() const override { return capacity_; }
    const std::vector<int64_t>& chunks() const override { return chunks_; }
    std::pmr::memory_resource* host_memory() const override { return store_.host_memory(); }

    Result<int64_t> longest(const DecodeBatch& session) const override {
        return graphs_.longest(session.length, session.sources);
    }

    Status begin(const DecodeBatch& session) override {
        const int64_t capacity = capacity_for(session.length);
        std::string key = fmt::format("{}x{}", session.rows, capacity);
        for (const auto& [name, tensor] : session.sources) key += fmt::format(" {}{}", name, tensor.shape.text());
        if (key != key_ || session.length > longest_checked_)
            HK_TRY(graphs_.check_length(session.length, session.sources));
        longest_checked_ = key != key_ ? session.length : std::max(longest_checked_, session.length);
        if (key != key_) {
            turns_.clear();
            encoder_.reset();
            prepared_chunk_.reset();
            has_encoder_ = true;
            rows_ = session.rows;
            capacity_ = capacity;
            HK_ASSIGN(chunks_, graphs_.chunks(capacity_, session.sources));
            first_chunks_ = graphs_.first_chunks(capacity_, session.sources);
            key_ = std::move(key);
        }
        prompt_chunk_ = session.prompt_chunk;
        length_ = session.length;
        sources_.clear();
        repeats_ = session.repeats;
        encoder_fields_ = session.sources;
        for (const auto& [name, tensor] : session.sources) sources_[name] = repeat_rows(tensor, repeats_);
        HK_TRY(encode());
        for (auto& [chunk, turn] : turns_) HK_TRY(set_sources(*turn));
        return turn(1, StepKind::any).status();
    }

    Status set_fields(const Fields& fields, std::span<const std::size_t> again) override {
        for (const auto& [name, tensor] : fields) {
            sources_[name] = repeat_rows(tensor, repeats_);
            copy_rows(tensor, encoder_fields_.at(name), again, 1);
        }
        for (auto& [chunk, turn] : turns_) HK_TRY(set_sources(*turn));
        if (again.empty() || !has_encoder_) return {};
        Fields states = states_;
        HK_TRY(encode());
        for (auto& [name, state] : states) copy_rows(states_.at(name), state, again, repeats_);
        states_ = std::move(states);
        return {};
    }

    // Programs of first steps differ by the length of prompts. A session that was prepared has one, for prompts that
    // fill half of it, and compiles none later; an exported model has kernels for those of chunks() only.
    int64_t first_chunk(int64_t length) const override {
        if (store_.kernels() != nullptr) return 0;
        if (!prepared_chunk_) return first_chunk_of(first_chunks_, length);
        return 2 * length >= *prepared_chunk_ ? *prepared_chunk_ : 0;
    }

    Status prepare() override {
        Logits logits(host_memory());
        const std::vector<int32_t> none(static_cast<std::size_t>(rows_), 0);
        std::vector<int32_t> own(static_cast<std::size_t>(rows_ * capacity_));
        for (std::size_t i = 0; i < own.size(); ++i)
            own[i] = static_cast<int32_t>(i / static_cast<std::size_t>(capacity_));
        const auto rehearse = [&](int64_t chunk, StepKind kind) {
            const std::vector<int32_t> tokens(static_cast<std::size_t>(rows_ * chunk), 0);
            return decode({chunk, tokens, none, none, own, {}, kind}, logits);
        };
        if (prompt_chunk_ > 0) {
            HK_TRY(rehearse(1, StepKind::any));
            return rehearse(prompt_chunk_, StepKind::both_sides);
        }
        for (const int64_t chunk : chunks_) HK_TRY(rehearse(chunk, StepKind::any));
        prepared_chunk_ = first_chunk(length_);
        return *prepared_chunk_ > 0 ? rehearse(*prepared_chunk_, StepKind::first) : Status();
    }

    Status decode(const Step& step, Logits& logits) override {
        HK_ASSIGN(Program * program, turn(step.chunk, step.kind));
        HK_TRY(set_step(*program, step));
        if (program->has_input(program::kChooseOptions)) {
            rows_state_.assign(static_cast<std::size_t>(rows_), {});
            HK_TRY(set_choice(*program, {}));
        }
        for (auto& [name, state] : states_) {
            if (!step.parent.empty()) state = gather_rows(state, step.parent);
            HK_TRY(program->set_input(name, bytes_of(state)));
        }
        HK_TRY(program->run());
        logits.resize(static_cast<std::size_t>(rows_ * vocabulary()));
        HK_TRY(program->read_floats("logits", logits));
        for (auto& [name, state] : states_) {
            HK_ASSIGN(const HostTensor next, program->read_output(name));
            keep_state(state, next, step.count);
        }
        return {};
    }

    int64_t steps_at_once(const Options& options) const override {
        const auto found = turns_.find({1, StepKind::any});
        const bool chooses = found != turns_.end() && found->second->has_input(program::kChooseOptions);
        return chooses && device_choice(options) ? int64_t{kernels::kChosenSlots} : 0;
    }

    Status decode_and_choose(const OwnSteps& steps, const Options& options, std::span<int32_t> chosen) override {
        const std::optional<kernels::ChooseOptions> choice = device_choice(options);
        if (!choice || steps.steps < 1 || steps.steps > int64_t{kernels::kChosenSlots})
            return invalid_argument("these tokens cannot be chosen on the device");
        HK_ASSIGN(Program * program, turn(1, StepKind::any));
        HK_TRY(set_step(*program, steps.first));
        rows_state_.assign(static_cast<std::size_t>(rows_), {});
        for (std::size_t row = 0; row < rows_state_.size(); ++row) {
            if (steps.first.count[row] == 0) continue;
            kernels::ChooseRow& state = rows_state_[row];
            state.left = static_cast<uint32_t>(std::min<int64_t>(options.max_new_tokens - steps.made[row], INT32_MAX));
            state.required =
                static_cast<uint32_t>(std::clamp<int64_t>(options.min_new_tokens - steps.made[row], 0, INT32_MAX));
            state.position = static_cast<uint32_t>(steps.position[row]);
        }
        HK_TRY(set_choice(*program, *choice));
        const program::Replay replay{program, {}, static_cast<uint32_t>(steps.steps)};
        HK_TRY(Program::submit(std::span(&replay, 1)));
        HK_ASSIGN(const HostTensor tokens, program->read_output(program::kChosen));
        const auto count = static_cast<std::size_t>(steps.steps);
        for (std::size_t row = 0; row < rows_state_.size(); ++row)
            std::ranges::copy(tokens.ints().subspan(row * kernels::kChosenSlots, count),
                              chosen.subspan(row * count, count).begin());
        return {};
    }

private:
    Status set_step(Program& program, const Step& step) const {
        HK_TRY(program.set_input(graphs_.token_field(), std::as_bytes(step.tokens)));
        const auto set = [&](const char* field, std::span<const int32_t> values) -> Status {
            if (!program.has_input(field)) return {};
            return program.set_input(field, std::as_bytes(values));
        };
        HK_TRY(set("decode.start", step.start));
        HK_TRY(set("decode.count", step.count));
        return set("decode.cache_row", step.cache_row);
    }

    Status set_choice(Program& program, const kernels::ChooseOptions& choice) const {
        HK_TRY(program.set_input(program::kChooseOptions, std::as_bytes(std::span(&choice, 1))));
        return program.set_input(program::kChooseRows, std::as_bytes(std::span(rows_state_)));
    }

    // Runs the encoder and stores its outputs for every step in states of the store, for each row that a source row
    // serves.
    Status encode() {
        if (!has_encoder_) return {};
        if (!encoder_) {
            HK_ASSIGN(const Graph graph, graphs_.encode(rows_ / repeats_, encoder_fields_));
            once_.clear();
            has_encoder_ = !graph.outputs.empty();
            if (!has_encoder_) return {};
            HK_ASSIGN(encoder_, Program::compile(runtime_, graph, store_, encoder_options(graph)));
        }
        for (const auto& [name, tensor] : encoder_fields_)
            if (encoder_->has_input(name)) HK_TRY(encoder_->set_input(name, bytes_of(tensor)));
        HK_TRY(encoder_->run());
        states_.clear();
        for (const std::string& name : encoder_->output_names()) {
            HK_ASSIGN(const HostTensor host, encoder_->read_output(name));
            Tensor tensor = repeat_rows(tensor_of(host), repeats_);
            if (name.starts_with("state.")) {
                states_[name] = std::move(tensor);
                continue;
            }
            const std::string state = once_state(name, tensor.shape);
            const std::vector<std::byte> bytes = bytes_of(tensor);
            HK_TRY(store_.make_state(state, bytes.size()));
            HK_TRY(store_.upload_state(state, bytes));
            once_[name] = state;
        }
        return {};
    }

    Result<Program*> turn(int64_t chunk, StepKind kind) {
        const auto found = turns_.find({chunk, kind});
        if (found != turns_.end()) return found->second.get();
        HK_ASSIGN(Turn turn, describe_turn(graphs_, rows_, chunk, capacity_, sources_, once_, kind));
        turn.options.equal_rows = options_.equal_rows;
        vocabulary_ = turn.graph.shape(turn.graph.outputs.at("logits"))[2];
        HK_ASSIGN(std::unique_ptr<Program> program, Program::compile(runtime_, turn.graph, store_, turn.options));
        HK_TRY(set_sources(*program));
        return turns_.emplace(std::pair(chunk, kind), std::move(program)).first->second.get();
    }

    Status set_sources(Program& program) const {
        for (const auto& [name, tensor] : sources_)
            if (name != graphs_.token_field() && program.has_input(name))
                HK_TRY(program.set_input(name, bytes_of(tensor)));
        return {};
    }

    static Tensor gather_rows(const Tensor& tensor, std::span<const int32_t> rows) {
        Tensor result = tensor;
        const std::size_t size = tensor.data.size() / rows.size();
        for (std::size_t row = 0; row < rows.size(); ++row)
            std::copy_n(tensor.data.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows[row]) * size),
                        size, result.data.begin() + static_cast<std::ptrdiff_t>(row * size));
        return result;
    }

    // Rows without tokens in this step keep their state.
    static void keep_state(Tensor& state, const HostTensor& next, std::span<const int32_t> count) {
        const Tensor values = tensor_of(next);
        const std::size_t size = values.data.size() / count.size();
        for (std::size_t row = 0; row < count.size(); ++row)
            if (count[row] > 0)
                std::copy_n(values.data.begin() + static_cast<std::ptrdiff_t>(row * size), size,
                            state.data.begin() + static_cast<std::ptrdiff_t>(row * size));
    }

    program::Runtime& runtime_;
    program::ParameterStore& store_;
    DecoderGraphs graphs_;
    DecoderOptions options_;
    std::string key_;                         // identifies what the programs were created for
    Fields encoder_fields_;                   // DecodeBatch::sources, for the encoder
    Fields sources_;                          // the same for every row, for steps
    Fields states_;                           // recurrent, "state.NAME"
    std::map<std::string, std::string> once_; // "once.NAME" -> state of the store
    bool has_encoder_ = true;                 // false: no value is computed once before the steps
    std::unique_ptr<Program> encoder_;
    std::map<std::pair<int64_t, StepKind>, std::unique_ptr<Program>> turns_; // by chunk
    std::vector<int64_t> chunks_, first_chunks_;
    std::optional<int64_t> prepared_chunk_; // of steps of StepKind::first, after prepare()
    std::vector<kernels::ChooseRow> rows_state_;
    int64_t rows_ = 0, capacity_ = 0, vocabulary_ = 0, prompt_chunk_ = 0;
    int64_t repeats_ = 1;         // of the batch
    int64_t length_ = 0;          // of the batch
    int64_t longest_checked_ = 0; // length that the model supports, with key_
};

} // namespace

Status estimate_decoder(program::Estimator& estimator, const plugin::Composition& composition,
                        const DecodeBatch& session, bool first_steps) {
    HK_ASSIGN(const DecoderGraphs graphs, DecoderGraphs::create(composition));
    const int64_t length = session.length + graphs.virtual_tokens();
    HK_TRY(graphs.check_length(length, session.sources));
    const int64_t capacity = capacity_for(length);
    HK_ASSIGN(const std::vector<int64_t> chunks, graphs.chunks(capacity, session.sources));
    HK_ASSIGN(const Graph encoder, graphs.encode(session.rows / session.repeats, session.sources));
    std::map<std::string, std::string> once;
    if (!encoder.outputs.empty()) HK_TRY(estimator.add(encoder, encoder_options(encoder), 0.0).status());
    for (const auto& [name, value] : encoder.outputs) {
        graph::Shape shape = encoder.shape(value);
        if (shape.rank() > 0) shape[0] *= session.repeats;
        if (!name.starts_with("state.")) once[name] = once_state(name, shape);
    }
    Fields sources;
    for (const auto& [name, tensor] : session.sources) sources[name] = repeat_rows(tensor, session.repeats);
    const auto add = [&](int64_t chunk, StepKind kind) -> Status {
        HK_ASSIGN(const Turn turn, describe_turn(graphs, session.rows, chunk, capacity, sources, once, kind));
        return estimator.add(turn.graph, turn.options, chunk == 1 ? 1.0 : 0.0).status();
    };
    if (session.prompt_chunk > 0) {
        HK_TRY(add(1, StepKind::any));
        return session.prompt_chunk > 1 ? add(session.prompt_chunk, StepKind::both_sides) : Status();
    }
    for (const int64_t chunk : chunks) HK_TRY(add(chunk, StepKind::any));
    if (!first_steps) return {};
    if (const int64_t first = first_chunk_of(graphs.first_chunks(capacity, sources), session.length); first > 0)
        HK_TRY(add(first, StepKind::first));
    return {};
}

Status estimate_recorded(program::Estimator& estimator, const plugin::Composition& composition,
                         const RecordedCase& recorded) {
    HK_ASSIGN(const DecoderGraphs graphs, DecoderGraphs::create(composition));
    DecodeBatch batch;
    batch.rows = static_cast<int64_t>(recorded.prompts.size());
    std::size_t longest = 0;
    for (const std::vector<int32_t>& row : recorded.prompts) longest = std::max(longest, row.size());
    if (graphs.encoder_decoder()) {
        batch.sources = recorded.fields;
        const graph::Shape shape{batch.rows, static_cast<int64_t>(longest)};
        batch.sources["input_ids"] = {graph::Kind::int32, shape,
                                      std::vector<double>(static_cast<std::size_t>(shape.elements()))};
    }
    for (const std::vector<int32_t>& row : recorded.expected) longest = std::max(longest, row.size());
    batch.length = static_cast<int64_t>(longest);
    return estimate_decoder(estimator, composition, batch);
}

Result<std::unique_ptr<Decoder>> make_program_decoder(program::Runtime& runtime, program::ParameterStore& store,
                                                      const plugin::Composition& composition,
                                                      const DecoderOptions& options) {
    HK_ASSIGN(DecoderGraphs graphs, DecoderGraphs::create(composition));
    return with_virtual_tokens(std::unique_ptr<Decoder>(new ProgramDecoder(runtime, store, graphs, options)),
                               graphs.virtual_tokens());
}

} // namespace hekla::generate
