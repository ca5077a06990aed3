#include "generate/decoder_reference.hpp"
#include "generate/virtual_token_decoder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::generate {
namespace {

using graph::Graph;
using graph::Kind;
using graph::Shape;
using graph::Tensor;

Tensor integers(const Shape& shape, std::span<const int32_t> values) {
    return {Kind::int32, shape, std::vector<double>(values.begin(), values.end())};
}

class ReferenceDecoder final : public Decoder {
public:
    ReferenceDecoder(DecoderGraphs graphs, const std::map<std::string, Tensor, std::less<>>& weights)
        : graphs_(graphs) {
        feeds_.parameters = weights;
        feeds_.buffers = weights;
    }

    bool encoder_decoder() const override { return graphs_.encoder_decoder(); }
    int64_t vocabulary() const override { return vocabulary_; }
    std::span<const plugin::Invocation> invocations() const override { return graphs_.invocations(); }
    int64_t capacity() const override { return capacity_; }
    const std::vector<int64_t>& chunks() const override { return chunks_; }

    Result<int64_t> longest(const DecodeBatch& session) const override {
        return graphs_.longest(session.length, session.sources);
    }

    Status begin(const DecodeBatch& session) override {
        HK_TRY(graphs_.check_length(session.length, session.sources));
        rows_ = session.rows;
        capacity_ = capacity_for(session.length);
        repeats_ = session.repeats;
        HK_ASSIGN(chunks_, graphs_.chunks(capacity_, session.sources));
        turns_.clear();
        caches_.clear();
        feeds_.fields.clear();
        feeds_.fields = session.sources;
        sources_ = session.sources;
        HK_ASSIGN(const Graph encode, graphs_.encode(rows_ / session.repeats, session.sources));
        std::vector<graph::ValueId> wanted;
        for (const auto& [name, value] : encode.outputs) wanted.push_back(value);
        HK_ASSIGN(std::vector<Tensor> values, graph::evaluate(encode, feeds_, wanted));
        for (auto& [name, tensor] : feeds_.fields) tensor = repeat_rows(tensor, session.repeats);
        std::size_t i = 0;
        for (const auto& [name, value] : encode.outputs)
            feeds_.fields[name] = repeat_rows(values[i++], session.repeats);
        HK_ASSIGN(const Graph* turn, this->turn(1, StepKind::any));
        vocabulary_ = turn->shape(turn->outputs.at("logits"))[2];
        return {};
    }

    Status set_fields(const Fields& fields, std::span<const std::size_t> again) override {
        if (!again.empty()) return Decoder::set_fields(fields, again);
        for (const auto& [name, tensor] : fields) feeds_.fields[name] = repeat_rows(tensor, repeats_);
        return {};
    }

    Status decode(const Step& step, Logits& logits) override {
        HK_ASSIGN(const Graph* turn, this->turn(step.chunk, step.kind));
        feeds_.fields[graphs_.token_field()] = integers(Shape{rows_, step.chunk}, step.tokens);
        feeds_.fields["decode.start"] = integers(Shape{rows_}, step.start);
        feeds_.fields["decode.count"] = integers(Shape{rows_}, step.count);
        feeds_.fields["decode.cache_row"] = integers(Shape{rows_, capacity_}, step.cache_row);
        for (auto& [name, tensor] : feeds_.fields)
            if (name.starts_with("state.") && !step.parent.empty()) tensor = gather_rows(tensor, step.parent);
        std::vector<std::string> names;
        std::vector<graph::ValueId> wanted;
        for (const auto& [name, value] : turn->outputs) {
            names.push_back(name);
            wanted.push_back(value);
        }
        HK_ASSIGN(std::vector<Tensor> values, graph::evaluate(*turn, feeds_, wanted, &caches_));
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (names[i] == "logits")
                logits.assign(values[i].data.begin(), values[i].data.end());
            else if (names[i].starts_with("state."))
                keep_state(feeds_.fields[names[i]], std::move(values[i]), step.count);
        }
        return {};
    }

private:
    Result<const Graph*> turn(int64_t chunk, StepKind kind) {
        auto found = turns_.find({chunk, kind});
        if (found == turns_.end()) {
            HK_ASSIGN(Graph graph, graphs_.turn(rows_, chunk, capacity_, sources_, kind));
            found = turns_.emplace(std::pair(chunk, kind), std::move(graph)).first;
        }
        return &found->second;
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
    static void keep_state(Tensor& state, Tensor next, std::span<const int32_t> count) {
        const std::size_t size = next.data.size() / count.size();
        for (std::size_t row = 0; row < count.size(); ++row)
            if (count[row] > 0)
                std::copy_n(next.data.begin() + static_cast<std::ptrdiff_t>(row * size), size,
                            state.data.begin() + static_cast<std::ptrdiff_t>(row * size));
    }

    DecoderGraphs graphs_;
    graph::Feeds feeds_; // fields: the sources, once.*, state.*, and those of the last step
    Fields sources_;
    std::map<std::string, Tensor> caches_;
    std::map<std::pair<int64_t, StepKind>, Graph> turns_; // by chunk, and whether attention is bidirectional
    std::vector<int64_t> chunks_;
    int64_t rows_ = 0, capacity_ = 0, vocabulary_ = 0, repeats_ = 1;
};

} // namespace

Result<std::unique_ptr<Decoder>> make_reference_decoder(const plugin::Composition& composition,
                                                        const std::map<std::string, Tensor, std::less<>>& weights) {
    HK_ASSIGN(DecoderGraphs graphs, DecoderGraphs::create(composition));
    return with_virtual_tokens(std::unique_ptr<Decoder>(new ReferenceDecoder(graphs, weights)),
                               graphs.virtual_tokens());
}

} // namespace hekla::generate
