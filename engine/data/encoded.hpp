// Examples as objectives read them: token ids, classes and numbers by column. Corresponds to the structs in
// hekla/plugin/example.h.
#pragma once

#include "base/status.hpp"
#include "data/row_store.hpp"
#include "data/token_view.hpp"
#include "hekla/plugin/example.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::data {

struct EncodedColumn {
    std::string name;
    int32_t kind = HK_COLUMN_TOKENS;
    std::vector<int32_t> ids;
    std::vector<float> numbers;
    std::vector<uint64_t> parts; // where each begins in ids
};

struct EncodedExample {
    std::vector<EncodedColumn> columns;
    uint64_t index = 0;
    uint64_t document = 0;
    int32_t adapter = -1; // the number of the adapter that its row has, of several that a batch mixes; -1: none
};

// The examples of one split. Thread: any, many at once.
class EncodedExamples {
public:
    virtual ~EncodedExamples() = default;
    EncodedExamples(const EncodedExamples&) = delete;
    EncodedExamples& operator=(const EncodedExamples&) = delete;
    virtual uint64_t size() const = 0;
    // index < size().
    virtual void get(uint64_t index, EncodedExample& out) const = 0;

protected:
    EncodedExamples() = default;
};

// The windows of a long sequence of tokens; window `index` begins at token `index`. Column "text". `tokens` must
// outlive this.
class WindowExamples final : public EncodedExamples {
public:
    WindowExamples(TokenView tokens, uint64_t window) : tokens_(tokens), window_(window) {}
    uint64_t size() const override { return tokens_.size() < window_ ? 0 : tokens_.size() - window_ + 1; }
    void get(uint64_t index, EncodedExample& out) const override;

private:
    TokenView tokens_;
    uint64_t window_;
};

// Examples in memory or, if they are many, on disk (row_store.hpp).
class StoredExamples final : public EncodedExamples {
public:
    explicit StoredExamples(std::pmr::memory_resource* memory = std::pmr::new_delete_resource()) : records_(memory) {}
    uint64_t size() const override { return records_.size(); }
    void get(uint64_t index, EncodedExample& out) const override;
    EncodedExample operator[](uint64_t index) const;
    // Appends an example. Errors: those of Records::add.
    Status add(const EncodedExample& example);
    Status finish() { return records_.finish(); } // before the first read

private:
    Records records_;
    std::string packed_;
};

} // namespace hekla::data
