#include "generate/decoder_graph.hpp"

#include "graph/passes/decode_mode.hpp"
#include "graph/rewrite.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace hekla::generate {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Kind;
using graph::kNone;
using graph::Node;
using graph::Op;
using graph::Shape;
using graph::ValueId;

constexpr int64_t kChunks[] = {1, 16, 128};
constexpr const char* kLogits = "logits";
const std::string kPorts[] = {kLogits};

// Selects one position of every row, as early in the graph as the operations after it allow.
class LastToken {
public:
    LastToken(Builder& builder, ValueId index, int64_t batch, int64_t length)
        : b_(builder), index_(index), batch_(batch), length_(length) {}

    ValueId take(ValueId value) {
        const Node node = b_.graph().producer(value); // a copy: emitting moves nodes
        if (node.op == Op::linear && is_rows(node.inputs[0])) {
            std::vector<ValueId> inputs = node.inputs;
            inputs[0] = take(inputs[0]);
            return again(node, inputs);
        }
        if (graph::is_pointwise(node.op) && node.op != Op::dropout && pointwise_by_rows(node)) {
            std::vector<ValueId> inputs = node.inputs;
            for (ValueId& input : inputs)
                if (is_rows(input)) input = take(input);
            return again(node, inputs);
        }
        return b_(Op::gather, {value, index_}, {{"batch_dimensions", int64_t{1}}});
    }

private:
    bool is_rows(ValueId value) const {
        if (value == kNone) return false;
        const Shape& s = b_.shape(value);
        return s.rank() == 3 && s[0] == batch_ && s[1] == length_;
    }
    // Returns whether every input has one value per row, or is the same for all positions of a row.
    bool pointwise_by_rows(const Node& node) const {
        return std::ranges::all_of(node.inputs, [&](ValueId value) {
            if (value == kNone || is_rows(value)) return true;
            const Shape& s = b_.shape(value);
            return s.rank() < 2 || s[-2] == 1;
        });
    }
    ValueId again(const Node& node, std::span<const ValueId> inputs) {
        Node copy = node;
        copy.inputs.assign(inputs.begin(), inputs.end());
        std::vector<ValueId> outputs;
        graph::copy_node(b_, copy, outputs);
        return outputs.empty() ? kNone : outputs[0];
    }

    Builder& b_;
    ValueId index_;
    int64_t batch_, length_;
};

} // namespace

Result<Graph> last_token_only(Graph graph) {
    const auto found = graph.outputs.find(kLogits);
    if (found == graph.outputs.end()) return invalid_argument("the graph has no output 'logits'");
    const ValueId logits = found->second;
    const Shape shape = graph.shape(logits);
    if (shape.rank() != 3)
        return unsupported(
            fmt::format("generation needs logits [rows, tokens, vocabulary]; the head's are {}", shape.text()));
    if (shape[1] == 1) return graph;
    Builder b(std::move(graph));
    const ValueId count = b.input("decode.count", Kind::int32, Shape{shape[0]});
    const ValueId last =
        b(Op::maximum, {b(Op::sub, {count, b.fill(Kind::int32, Shape{}, 1)}), b.fill(Kind::int32, Shape{}, 0)});
    const ValueId index = b(Op::reshape, {last}, {{"shape", std::vector<int64_t>{shape[0], 1}}});
    if (b.ok()) b.output(kLogits, LastToken(b, index, shape[0], shape[1]).take(logits));
    HK_ASSIGN(const Graph result, b.finish());
    return graph::prune(result);
}

graph::Tensor repeat_rows(const graph::Tensor& tensor, int64_t repeats) {
    if (repeats == 1 || tensor.shape.rank() == 0) return tensor;
    graph::Tensor result = tensor;
    result.shape[0] *= repeats;
    result.data.clear();
    result.data.reserve(tensor.data.size() * static_cast<std::size_t>(repeats));
    const auto rows = static_cast<std::size_t>(tensor.shape[0]);
    const std::size_t size = rows == 0 ? 0 : tensor.data.size() / rows;
    for (std::size_t row = 0; row < rows; ++row)
        for (int64_t k = 0; k < repeats; ++k)
            result.data.insert(result.data.end(), tensor.data.begin() + static_cast<std::ptrdiff_t>(row * size),
                               tensor.data.begin() + static_cast<std::ptrdiff_t>((row + 1) * size));
    return result;
}

void copy_rows(const graph::Tensor& from, graph::Tensor& to, std::span<const std::size_t> rows, int64_t repeats) {
    const std::size_t size = to.data.size() / static_cast<std::size_t>(to.shape[0]) * static_cast<std::size_t>(repeats);
    for (const std::size_t row : rows)
        std::copy_n(from.data.begin() + static_cast<std::ptrdiff_t>(row * size), size,
                    to.data.begin() + static_cast<std::ptrdiff_t>(row * size));
}

int64_t capacity_for(int64_t length) {
    int64_t capacity = 16;
    while (capacity < length) capacity *= 2;
    return capacity;
}

std::vector<plugin::BatchField> DecoderGraphs::fields(int64_t rows, int64_t length, const Fields& sources) const {
    std::vector<plugin::BatchField> result;
    for (const auto& [name, tensor] : sources) {
        Shape shape = tensor.shape;
        if (shape.rank() > 0) shape[0] = rows;
        result.push_back({name, tensor.kind, shape});
    }
    result.push_back({token_field(), Kind::int32, Shape{rows, length}});
    return result;
}

Result<DecoderGraphs> DecoderGraphs::create(const plugin::Composition& composition) {
    DecoderGraphs graphs(composition);
    // Only an encoder-decoder reads the decoder's ids when both fields are given.
    const plugin::BatchField both[] = {{"input_ids", Kind::int32, Shape{1, 1}},
                                       {"decoder_input_ids", Kind::int32, Shape{1, 1}}};
    constexpr int64_t kCapacity = 16; // of a graph that is only looked at
    HK_ASSIGN(const Graph described, composition.build(HK_MODE_DECODE, both, kPorts, false, -1, kCapacity));
    HK_ASSIGN(const Graph turn, graph::decode_graph(described, kCapacity));
    graphs.encoder_decoder_ = turn.find_leaf(Op::input, "decoder_input_ids") != kNone;
    graphs.recurrent_ =
        std::ranges::any_of(turn.outputs, [](const auto& output) { return output.first.starts_with("state."); });
    const bool cached = turn.find_leaf(Op::input, "decode.start") != kNone;
    if (!cached && !graphs.recurrent_)
        return unsupported(
            "this model has neither attention with a cache nor a recurrent state: it cannot generate token "
            "by token");
    return graphs;
}

Result<Graph> DecoderGraphs::turn(int64_t rows, int64_t chunk, int64_t capacity, const Fields& sources,
                                  StepKind kind) const {
    HK_ASSIGN(const Graph described,
              composition_->build(HK_MODE_DECODE, fields(rows, chunk, sources), kPorts, false, -1, capacity));
    HK_ASSIGN(Graph turn, graph::decode_graph(described, capacity));
    for (graph::Node& node : turn.nodes) {
        if (node.op != Op::attention_cached) continue;
        if (kind == StepKind::both_sides) node.set("causal", int64_t{0});
        if (kind == StepKind::first) node.set("first", int64_t{1});
    }
    return last_token_only(std::move(turn));
}

Result<Graph> DecoderGraphs::encode(int64_t rows, const Fields& sources) const {
    HK_ASSIGN(const Graph described, composition_->build(HK_MODE_ENCODE, fields(rows, 1, sources)));
    return graph::encode_graph(described);
}

Status DecoderGraphs::check_length(int64_t length, const Fields& sources) const {
    // Rows of a decoder contain virtual tokens, which this mode adds.
    return composition_->check(HK_MODE_ENCODE, fields(1, std::max<int64_t>(1, length - virtual_tokens()), sources));
}

Result<int64_t> DecoderGraphs::longest(int64_t length, const Fields& sources) const {
    if (check_length(length, sources).ok()) return length;
    HK_TRY(check_length(1, sources));
    int64_t fits = 1, too_long = length;
    while (too_long - fits > 1) {
        const int64_t middle = fits + (too_long - fits) / 2;
        (check_length(middle, sources).ok() ? fits : too_long) = middle;
    }
    return fits;
}

Result<std::vector<int64_t>> DecoderGraphs::chunks(int64_t capacity, const Fields& sources) const {
    std::vector<int64_t> result;
    for (const int64_t chunk : kChunks) {
        if (chunk > 1 && (recurrent_ || chunk > capacity || !check_length(chunk, sources).ok())) break;
        result.push_back(chunk);
    }
    return result;
}

std::vector<int64_t> DecoderGraphs::first_chunks(int64_t capacity, const Fields& sources) const {
    std::vector<int64_t> result;
    constexpr int64_t kLargest = 512;
    // Multiples of 16, at most a quarter of the power of two below from each other.
    for (int64_t chunk = 16; chunk <= std::min(capacity, kLargest) && !recurrent_;
         chunk += std::max<int64_t>(16, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(chunk))) / 4)) {
        if (!check_length(chunk, sources).ok()) break;
        result.push_back(chunk);
    }
    return result;
}

} // namespace hekla::generate
