// Language models that learn a part of their text: the prefix LM over plain text (Raffel et al. 2020), completions of
// prompts, and what the assistant writes in conversations.
#include "answer.hpp"
#include "block.hpp"

using namespace hekla::plugin;

namespace {

constexpr uint64_t kSplitStream = 1;

void completion_loss(Graph& g, const char* name, bool prefix) {
    // Only a body with attention that is bidirectional over the prefix reads the field; any other would train a
    // different objective.
    if (prefix && !g.has_port("reads_prefix"))
        g.fail("this body does not open its attention for a prefix: a decoder that reads prefix_length is needed");
    const Value logits = g.ask("logits"), labels = g.input("next_ids");
    g.loss(name, token_loss(logits, labels));
    accuracy_metric(g, "token_accuracy", logits, labels);
}

// A window of text, cut at a random position: attention is bidirectional before it, and what follows is predicted.
class PrefixLm {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    PrefixLm(const Config&, const hk_tokenizer*) {}
    int64_t tokens_per_example(int64_t length) { return length + 1; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"prefix_length", HK_KIND_INT32, {batch}},
                {"next_ids", HK_KIND_INT32, {batch, length}}};
    }
    void build(Graph& g) { completion_loss(g, "prefix_lm", true); }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        fields.ints("next_ids").fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const Ids text = example.get("text").ids();
            const std::span<int32_t> ids = fields.ints("input_ids")[row], next = fields.ints("next_ids")[row];
            Random random = example.random(batch.seed(), kSplitStream);
            const std::size_t n = text.empty() ? 0 : std::min(ids.size(), text.size() - 1);
            // At least one token in the prefix and one predicted, if there are two.
            const std::size_t prefix = n > 0 ? 1 + random.below(n) : 1;
            fields.ints("prefix_length")[row][0] = static_cast<int32_t>(prefix);
            for (std::size_t t = 0; t < n; ++t) {
                ids[t] = text[t];
                if (t + 1 >= prefix) next[t] = text[t + 1];
            }
        }
    }
};

// Rows of prompt and completion. The end token follows the completion and is trained too; a completion of messages has
// its own.
class Completion {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Completion(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), pad_(padding_id(c, tokens_)), prefix_(c.boolean("bidirectional_prompt", false)) {
        end_ = tokens_.role("eos");
    }
    std::vector<ColumnNeed> columns() {
        return {{"prompt", HK_COLUMN_TOKENS, 0}, {"completion", HK_COLUMN_TOKENS, HK_COLUMN_TARGET}};
    }
    int64_t example_length(const hk_example& raw) {
        return length_of_completion(tokens_.begun(Example(raw).get("prompt")), Example(raw));
    }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all{{"input_ids", HK_KIND_INT32, {batch, length}},
                               {"attention_mask", HK_KIND_INT32, {batch, length}},
                               {"next_ids", HK_KIND_INT32, {batch, length}}};
        if (prefix_) all.push_back({"prefix_length", HK_KIND_INT32, {batch}});
        return all;
    }
    void build(Graph& g) { completion_loss(g, "completion", prefix_); }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        clear_answers(fields, pad_);
        const FieldRows<int32_t> mask = fields.ints("attention_mask");
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const std::vector<int32_t> prompt = tokens_.begun(example.get("prompt"));
            const ColumnView completion = example.find("completion");
            const std::size_t from =
                write_answer(fields.ints("input_ids")[row], fields.ints("next_ids")[row], mask[row], prompt,
                             completion ? std::optional(completion.ids()) : std::nullopt,
                             completion && completion.is_messages() ? std::nullopt : end_);
            if (prefix_)
                fields.ints("prefix_length")[row][0] =
                    static_cast<int32_t>(prompt.size() > from ? prompt.size() - from : 0);
        }
    }

private:
    Tokens tokens_;
    int32_t pad_ = 0;
    std::optional<int32_t> end_;
    bool prefix_;
};

// A conversation per row, of which the assistant's parts are trained: every one, with the token that ends its turn. A
// row that is too long is truncated at its end.
class Chat {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Chat(const Config& c, const hk_tokenizer* tokenizer) : tokens_(tokenizer), pad_(padding_id(c, tokens_)) {}
    std::vector<ColumnNeed> columns() { return {{"messages", HK_COLUMN_MESSAGES, 0}}; }
    int64_t example_length(const hk_example& raw) {
        return std::max<int64_t>(static_cast<int64_t>(Example(raw).get("messages").ids().size()) - 1, 1);
    }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"attention_mask", HK_KIND_INT32, {batch, length}},
                {"next_ids", HK_KIND_INT32, {batch, length}}};
    }
    void build(Graph& g) { completion_loss(g, "chat", false); }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        clear_answers(fields, pad_);
        const FieldRows<int32_t> mask = fields.ints("attention_mask");
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const ColumnView messages = batch[row].get("messages");
            const Ids ids = messages.ids();
            const std::span<int32_t> inputs = fields.ints("input_ids")[row], next = fields.ints("next_ids")[row];
            const std::size_t n = std::min(inputs.size(), ids.empty() ? 0 : ids.size() - 1);
            for (std::size_t t = 0; t < n; ++t) {
                inputs[t] = ids[t];
                mask[row][t] = 1;
            }
            for (std::size_t part = 1; part < messages.parts(); part += 2) { // every other one is the assistant's
                const std::size_t begin = std::max<std::size_t>(messages.part_begin(part), 1);
                const std::size_t end = messages.part_begin(part) + messages.part(part).size();
                for (std::size_t t = begin; t < std::min(end, n + 1); ++t) next[t - 1] = ids[t];
            }
        }
    }

private:
    Tokens tokens_;
    int32_t pad_ = 0;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "prefix_lm", objective<PrefixLm>()},
             {HK_OBJECTIVE_INTERFACE, "completion", objective<Completion>()},
             {HK_OBJECTIVE_INTERFACE, "chat", objective<Chat>()})
