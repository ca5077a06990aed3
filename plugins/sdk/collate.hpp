// C++ wrappers for collate: the tokenizer's roles, examples by column name, fields by field name.
#pragma once

#include "random.hpp"
#include "settings.hpp"

#include <algorithm>
#include <span>

namespace hekla::plugin {

using Ids = std::span<const int32_t>;

struct ColumnView;

// The run's tokenizer. Without a tokenizer every role is missing.
class Tokens {
public:
    explicit Tokens(const hk_tokenizer* tokenizer) : tokenizer_(tokenizer) {}
    explicit operator bool() const { return tokenizer_ != nullptr; }

    int64_t size() const { return tokenizer_ != nullptr ? api().vocabulary_size(tokenizer_) : 0; }
    std::optional<int32_t> role(std::string_view name) const {
        if (tokenizer_ == nullptr) return {};
        const int64_t id = api().id_of_role(tokenizer_, text(name));
        return id >= 0 ? std::optional(static_cast<int32_t>(id)) : std::nullopt;
    }
    // Returns a role that the objective needs. Describing a graph needs no tokenizer and gets 0.
    int32_t required(std::string_view name, const char* objective) const {
        if (tokenizer_ == nullptr) return 0;
        if (const std::optional<int32_t> id = role(name)) return *id;
        throw invalid(std::string(objective) + " needs a " + std::string(name) +
                      " token, and the tokenizer has none: use one that has it, or let [tokenizer] train one");
    }
    // Whether rows have the tokenizer's frame. Older hosts, and models from before frames were recorded, have none.
    bool framed() const { return role("frame").has_value(); }
    // Returns a list of the frame: "single.before", "pair.between", "begin", ...; see id_of_role.
    std::vector<int32_t> frame(std::string_view list) const {
        std::vector<int32_t> ids;
        for (std::size_t n = 0;; ++n) {
            const auto id = role("frame." + std::string(list) + "." + std::to_string(n));
            if (!id) return ids;
            ids.push_back(*id);
        }
    }
    // Returns a prompt as inference begins it: after the tokens that begin a text, unless it begins with them. A chat
    // template has written those of messages.
    std::vector<int32_t> begun(const ColumnView& prompt) const;
    bool word_start(int32_t id) const { return api().is_word_start(tokenizer_, id) != 0; }
    bool sentence_end(int32_t id) const { return api().is_sentence_end(tokenizer_, id) != 0; }
    std::string decode(Ids ids) const {
        if (tokenizer_ == nullptr) return {};
        const std::vector<int64_t> wide(ids.begin(), ids.end());
        uint64_t bytes = 0;
        check(api().decode(tokenizer_, wide.data(), wide.size(), nullptr, &bytes, nullptr));
        std::string result(static_cast<std::size_t>(bytes), '\0');
        check(api().decode(tokenizer_, wide.data(), wide.size(), result.data(), &bytes, nullptr));
        return result;
    }

private:
    static void check(int32_t code) {
        if (code != HK_OK) throw Error(code, "the tokenizer could not make a text of these ids");
    }
    static const hk_tokenizer_interface& api() { return *host_interfaces().tokenizer; }
    const hk_tokenizer* tokenizer_;
};

// One column of an example, as it was given.
struct ColumnView {
    const hk_column* raw = nullptr;
    explicit operator bool() const { return raw != nullptr; }
    Ids ids() const { return {raw->ids, static_cast<std::size_t>(raw->size)}; }
    std::span<const float> numbers() const { return {raw->numbers, static_cast<std::size_t>(raw->size)}; }
#if HK_TARGET_ABI_MINOR >= 1
    // Whether the data has messages there: an answer ends with the end of its turn.
    bool is_messages() const { return raw->kind == HK_COLUMN_MESSAGES; }
#endif
    std::size_t parts() const { return static_cast<std::size_t>(raw->part_count); }
    std::size_t part_begin(std::size_t i) const { return static_cast<std::size_t>(raw->parts[i]); }
    Ids part(std::size_t i) const {
        const std::size_t end = i + 1 < parts() ? part_begin(i + 1) : static_cast<std::size_t>(raw->size);
        return ids().subspan(part_begin(i), end - part_begin(i));
    }
};

inline std::vector<int32_t> Tokens::begun(const ColumnView& prompt) const {
    std::vector<int32_t> ids;
    if (!prompt) return ids;
    const bool is_text = prompt.raw->kind == HK_COLUMN_TOKENS || prompt.raw->kind == HK_COLUMN_CHOICES;
    const Ids text = prompt.ids();
    if (is_text) ids = frame("begin");
    if (text.size() >= ids.size() && std::ranges::equal(text.first(ids.size()), ids)) ids.clear();
    ids.insert(ids.end(), text.begin(), text.end());
    return ids;
}

class Example {
public:
    explicit Example(const hk_example& raw) : raw_(&raw) {}
    const hk_example& raw() const { return *raw_; }
    // Returns an empty view if the data has no such column.
    ColumnView find(std::string_view name) const {
        for (uint32_t i = 0; i < raw_->column_count; ++i)
            if (const hk_column& column = element(raw_->columns, i); view(column.name) == name) return {&column};
        return {};
    }
    ColumnView get(std::string_view name) const {
        if (const ColumnView column = find(name)) return column;
        throw invalid("the example has no column '" + std::string(name) + "'");
    }
    Random random(uint64_t seed, uint64_t stream) const { return {seed, raw_->epoch, raw_->index, stream}; }

private:
    const hk_example* raw_;
};

class BatchView {
public:
    explicit BatchView(const hk_batch& raw) : raw_(raw) {}
    uint32_t size() const { return raw_.example_count; }
    Example operator[](uint32_t row) const { return Example(element(raw_.examples, row)); }
    uint64_t seed() const { return raw_.seed; }
#if HK_TARGET_ABI_MINOR >= 1
    // The step of the training that the batch is for, from 0.
    uint64_t step() const { return raw_.step; }
#endif
    const hk_corpus* corpus() const { return raw_.corpus; }

private:
    const hk_batch& raw_;
};

// The storage of one field as rows: the first axis by all other axes.
template<class T>
class FieldRows {
public:
    explicit FieldRows(hk_field& field) : field_(field) {
        for (uint32_t i = 1; i < field.rank; ++i) width_ *= static_cast<std::size_t>(field.dims[i]);
    }
    std::size_t rows() const { return static_cast<std::size_t>(field_.dims[0]); }
    std::size_t width() const { return width_; }
    std::span<T> operator[](std::size_t row) const { return {static_cast<T*>(field_.data) + row * width_, width_}; }
    std::span<T> all() const { return {static_cast<T*>(field_.data), rows() * width_}; }
    // Fills the rows from `row` on, which have no example.
    void fill_from(std::size_t row, T value) const { std::ranges::fill(all().subspan(row * width_), value); }

private:
    hk_field& field_;
    std::size_t width_ = 1;
};

// The fields that collate fills, by name.
class FieldSet {
public:
    FieldSet(hk_field* fields, uint32_t count) : fields_(fields), count_(count) {}
    hk_field* find(std::string_view name) const {
        for (uint32_t i = 0; i < count_; ++i)
            if (hk_field& field = element(fields_, i); view(field.name) == name) return &field;
        return nullptr;
    }
    FieldRows<int32_t> ints(std::string_view name) const { return FieldRows<int32_t>(get(name, HK_KIND_INT32)); }
    FieldRows<float> floats(std::string_view name) const { return FieldRows<float>(get(name, HK_KIND_FLOAT32)); }

private:
    hk_field& get(std::string_view name, int32_t kind) const {
        hk_field* field = find(name);
        if (field == nullptr || field->kind != kind)
            throw Error(HK_FAILED_PRECONDITION, "the batch has no field '" + std::string(name) + "' of this kind");
        return *field;
    }
    hk_field* fields_;
    uint32_t count_;
};

// Label of a position that is not scored.
inline constexpr int32_t kIgnored = -100;

inline constexpr int32_t kPadding = 0; // id of padding if neither model nor tokenizer has one

// Returns the id for positions without a token: the model's own, or the tokenizer's.
inline int32_t padding_id(const Config& config, const Tokens& tokens) {
    if (config.has("pad_token_id")) return static_cast<int32_t>(config.integer("pad_token_id"));
    return tokens.role("pad").value_or(kPadding);
}

} // namespace hekla::plugin
