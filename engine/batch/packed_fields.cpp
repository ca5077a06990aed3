#include "batch/packed_fields.hpp"

#include "plugin/composition/compose.hpp"
#include "plugin/composition/row_packing.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace hekla::batch {
namespace {

constexpr std::size_t kAtOnce = 64; // examples of one call of collate

// The elements of a field, of either kind.
std::span<int32_t> elements(data::Field& field) {
    return {reinterpret_cast<int32_t*>(field.bytes.data()), field.bytes.size() / 4};
}

data::Field* find(std::vector<data::Field>& fields, std::string_view name) {
    const auto found = std::ranges::find(fields, name, &data::Field::name);
    return found != fields.end() ? &*found : nullptr;
}

// Writes examples into the rows of a batch. A field has a row for each of an example's `parts`: part p of row r of the
// batch is in row p rows + r.
class Packing {
public:
    Packing(std::vector<data::Field>& fields, int64_t rows, int64_t length)
        : fields_(fields), rows_(static_cast<std::size_t>(rows)), length_(static_cast<std::size_t>(length)),
          segments_(elements(*find(fields, plugin::kSegmentIds))),
          positions_(elements(*find(fields, plugin::kPositionIds))), used_(segments_.size() / length_, 0),
          examples_(rows_, 0) {}

    // Fills what no example fills with what collate() writes without examples. empty: a batch of one row without one.
    void clear(std::vector<data::Field>& empty) {
        for (data::Field& field : fields_) {
            data::Field* const from = find(empty, field.name);
            if (from == nullptr) continue;
            const std::span<const int32_t> given = elements(*from);
            const std::span<int32_t> to = elements(field);
            const std::size_t width = width_of(field), parts = to.size() / width / rows_, own = given.size() / parts;
            for (std::size_t row = 0; row < parts * rows_; ++row)
                for (std::size_t i = 0; i < width; ++i)
                    to[row * width + i] = given[row / rows_ * own + std::min(i, own - 1)];
        }
    }

    // Adds example i of `alone`, a batch with a row for each of `count` examples, to a row.
    Status add(std::vector<data::Field>& alone, std::size_t i, std::size_t count, std::size_t row,
               const std::string& what) {
        const auto segment = static_cast<std::size_t>(examples_[row]++);
        const std::span<const int32_t> mask = elements(*find(alone, plugin::kAttentionMask));
        for (std::size_t part = 0; part * rows_ < used_.size(); ++part) {
            const std::size_t from = (part * count + i) * length_, to = part * rows_ + row;
            std::size_t tokens = length_;
            while (tokens > 0 && mask[from + tokens - 1] == 0) --tokens;
            if (used_[to] + tokens > length_)
                return internal_error(fmt::format("{}: collate writes {} tokens of an example for which example_length "
                                                  "has fewer, and its row has room for {}",
                                                  what, tokens, length_ - used_[to]));
            const std::size_t begin = to * length_ + used_[to];
            for (data::Field& field : fields_) {
                data::Field* const given = find(alone, field.name);
                if (given == nullptr || given->shape.size() != 2) continue;
                std::ranges::copy(elements(*given).subspan(from, tokens), elements(field).begin() + offset(begin));
            }
            for (std::size_t t = 0; t < tokens; ++t) {
                segments_[begin + t] = static_cast<int32_t>(segment + 1);
                positions_[begin + t] = static_cast<int32_t>(t);
            }
            used_[to] += tokens;
        }
        for (data::Field& field : fields_) {
            data::Field* const given = find(alone, field.name);
            if (given == nullptr || given->shape.size() != 1) continue;
            const std::size_t width = width_of(field);
            if (segment >= width)
                return internal_error(fmt::format("a row has more than {} examples of {}", width, what));
            const std::span<const int32_t> numbers = elements(*given);
            for (std::size_t part = 0; part * count < numbers.size(); ++part)
                elements(field)[(part * rows_ + row) * width + segment] = numbers[part * count + i];
        }
        return {};
    }

private:
    static std::ptrdiff_t offset(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }
    static std::size_t width_of(const data::Field& field) { return static_cast<std::size_t>(field.shape[1]); }

    std::vector<data::Field>& fields_;
    std::size_t rows_, length_;
    std::span<int32_t> segments_, positions_;
    std::vector<std::size_t> used_;     // tokens, by row of the fields
    std::vector<std::size_t> examples_; // by row of the batch
};

} // namespace

Status make_packed_fields(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                          const data::EncodedExamples* corpus, uint64_t seed, int64_t batch, int64_t length,
                          std::vector<data::Field>& fields, std::pmr::memory_resource* memory, uint64_t step) {
    HK_ASSIGN(const std::vector<plugin::BatchField> described, composition.training_fields(batch, length));
    std::vector<data::Field> alone;
    HK_TRY(make_fields(composition, {}, corpus, seed, 1, length, alone, memory, step));
    fields = empty_fields(described, memory);
    Packing packing(fields, batch, length);
    packing.clear(alone);
    const std::string what = fmt::format("objective '{}'", composition.objective());
    for (std::size_t begin = 0; begin < examples.size(); begin += kAtOnce) {
        const std::span some = examples.subspan(begin, std::min(kAtOnce, examples.size() - begin));
        HK_TRY(make_fields(composition, some, corpus, seed, std::ssize(some), length, alone, memory, step));
        for (std::size_t i = 0; i < some.size(); ++i)
            HK_TRY(packing.add(alone, i, some.size(), static_cast<std::size_t>(some[i].row), what));
    }
    return {};
}

} // namespace hekla::batch
