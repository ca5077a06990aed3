#include "data/encoded.hpp"

#include "data/packing.hpp"

namespace hekla::data {

void WindowExamples::get(uint64_t index, EncodedExample& out) const {
    out.index = index;
    out.document = 0;
    out.adapter = -1;
    out.columns.resize(1);
    EncodedColumn& text = out.columns[0];
    text.name = "text";
    text.kind = HK_COLUMN_TOKENS;
    text.numbers.clear();
    text.parts.clear();
    text.ids.resize(window_);
    tokens_.copy(index, text.ids);
}

Status StoredExamples::add(const EncodedExample& example) {
    packed_.clear();
    pack(packed_, example.document);
    pack(packed_, example.adapter);
    pack(packed_, static_cast<uint64_t>(example.columns.size()));
    for (const EncodedColumn& column : example.columns) {
        pack(packed_, std::string_view(column.name));
        pack(packed_, column.kind);
        pack(packed_, column.ids);
        pack(packed_, column.numbers);
        pack(packed_, column.parts);
    }
    return records_.add(packed_);
}

void StoredExamples::get(uint64_t index, EncodedExample& out) const {
    std::string_view record = records_[index];
    out.index = index;
    unpack(record, out.document);
    unpack(record, out.adapter);
    uint64_t columns = 0;
    unpack(record, columns);
    out.columns.resize(columns);
    for (EncodedColumn& column : out.columns) {
        unpack(record, column.name);
        unpack(record, column.kind);
        unpack(record, column.ids);
        unpack(record, column.numbers);
        unpack(record, column.parts);
    }
}

EncodedExample StoredExamples::operator[](uint64_t index) const {
    EncodedExample example;
    get(index, example);
    return example;
}

} // namespace hekla::data
