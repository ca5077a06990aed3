#include "generate/decoder_program.hpp"

#include "program/host_tensor.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::generate {
namespace {

using graph::Graph;
using graph::Kind;
using graph::kNone;
using graph::Op;
using graph::Tensor;
using program::bytes_of;
using program::HostTensor;
using program::Program;
using program::tensor_of;

class ProgramDecoder final : public Decoder {
public:
    ProgramDecoder(program::Runtime& runtime, program::ParameterStore& store, DecoderGraphs graphs,
                   program::CompileOptions options)
        : runtime_(runtime), store_(store), graphs_(std::move(graphs)), options_(std::move(options)) {
        options_.gradients = program::Gradients::ignore;
    }

    bool encoder_decoder() const override { return graphs_.encoder_decoder(); }
    int64_t vocabulary() const override { return vocabulary_; }
    int64_t capacity() const override { return capacity_; }
    const std::vector<int64_t>& chunks() const override { return chunks_; }

    Result<int64_t> longest(const Session& session) const override {
        return graphs_.longest(session.length, session.sources);
    }

    Status begin(const Session& session) override {
        HK_TRY(graphs_.check_length(session.length, session.sources));
        const int64_t capacity = capacity_for(session.length);
        std::string key = fmt::format("{}x{}", session.rows, capacity);
        for (const auto& [name, tensor] : session.sources) key += fmt::format(" {}{}", name, tensor.shape.text());
        if (key != key_) {
            turns_.clear();
            encoder_.reset();
            rows_ = session.rows;
            capacity_ = capacity;
            HK_ASSIGN(chunks_, graphs_.chunks(capacity_, session.sources));
            key_ = std::move(key);
        }
        prompt_chunk_ = session.prompt_chunk;
        sources_.clear();
        for (const auto& [name, tensor] : session.sources) sources_[name] = repeat_rows(tensor, session.repeats);
        HK_TRY(encode(session));
        for (auto& [chunk, turn] : turns_) HK_TRY(set_sources(*turn));
        return turn(1, false).status();
    }

    Status prepare() override {
        std::vector<float> logits;
        const std::vector<int32_t> none(static_cast<std::size_t>(rows_), 0);
        std::vector<int32_t> own(static_cast<std::size_t>(rows_ * capacity_));
        for (std::size_t i = 0; i < own.size(); ++i)
            own[i] = static_cast<int32_t>(i / static_cast<std::size_t>(capacity_));
        const auto rehearse = [&](int64_t chunk, bool both_sides) {
            const std::vector<int32_t> tokens(static_cast<std::size_t>(rows_ * chunk), 0);
            return decode({chunk, tokens, none, none, own, {}, both_sides}, logits);
        };
        if (prompt_chunk_ > 0) {
            HK_TRY(rehearse(1, false));
            return rehearse(prompt_chunk_, true);
        }
        for (const int64_t chunk : chunks_) HK_TRY(rehearse(chunk, false));
        return {};
    }

    Status decode(const Step& step, std::vector<float>& logits) override {
        HK_ASSIGN(Program * program, turn(step.chunk, step.both_sides));
        HK_TRY(program->set_input(graphs_.token_field(), std::as_bytes(step.tokens)));
        const auto set = [&](const char* field, std::span<const int32_t> values) -> Status {
            if (!program->has_input(field)) return {};
            return program->set_input(field, std::as_bytes(values));
        };
        HK_TRY(set("decode.start", step.start));
        HK_TRY(set("decode.count", step.count));
        HK_TRY(set("decode.cache_row", step.cache_row));
        for (auto& [name, state] : states_) {
            if (!step.parent.empty()) state = gather_rows(state, step.parent);
            HK_TRY(program->set_input(name, bytes_of(state)));
        }
        HK_TRY(program->run());
        HK_ASSIGN(const HostTensor scores, program->read_output("logits"));
        logits.assign(scores.floats().begin(), scores.floats().end());
        for (auto& [name, state] : states_) {
            HK_ASSIGN(const HostTensor next, program->read_output(name));
            keep_state(state, next, step.count);
        }
        return {};
    }

private:
    // Runs the encoder: what it hands to every turn goes into states of the store, row by row for each row it serves.
    Status encode(const Session& session) {
        if (!encoder_) {
            HK_ASSIGN(const Graph graph, graphs_.encode(session.rows / session.repeats, session.sources));
            once_.clear();
            if (graph.outputs.empty()) return {};
            program::CompileOptions options = options_;
            options.outputs.clear();
            for (const auto& [name, value] : graph.outputs) options.outputs.push_back(name);
            HK_ASSIGN(encoder_, Program::compile(runtime_, graph, store_, options));
        }
        for (const auto& [name, tensor] : session.sources)
            if (encoder_->has_input(name)) HK_TRY(encoder_->set_input(name, bytes_of(tensor)));
        HK_TRY(encoder_->run());
        states_.clear();
        for (const std::string& name : encoder_->output_names()) {
            HK_ASSIGN(const HostTensor host, encoder_->read_output(name));
            Tensor tensor = repeat_rows(tensor_of(host), session.repeats);
            if (name.starts_with("state.")) {
                states_[name] = std::move(tensor);
                continue;
            }
            const std::string state = name + tensor.shape.text();
            const std::vector<std::byte> bytes = bytes_of(tensor);
            HK_TRY(store_.make_state(state, bytes.size()));
            HK_TRY(store_.upload_state(state, bytes));
            once_[name] = state;
        }
        return {};
    }

    Result<Program*> turn(int64_t chunk, bool both_sides) {
        const auto found = turns_.find({chunk, both_sides});
        if (found != turns_.end()) return found->second.get();
        HK_ASSIGN(Graph graph, graphs_.turn(rows_, chunk, capacity_, sources_, both_sides));
        vocabulary_ = graph.shape(graph.outputs.at("logits"))[2];
        // Caches of another shape are others: a state of the store never changes its size.
        for (graph::Node& node : graph.nodes)
            if (node.op == Op::attention_cached)
                node.set("cache", fmt::format("{}.{}x{}", node.text("cache"), rows_, capacity_));
        program::CompileOptions options = options_;
        options.outputs.clear();
        for (const auto& [name, value] : graph.outputs) options.outputs.push_back(name);
        for (const auto& [name, state] : once_)
            if (graph.find_leaf(Op::input, name) != kNone) options.state_inputs[name] = state;
        HK_ASSIGN(std::unique_ptr<Program> program, Program::compile(runtime_, graph, store_, options));
        HK_TRY(set_sources(*program));
        return turns_.emplace(std::pair(chunk, both_sides), std::move(program)).first->second.get();
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

    // Rows that took no part keep their state.
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
    program::CompileOptions options_;
    std::string key_;                         // what the programs were made for
    Fields sources_;                          // for every row
    Fields states_;                           // recurrent, "state.NAME"
    std::map<std::string, std::string> once_; // "once.NAME" -> state of the store
    std::unique_ptr<Program> encoder_;
    std::map<std::pair<int64_t, bool>, std::unique_ptr<Program>> turns_; // by chunk, and whether it reads both sides
    std::vector<int64_t> chunks_;
    int64_t rows_ = 0, capacity_ = 0, vocabulary_ = 0, prompt_chunk_ = 0;
};

} // namespace

Result<std::unique_ptr<Decoder>> make_program_decoder(program::Runtime& runtime, program::ParameterStore& store,
                                                      const plugin::Composition& composition,
                                                      const program::CompileOptions& options) {
    HK_ASSIGN(DecoderGraphs graphs, DecoderGraphs::create(composition));
    return std::unique_ptr<Decoder>(new ProgramDecoder(runtime, store, std::move(graphs), options));
}

} // namespace hekla::generate
