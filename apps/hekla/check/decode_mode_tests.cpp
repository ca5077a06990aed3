// Decode mode against the whole row, in float64: a row that is fed in chunks, next to rows of other lengths, must give
// the same logits as when the network reads all of it at once.
#include "check/tests.hpp"

#include "base/philox.hpp"
#include "batch/collate.hpp"
#include "generate/decoder_reference.hpp"
#include "graph/passes/decode_mode.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::check {
namespace {

constexpr double kTolerance = 1e-5; // relative; decoders return logits in float32
constexpr const char* kLogits = "logits";

using Row = std::vector<int32_t>;

graph::Tensor token_tensor(const std::vector<Row>& rows, int64_t length) {
    graph::Tensor tensor{graph::Kind::int32, graph::Shape{static_cast<int64_t>(rows.size()), length}, {}};
    for (const Row& row : rows) {
        tensor.data.insert(tensor.data.end(), row.begin(), row.end());
        tensor.data.resize(tensor.data.size() + static_cast<std::size_t>(length) - row.size(), 0.0);
    }
    return tensor;
}

plugin::BuildRequest logits_request(int32_t mode, const generate::Fields& fields) {
    plugin::BuildRequest request;
    request.mode = mode;
    request.objective = false;
    request.ports = {kLogits};
    for (const auto& [name, tensor] : fields) request.fields.push_back({name, tensor.kind, tensor.shape});
    return request;
}

// One network, its input rows, and the logits of every row when it is read at once.
class DecodeTrial {
public:
    DecodeTrial(Trial& trial, const plugin::Provided& provided, const Small& small)
        : trial_(trial), name_(name_of(provided)), causal_(is_causal(provided, small.spec.config)),
          composition_(*small.composition), length_(small.length) {}

    Status run(const Small& small) {
        HK_ASSIGN(const bool decodes, prepare(small));
        if (!decodes) return {};
        HK_TRY(read_whole_rows());
        HK_ASSIGN(const auto decoder, generate::make_reference_decoder(composition_, feeds_.parameters));
        generate::DecodeBatch batch;
        batch.rows = static_cast<int64_t>(rows_.size());
        batch.length = length_;
        batch.sources = sources_;
        // A state does not know how many tokens of a chunk count, so that only whole chunks are fed with one.
        for (const int64_t chunk : {int64_t{1}, recurrent_ ? int64_t{3} : int64_t{16}, int64_t{7}}) {
            trial_.doing(fmt::format("{}: rows of {} tokens in decode mode, {} at a time", name_, lengths(), chunk));
            HK_TRY(decoder->begin(batch).with_context(fmt::format("{} in decode mode", name_)));
            if (!recurrent_ && std::ranges::find(decoder->chunks(), chunk) == decoder->chunks().end()) continue;
            HK_TRY(compare(*decoder, static_cast<std::size_t>(chunk)));
        }
        return {};
    }

private:
    std::string lengths() const {
        std::vector<std::size_t> all;
        for (const Row& row : rows_) all.push_back(row.size());
        return fmt::format("{}", fmt::join(all, ", "));
    }

    // Returns false and reports the reason for networks without a decode mode.
    Result<bool> prepare(const Small& small) {
        trial_.doing(name_ + ": described for decode mode");
        const graph::Tensor ids = token_tensor({Row{0}}, 1);
        const Result<plugin::Described> described =
            composition_.describe(logits_request(HK_MODE_DECODE, {{"input_ids", ids}, {"decoder_input_ids", ids}}));
        if (!described.ok()) {
            if (described.code() != Code::not_found) return described.status();
            trial_.skip(fmt::format("{}: generates no tokens: {}", name_, described.message()));
            return false;
        }
        Result<graph::Graph> decoding = graph::decode_graph(described->graph, 16);
        if (!decoding.ok() && causal_) return decoding.status().with_context(fmt::format("{} in decode mode", name_));
        const bool encoder_decoder =
            decoding.ok() && decoding->find_leaf(graph::Op::input, "decoder_input_ids") != graph::kNone;
        if (!causal_ && !encoder_decoder) {
            trial_.skip(name_ + ": is not causal by its manifest and has no decoder");
            return false;
        }
        recurrent_ = std::ranges::any_of(decoding->outputs,
                                         [](const auto& output) { return output.first.starts_with("state."); });
        if (!recurrent_ && decoding->find_leaf(graph::Op::input, "decode.start") == graph::kNone) {
            trial_.skip(fmt::format("{}: has neither attention with a cache nor state_read and state_write, and so "
                                    "does not generate token by token",
                                    name_));
            return false;
        }
        const graph::Shape& logits = decoding->shape(decoding->outputs.at(kLogits));
        if (logits.rank() != 3) {
            trial_.skip(fmt::format("{}: its logits are {}, not [rows, tokens, vocabulary]", name_, logits.text()));
            return false;
        }
        if (encoder_decoder) {
            token_field_ = "decoder_input_ids";
            HK_TRY(take_sources(small));
        }
        RandomStream random(trial_.seed(), 17);
        for (const int64_t length : {length_, length_ / 2 + 1, int64_t{5}}) {
            Row& row = rows_.emplace_back();
            for (int64_t i = 0; i < length; ++i)
                row.push_back(static_cast<int32_t>(random.next_below(static_cast<uint64_t>(logits[2]))));
        }
        return true;
    }

    // Reads the encoder's inputs.
    Status take_sources(const Small& small) {
        constexpr std::size_t kRows = 3;
        if (small.examples.size() < kRows) return failed_precondition("the test data has fewer than three examples");
        HK_ASSIGN(const std::vector<data::Field> fields,
                  batch_of(small, std::span(small.examples).first(kRows), kRows, length_, 1));
        for (const data::Field& field : fields)
            if (field.name == "input_ids" || field.name == "attention_mask")
                sources_[field.name] = batch::tensor_of(field);
        return {};
    }

    Status read_whole_rows() {
        generate::Fields fields = sources_;
        fields[token_field_] = token_tensor(rows_, length_);
        HK_ASSIGN(const plugin::Described described, composition_.describe(logits_request(HK_MODE_EVALUATE, fields)));
        feeds_ = feeds_of(described.graph, {}, trial_.seed());
        feeds_.fields = fields;
        HK_ASSIGN(
            std::vector<graph::Tensor> values,
            graph::evaluate(described.graph, feeds_, std::vector<graph::ValueId>{described.graph.outputs.at(kLogits)}));
        whole_ = std::move(values[0]);
        return {};
    }

    // Returns how many tokens of each row the next step takes. With states: whole chunks, then single tokens.
    std::vector<std::size_t> next_counts(const std::vector<std::size_t>& done, std::size_t& chunk) const {
        std::vector<std::size_t> left;
        for (std::size_t row = 0; row < rows_.size(); ++row) left.push_back(rows_[row].size() - done[row]);
        if (!recurrent_) {
            for (std::size_t& count : left) count = std::min(count, chunk);
            return left;
        }
        if (*std::ranges::max_element(left) < chunk) chunk = 1;
        for (std::size_t& count : left) count = count >= chunk ? chunk : 0;
        return left;
    }

    // Feeds all rows, `chunk` tokens of each at a time.
    Status compare(generate::Decoder& decoder, std::size_t chunk) {
        const std::size_t count = rows_.size(), capacity = static_cast<std::size_t>(decoder.capacity());
        const std::string fed = chunk == 1 ? "token by token" : fmt::format("in chunks of {} tokens", chunk);
        std::vector<int32_t> own_cache(count * capacity);
        for (std::size_t i = 0; i < own_cache.size(); ++i) own_cache[i] = static_cast<int32_t>(i / capacity);
        double worst = 0.0;
        std::size_t worst_row = 0, worst_token = 0;
        std::vector<std::size_t> done(count);
        for (;;) {
            const std::vector<std::size_t> taken = next_counts(done, chunk);
            if (*std::ranges::max_element(taken) == 0) break;
            std::vector<int32_t> tokens(count * chunk), starts(count), counts(count);
            for (std::size_t row = 0; row < count; ++row) {
                if (taken[row] == 0) continue;
                starts[row] = static_cast<int32_t>(done[row]);
                counts[row] = static_cast<int32_t>(taken[row]);
                std::copy_n(rows_[row].begin() + static_cast<std::ptrdiff_t>(done[row]), taken[row],
                            tokens.begin() + static_cast<std::ptrdiff_t>(row * chunk));
                done[row] += taken[row];
            }
            generate::Step step;
            step.chunk = static_cast<int64_t>(chunk);
            step.tokens = tokens;
            step.start = starts;
            step.count = counts;
            step.cache_row = own_cache;
            generate::Logits logits;
            HK_TRY(decoder.decode(step, logits).with_context(fmt::format("{} in decode mode", name_)));
            for (std::size_t row = 0; row < count; ++row) {
                if (taken[row] == 0) continue;
                const double difference = distance(logits, row, done[row] - 1);
                if (!(difference > worst)) continue;
                worst = difference;
                worst_row = row;
                worst_token = done[row] - 1;
            }
        }
        if (worst <= kTolerance) return {};
        trial_.fail(fmt::format(
            "{}: fed {} in decode mode, the logits of token {} of a row of {} differ by {:.2g} from those of the whole "
            "row: what a token sees must come from attention with a cache, state_read and state_write, and its place "
            "from positions(), never from the length of the batch's rows",
            name_, fed, worst_token, rows_[worst_row].size(), worst));
        return {};
    }

    double distance(const generate::Logits& logits, std::size_t row, std::size_t token) const {
        const auto vocabulary = static_cast<std::size_t>(whole_.shape[2]);
        const std::size_t from = (row * static_cast<std::size_t>(length_) + token) * vocabulary;
        double worst = 0.0;
        for (std::size_t i = 0; i < vocabulary; ++i) {
            const double expected = whole_.data[from + i], found = static_cast<double>(logits[row * vocabulary + i]);
            const double difference = std::abs(found - expected) / std::max(1.0, std::abs(expected));
            worst = std::isfinite(difference) ? std::max(worst, difference) : 1e300;
        }
        return worst;
    }

    Trial& trial_;
    std::string name_;
    bool causal_;
    bool recurrent_ = false; // with states
    const plugin::Composition& composition_;
    int64_t length_;
    std::string token_field_ = "input_ids";
    std::vector<Row> rows_;
    generate::Fields sources_;
    graph::Feeds feeds_;
    graph::Tensor whole_;
};

} // namespace

Status test_decode_mode(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (provided.interface_id != HK_ARCHITECTURE_INTERFACE) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_TRY(DecodeTrial(trial, provided, small).run(small));
    }
    return {};
}

} // namespace hekla::check
