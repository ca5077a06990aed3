#include "data/encoded.hpp"

namespace hekla::data {

void WindowExamples::get(uint64_t index, EncodedExample& out) const {
    out.index = index;
    out.document = 0;
    out.columns.resize(1);
    EncodedColumn& text = out.columns[0];
    text.name = "text";
    text.kind = HK_COLUMN_TOKENS;
    text.numbers.clear();
    text.parts.clear();
    text.ids.resize(window_);
    tokens_.copy(index, text.ids);
}

void MemoryExamples::add(EncodedExample example) {
    example.index = examples_.size();
    examples_.push_back(std::move(example));
}

} // namespace hekla::data
