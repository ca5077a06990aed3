// Masked language modeling (Devlin et al. 2019), and the base of its variants.
#pragma once

#include "block.hpp"
#include "masking.hpp"
#include "rows.hpp"

namespace hekla::plugin {

constexpr uint64_t kMaskStream = 1;

class Mlm {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Mlm(const Config& c, const hk_tokenizer* tokenizer) : Mlm(c, tokenizer, "mlm", MaskingOptions(c)) {}

    int64_t tokens_per_example(int64_t length) {
        const int64_t special = static_cast<int64_t>(layout_.special(false));
        require(length > special, "rows of " + std::to_string(length) + " tokens have no room between special tokens");
        return length - special;
    }
    // Logits are computed only at masked_positions; labels[b, p] is the original token at the p-th of them.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = layout_.fields(batch, length);
        const int64_t places = options_.most(length);
        all.push_back({"masked_positions", HK_KIND_INT32, {batch, places}});
        all.push_back({"labels", HK_KIND_INT32, {batch, places}});
        return all;
    }
    // labels: the original token, -100 where none is predicted; [B, T] if the batch has no masked_positions.
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("labels");
        g.loss("mlm", token_loss(logits, labels));
        accuracy_metric(g, "masked_accuracy", logits, labels);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        rows_of_text(raw, storage, count,
                     [&](const FieldSet& fields, uint32_t row, const RowLayout::Placed& placed,
                         const Example& example) { mask(fields, row, placed, example, raw.seed); });
    }

protected:
    Mlm(const Config& c, const hk_tokenizer* tokenizer, const char* name, const MaskingOptions& options)
        : options_(options), tokens_(tokenizer), layout_(c, tokens_, name), masking_(options, tokens_, name) {}

    // Lays out the example's text in each row, then calls `write(fields, row, placed, example)` for it.
    template<class F>
    void rows_of_text(const hk_batch& raw, hk_field* storage, uint32_t count, F&& write) const {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            write(fields, row, layout_.write(fields, row, example.get("text").ids(), {}, false), example);
        }
        finish(fields, batch.size());
    }
    // Masks a row's ids; returns the tokens to predict.
    std::vector<Masked> masked(const FieldSet& fields, std::size_t row, const RowLayout::Placed& placed,
                               const Example& example, uint64_t seed) const {
        std::vector<std::size_t> candidates;
        for (std::size_t i = 0; i < placed.first_size; ++i) candidates.push_back(placed.first_at + i);
        for (std::size_t i = 0; i < placed.second_size; ++i) candidates.push_back(placed.second_at + i);
        Random random = example.random(seed, kMaskStream);
        return masking_.apply(fields.ints("input_ids")[row], candidates, random);
    }
    // Like masked(), and writes masked_positions and labels.
    std::vector<Masked> mask(const FieldSet& fields, std::size_t row, const RowLayout::Placed& placed,
                             const Example& example, uint64_t seed) const {
        std::vector<Masked> chosen = masked(fields, row, placed, example, seed);
        const std::span<int32_t> places = fields.ints("masked_positions")[row], labels = fields.ints("labels")[row];
        std::ranges::fill(labels, kIgnored);
        for (std::size_t i = 0; i < chosen.size() && i < places.size(); ++i) {
            places[i] = static_cast<int32_t>(chosen[i].place);
            labels[i] = chosen[i].token;
        }
        return chosen;
    }
    void finish(const FieldSet& fields, std::size_t row) const {
        layout_.write_empty(fields, row);
        fields.ints("labels").fill_from(row, kIgnored);
    }

    MaskingOptions options_;
    Tokens tokens_;
    RowLayout layout_;
    Masking masking_;
};

} // namespace hekla::plugin
