// Row layouts of the model families for one or two texts: special tokens, segments, and the side of the padding. Each
// follows the code of its paper.
#pragma once

#include "collate.hpp"

#include <tuple>

namespace hekla::plugin {

class RowLayout {
public:
    // config: `layout` (auto, bert, roberta, gpt, t5, xlnet), `model_type`, `pad_token_id`. auto: the tokenizer's own
    // templates, which may add nothing; for a model from before they were recorded, the layout of its kind. separated:
    // the parts of a row need special tokens between them, so that rows have that layout where the templates add
    // nothing.
    RowLayout(const Config& config, const Tokens& tokens, const char* objective, bool separated = false) {
        pad_ = padding_id(config, tokens);
        const std::string model = config.string("model_type", "");
        std::string layout = config.string("layout", "auto");
        const auto role = [&](std::string_view name) { return tokens.role(name); };
        const bool pooled = role("classifier") && role("separator");
        if (layout == "auto" && tokens.framed()) {
            left_ = model == "xlnet";
            segments_ = left_ || model == "bert" || model == "albert" || (model.empty() && pooled);
            single_ = {tokens.frame("single.before"), {}, tokens.frame("single.after"), tokens.frame("single.types")};
            pair_ = {tokens.frame("pair.before"), tokens.frame("pair.between"), tokens.frame("pair.after"),
                     tokens.frame("pair.types")};
            if (special(false) > 0 || special(true) > 0 || !pooled || !separated) return;
            left_ = false;
        }
        if (layout == "auto") {
            if (model == "xlnet")
                layout = "xlnet";
            else if (model == "roberta" || model == "camembert" || model == "bart" || model == "flaubert")
                layout = "roberta";
            else if (model == "t5" || model == "mt5")
                layout = "t5";
            else
                layout = !tokens || (pooled && !is_decoder(model)) ? "bert" : "gpt";
        }
        segments_ = (layout == "bert" && (model.empty() || model == "bert" || model == "albert")) || layout == "xlnet";
        const auto optional = [&](std::initializer_list<const char*> names) -> std::vector<int32_t> {
            for (const char* name : names)
                if (const auto id = role(name)) return {*id};
            return {};
        };
        std::vector<int32_t> before, between, after;
        if (layout == "bert") { // [CLS] a [SEP] b [SEP]
            before = {tokens.required("classifier", objective)};
            between = after = {tokens.required("separator", objective)};
        } else if (layout == "roberta") { // <s> a </s></s> b </s>
            before = optional({"classifier", "bos"});
            after = optional({"separator", "eos"});
            between = after;
            between.insert(between.end(), after.begin(), after.end());
        } else if (layout == "gpt") { // [START] a [DELIM] b [EXTRACT] (Radford et al. 2018)
            before = optional({"bos"});
            between = optional({"separator", "eos"});
            after = optional({"classifier", "eos"});
        } else if (layout == "t5") { // a </s> b </s>
            between = after = optional({"eos"});
        } else if (layout == "xlnet") { // a <sep> b <sep> <cls>, padding on the left
            between = {tokens.required("separator", objective)};
            after = {between[0], tokens.required("classifier", objective)};
            left_ = true;
        } else {
            throw invalid("the layout '" + layout + "' is not auto, bert, roberta, gpt, t5 or xlnet");
        }
        // Types: 0, those of a second text and what ends it 1, XLNet's last token 2.
        single_ = {before, {}, after, {}};
        single_.types.assign(before.size() + 1 + std::min<std::size_t>(after.size(), 1), 0);
        pair_ = {before, between, after, std::vector<int32_t>(before.size() + 1 + between.size(), 0)};
        pair_.types.resize(pair_.types.size() + 1 + std::min<std::size_t>(after.size(), 1), 1);
        if (left_) {
            single_.types.push_back(2);
            pair_.types.push_back(2);
        }
    }

    int32_t pad() const { return pad_; }
    bool segments() const { return segments_; } // whether the model reads token_type_ids
    std::size_t special(bool pair) const {
        const Frame& frame = pair ? pair_ : single_;
        return frame.before.size() + frame.between.size() + frame.after.size();
    }

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
        const Frame& frame = pair ? pair_ : single_;
        std::size_t piece = 0; // of the types: one a special token, one a text
        const auto put = [&](int32_t token, int32_t type) {
            if (at >= ids.size()) return;
            types[at - placed.begin] = type;
            mask[at] = 1;
            ids[at++] = token;
        };
        const auto type = [&] { return piece < frame.types.size() ? frame.types[piece++] : 0; };
        const auto put_special = [&](const std::vector<int32_t>& tokens) {
            for (const int32_t token : tokens) put(token, type());
        };
        const auto put_text = [&](Ids tokens) {
            const int32_t of_text = type();
            for (const int32_t token : tokens) put(token, of_text);
        };
        put_special(frame.before);
        placed.first_at = at;
        placed.first_size = a.size();
        put_text(a);
        if (pair) {
            put_special(frame.between);
            placed.second_at = at;
            placed.second_size = b.size();
            put_text(b);
        }
        put_special(frame.after);
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
        for (const Ids part : {Ids(single_.before), text, Ids(single_.after)})
            for (const int32_t token : part)
                if (at < out.size()) out[at++] = token;
    }

    // Writes two texts with their special tokens to the front of `out`; returns the number of tokens.
    std::size_t write_pair(std::span<int32_t> out, Ids a, Ids b) const {
        std::tie(a, b) = cut(a, b, true, out.size());
        std::size_t at = 0;
        for (const Ids part : {Ids(pair_.before), a, Ids(pair_.between), b, Ids(pair_.after)})
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
    // Special tokens around one or two texts, and the token types of all pieces in order.
    struct Frame {
        std::vector<int32_t> before, between, after, types;
    };
    Frame single_, pair_;
    int32_t pad_ = 0;
    bool segments_ = false, left_ = false;
};

} // namespace hekla::plugin
