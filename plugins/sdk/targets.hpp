// An encoder-decoder's batch: the encoder's input, and the decoder's input and labels.
#pragma once

#include "rows.hpp"

namespace hekla::plugin {

class DecoderRows {
public:
    // config: `decoder_start_token_id`; otherwise the tokenizer's end, begin or padding token starts the decoder.
    DecoderRows(const Config& config, const Tokens& tokens, const char* objective) {
        const auto eos = tokens.role("eos"), separator = tokens.role("separator");
        if (tokens && !eos && !separator)
            throw invalid(std::string(objective) + " needs an end token, and the tokenizer has none");
        end_ = eos ? *eos : separator.value_or(0);
        pad_ = padding_id(config, tokens);
        start_ = config.has("decoder_start_token_id") ? static_cast<int32_t>(config.integer("decoder_start_token_id"))
                                                      : end_;
    }

    std::vector<Field> fields(int64_t batch, int64_t length) const {
        return {{"decoder_input_ids", HK_KIND_INT32, {batch, length}}, {"labels", HK_KIND_INT32, {batch, length}}};
    }
    // labels: the target and the end token, then -100; decoder_input_ids: the same shifted right by one, after the
    // start token. A target that is too long is truncated at its end.
    void write(const FieldSet& fields, std::size_t row, Ids target) const {
        const std::span<int32_t> input = fields.ints("decoder_input_ids")[row], labels = fields.ints("labels")[row];
        std::ranges::fill(input, pad_);
        std::ranges::fill(labels, kIgnored);
        input[0] = start_;
        for (std::size_t t = 0; t < labels.size() && t <= target.size(); ++t) {
            labels[t] = t < target.size() ? target[t] : end_;
            if (t + 1 < input.size() && t < target.size()) input[t + 1] = target[t];
        }
    }
    void write_empty(const FieldSet& fields, std::size_t row) const {
        fields.ints("decoder_input_ids").fill_from(row, pad_);
        fields.ints("labels").fill_from(row, kIgnored);
    }
    int32_t end() const { return end_; }

private:
    int32_t start_ = 0, end_ = 0, pad_ = 0;
};

// Both sides of the batch.
class SourceTargetRows {
public:
    SourceTargetRows(const Config& config, const Tokens& tokens, const char* objective)
        : source_(config, tokens, objective), target_(config, tokens, objective) {}

    std::size_t special() const { return source_.special(false); } // tokens around a source
    std::vector<Field> fields(int64_t batch, int64_t source_length, int64_t target_length) const {
        std::vector<Field> all = source_.fields(batch, source_length);
        for (const Field& field : target_.fields(batch, target_length)) all.push_back(field);
        return all;
    }
    // Without a target, as in prediction, there are no labels. Rows are written in order.
    void write(const FieldSet& fields, std::size_t row, Ids source, std::optional<Ids> target) const {
        source_.write(fields, row, source, {}, false);
        if (target)
            target_.write(fields, row, *target);
        else
            target_.write_empty(fields, row);
    }
    void write_empty(const FieldSet& fields, std::size_t row) const {
        source_.write_empty(fields, row);
        target_.write_empty(fields, row);
    }

private:
    RowLayout source_;
    DecoderRows target_;
};

} // namespace hekla::plugin
