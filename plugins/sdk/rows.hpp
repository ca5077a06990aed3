// Row layouts of the model families for one or two texts: special tokens, segments, and the side of the padding. Each
// follows the code of its paper.
#pragma once

#include "collate.hpp"

#include <tuple>

namespace hekla::plugin {

class RowLayout {
public:
    // config: `layout` (auto, bert, roberta, gpt, t5, xlnet), `model_type`, `pad_token_id`.
    RowLayout(const Config& config, const Tokens& tokens, const char* objective) {
        pad_ = padding_id(config, tokens);
        const std::string model = config.string("model_type", "");
        std::string layout = config.string("layout", "auto");
        const auto role = [&](std::string_view name) { return tokens.role(name); };
        if (layout == "auto") {
            if (model == "xlnet")
                layout = "xlnet";
            else if (model == "roberta" || model == "camembert" || model == "bart" || model == "flaubert")
                layout = "roberta";
            else if (model == "t5" || model == "mt5")
                layout = "t5";
            else
                layout = !tokens || (role("classifier") && role("separator") && !is_decoder(model)) ? "bert" : "gpt";
        }
        segments_ = (layout == "bert" && (model.empty() || model == "bert" || model == "albert")) || layout == "xlnet";
        const auto optional = [&](std::initializer_list<const char*> names) -> std::vector<int32_t> {
            for (const char* name : names)
                if (const auto id = role(name)) return {*id};
            return {};
        };
        if (layout == "bert") { // [CLS] a [SEP] b [SEP]
            before_ = {tokens.required("classifier", objective)};
            between_ = after_ = {tokens.required("separator", objective)};
        } else if (layout == "roberta") { // <s> a </s></s> b </s>
            before_ = optional({"classifier", "bos"});
            after_ = optional({"separator", "eos"});
            between_ = after_;
            between_.insert(between_.end(), after_.begin(), after_.end());
        } else if (layout == "gpt") { // [START] a [DELIM] b [EXTRACT] (Radford et al. 2018)
            before_ = optional({"bos"});
            between_ = optional({"separator", "eos"});
            after_ = optional({"classifier", "eos"});
        } else if (layout == "t5") { // a </s> b </s>
            between_ = after_ = optional({"eos"});
        } else if (layout == "xlnet") { // a <sep> b <sep> <cls>, padding on the left
            between_ = {tokens.required("separator", objective)};
            after_ = {between_[0], tokens.required("classifier", objective)};
            left_ = true;
        } else {
            throw invalid("the layout '" + layout + "' is not auto, bert, roberta, gpt, t5 or xlnet");
        }
    }

    int32_t pad() const { return pad_; }
    bool segments() const { return segments_; } // whether the model reads token_type_ids
    std::size_t special(bool pair) const { return before_.size() + after_.size() + (pair ? between_.size() : 0); }

    // Returns the fields of every row: input_ids, attention_mask, and token_type_ids if the model reads them.
    std::vector<Field> fields(int64_t batch, int64_t length) const {
        std::vector<Field> all{{"input_ids", HK_KIND_INT32, {batch, length}},
                               {"attention_mask", HK_KIND_INT32, {batch, length}}};
        if (segments_) all.push_back({"token_type_ids", HK_KIND_INT32, {batch, length}});
        return all;
    }

    // Positions of the texts in a row: first_at + i is the position of a's token i, second_at + i that of b's.
    struct Placed {
        std::size_t first_at = 0, first_size = 0, second_at = 0, second_size = 0;
        std::size_t begin = 0, end = 0; // of the tokens without padding
        std::size_t last = 0;           // position of the last token
    };

    // Truncates two texts to a row of `length`, from the end of the longer one.
    std::pair<Ids, Ids> cut(Ids a, Ids b, bool pair, std::size_t length) const {
        const std::size_t room = length > special(pair) ? length - special(pair) : 0;
        while (a.size() + b.size() > room) {
            Ids& longer = a.size() > b.size() ? a : b;
            const std::size_t other = a.size() > b.size() ? b.size() : a.size();
            // Truncates to the other's length, or to what fits, in one step.
            const std::size_t excess = a.size() + b.size() - room;
            const std::size_t lead = longer.size() - other;
            longer = longer.first(longer.size() - std::min(excess, std::max<std::size_t>(lead, 1)));
        }
        return {a, b};
    }

    // Writes one row of `fields` (which are initialized to zeros). A second text if `pair` is set.
    Placed write(const FieldSet& fields, std::size_t row, Ids a, Ids b, bool pair) const {
        const std::span<int32_t> ids = fields.ints("input_ids")[row], mask = fields.ints("attention_mask")[row];
        std::tie(a, b) = cut(a, b, pair, ids.size());
        const std::size_t used = std::min(ids.size(), special(pair) + a.size() + b.size());
        std::vector<int32_t> types(used, 0);
        std::ranges::fill(ids, pad_);
        std::size_t at = left_ ? ids.size() - used : 0;
        Placed placed;
        placed.begin = at;
        const auto put = [&](Ids tokens, int32_t type) {
            for (const int32_t token : tokens) {
                if (at >= ids.size()) return;
                types[at - placed.begin] = type;
                mask[at] = 1;
                ids[at++] = token;
            }
        };
        put(before_, 0);
        placed.first_at = at;
        placed.first_size = a.size();
        put(a, 0);
        if (pair) {
            put(between_, 0);
            placed.second_at = at;
            placed.second_size = b.size();
            put(b, 1);
        }
        put(Ids(after_).first(after_.empty() ? 0 : 1), pair ? 1 : 0);
        if (after_.size() > 1) put(Ids(after_).subspan(1), left_ ? 2 : 0);
        placed.end = at;
        placed.last = at > placed.begin ? at - 1 : at;
        if (segments_) {
            const std::span<int32_t> out = fields.ints("token_type_ids")[row];
            if (left_) std::ranges::fill(out, 3); // XLNet's padding has its own segment
            std::ranges::copy(types, out.begin() + static_cast<std::ptrdiff_t>(placed.begin));
        }
        return placed;
    }

    // Writes a text's ids with its special tokens to the front of `out`.
    void write_tokens(std::span<int32_t> out, Ids text) const {
        std::size_t at = 0;
        for (const Ids part : {Ids(before_), text, Ids(after_)})
            for (const int32_t token : part)
                if (at < out.size()) out[at++] = token;
    }

    // Writes two texts with their special tokens to the front of `out`; returns the number of tokens.
    std::size_t write_pair(std::span<int32_t> out, Ids a, Ids b) const {
        std::tie(a, b) = cut(a, b, true, out.size());
        std::size_t at = 0;
        for (const Ids part : {Ids(before_), a, Ids(between_), b, Ids(after_)})
            for (const int32_t token : part)
                if (at < out.size()) out[at++] = token;
        return at;
    }

    // Writes a row without an example: one token that is not padding, so that no softmax is empty.
    void write_empty(const FieldSet& fields, std::size_t row) const {
        fields.ints("input_ids").fill_from(row, pad_);
        for (std::size_t r = row; r < fields.ints("attention_mask").rows(); ++r)
            fields.ints("attention_mask")[r][left_ ? fields.ints("attention_mask").width() - 1 : 0] = 1;
    }

private:
    static bool is_decoder(const std::string& model) {
        for (const char* name : {"gpt2", "openai-gpt", "gpt_neox", "llama", "qwen3", "mistral"})
            if (model == name) return true;
        return false;
    }
    std::vector<int32_t> before_, between_, after_;
    int32_t pad_ = 0;
    bool segments_ = false, left_ = false;
};

} // namespace hekla::plugin
