#include "plugin/composition/row_packing.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin {

int64_t most_segments(int64_t length) {
    constexpr int64_t kLeastTokens = 8; // of an example, on average
    return std::max<int64_t>(1, length / kLeastTokens);
}

Result<std::vector<BatchField>> packed_fields(const std::vector<BatchField>& fields, int64_t batch, int64_t length,
                                              const std::string& what) {
    const auto mask = std::ranges::find(fields, kAttentionMask, &BatchField::name);
    const bool masked = mask != fields.end() && mask->shape.rank() == 2 && mask->shape[1] == length;
    std::vector<BatchField> packed;
    for (const BatchField& field : fields) {
        const bool of_tokens = masked && field.shape == mask->shape;
        const bool of_examples = field.shape.rank() == 1 && field.shape[0] % batch == 0;
        if (!of_tokens && !of_examples)
            return unsupported(fmt::format("{}: its field '{}' {} has neither a value for each token of a row nor one "
                                           "for each example, so that rows cannot hold several examples: set "
                                           "data.packing = \"none\"",
                                           what, field.name, field.shape.text()));
        if (of_examples)
            packed.push_back({field.name, field.kind, graph::Shape{field.shape[0], most_segments(length)}});
        else if (field.name != kAttentionMask)
            packed.push_back(field);
    }
    if (!masked)
        return unsupported(fmt::format("{}: it has no field '{}', so that the tokens of an example are not known and "
                                       "rows cannot hold several examples: set data.packing = \"none\"",
                                       what, kAttentionMask));
    for (const char* name : {kSegmentIds, kPositionIds}) packed.push_back({name, graph::Kind::int32, mask->shape});
    return packed;
}

} // namespace hekla::plugin
