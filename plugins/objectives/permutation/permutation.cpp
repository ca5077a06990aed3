// Permutation language modeling (Yang et al. 2019): each row has its own order; chosen tokens are predicted from those
// before them in that order.
#include "block.hpp"
#include "rows.hpp"

using namespace hekla::plugin;

namespace {

constexpr uint64_t kSpanStream = 1, kOrderStream = 2;

class Permutation {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Permutation(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), layout_(c, tokens_, "permutation"), share_(c.real("predicted_share", 1.0 / 6.0)),
          longest_(static_cast<uint64_t>(c.integer("longest_span", 5))) {
        require(share_ > 0.0 && share_ <= 1.0, "predicted_share is not above 0 and up to 1");
    }
    int64_t tokens_per_example(int64_t length) {
        const auto special = static_cast<int64_t>(layout_.special(false));
        require(length > special,
                "rows of " + std::to_string(length) + " tokens have no room for text: all are special tokens");
        return length - special;
    }
    // perm_mask[b, i, j] = 1: i does not attend to j. target_mapping[b, m, j] = 1: prediction m is for token j.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        const int64_t predictions = most(length);
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"perm_mask", HK_KIND_FLOAT32, {batch, length, length}},
                {"target_mapping", HK_KIND_FLOAT32, {batch, predictions, length}},
                {"labels", HK_KIND_INT32, {batch, predictions}}};
    }
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("labels");
        g.loss("permutation", token_loss(logits, labels));
        accuracy_metric(g, "predicted_accuracy", logits, labels);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        const FieldRows<int32_t> labels = fields.ints("labels");
        labels.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) write(fields, row, batch[row], batch.seed());
        fields.ints("input_ids").fill_from(batch.size(), layout_.pad());
    }

private:
    int64_t most(int64_t length) const {
        return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share_ * static_cast<double>(length))));
    }

    void write(const FieldSet& fields, std::size_t row, const Example& example, uint64_t seed) const {
        const Ids text = example.get("text").ids();
        const std::span<int32_t> ids = fields.ints("input_ids")[row];
        const std::size_t length = ids.size(), n = std::min(text.size(), length - layout_.special(false));
        // Tokens, then XLNet's <sep> <cls>, which are never predicted; a short text is at the end of the row.
        const std::size_t begin = length - n - layout_.special(false);
        std::ranges::fill(ids, layout_.pad());
        layout_.write_tokens(ids.subspan(begin), text.first(n));

        // Spans of 1 to longest_ tokens, each inside a window of text 1 / share times as long, until the end of the
        // row.
        Random random = example.random(seed, kSpanStream);
        std::vector<std::size_t> predicted;
        const auto wanted = static_cast<std::size_t>(most(static_cast<int64_t>(length)));
        for (std::size_t at = 0; at < n;) {
            const std::size_t span = 1 + random.below(longest_);
            const auto stretch = std::max(span, static_cast<std::size_t>(static_cast<double>(span) / share_));
            const std::size_t from = at + random.below(stretch - span + 1);
            for (std::size_t i = from; i < std::min(from + span, n) && predicted.size() < wanted; ++i)
                predicted.push_back(begin + i);
            at += stretch;
        }

        // A random order of all positions; only predicted tokens are hidden, from those before them and from
        // themselves.
        Random orders = example.random(seed, kOrderStream);
        std::vector<std::size_t> order(length);
        for (std::size_t i = 0; i < length; ++i) order[i] = i;
        orders.shuffle(order);
        std::vector<int64_t> rank(length, -1); // -1: visible to every position
        for (std::size_t i = 0; i < length; ++i)
            if (std::ranges::binary_search(predicted, order[i])) rank[order[i]] = static_cast<int64_t>(i);
        const std::span<float> mask = fields.floats("perm_mask")[row], mapping = fields.floats("target_mapping")[row];
        for (std::size_t i = 0; i < length; ++i)
            for (std::size_t j = 0; j < length; ++j)
                mask[i * length + j] = j < begin || (rank[j] >= 0 && rank[i] <= rank[j]) ? 1.0f : 0.0f;
        for (std::size_t m = 0; m < predicted.size(); ++m) {
            mapping[m * length + predicted[m]] = 1.0f;
            fields.ints("labels")[row][m] = ids[predicted[m]];
        }
    }

    Tokens tokens_;
    RowLayout layout_;
    double share_;
    uint64_t longest_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "permutation", objective<Permutation>()})
