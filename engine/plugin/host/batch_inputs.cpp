#include "plugin/host/batch_inputs.hpp"

#include "plugin/composition/plugin_set.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace hekla::plugin {

using graph::Kind;
using graph::kNone;
using graph::ValueId;

const BatchField* find_field(const Joint& joint, std::string_view name) {
    const auto found = std::ranges::find_if(joint.fields, [&](const BatchField& f) { return f.name == name; });
    return found == joint.fields.end() ? nullptr : &*found;
}

ValueId shifted_positions(Joint& joint, int64_t batch, int64_t length) {
    graph::Builder& builder = joint.builder;
    const ValueId counted = builder.positions(batch, length);
    if (joint.position_shift == 0) return counted;
    const auto number = [&](int64_t n) { return builder.fill(Kind::int32, {}, static_cast<double>(n)); };
    const ValueId shifted = builder(graph::Op::add, {counted, number(joint.position_shift)});
    return joint.position_shift > 0 ? shifted : builder(graph::Op::maximum, {shifted, number(0)});
}

int64_t position_count(const Joint& joint, int64_t length) {
    const int64_t most = std::numeric_limits<int64_t>::max();
    const int64_t counted = joint.mode != HK_MODE_DECODE ? length : joint.cache_capacity;
    if (joint.mode == HK_MODE_DECODE && counted == 0) return most;
    return joint.position_shift > most - counted ? most : std::max<int64_t>(counted + joint.position_shift, 1);
}

ValueId with_virtual_tokens(Joint& joint, const BatchField& field, ValueId value) {
    graph::Builder& builder = joint.builder;
    const int64_t count = joint.virtual_tokens;
    const BatchField* ids = find_field(joint, "input_ids");
    const auto per_token = [&] {
        return ids != nullptr && field.shape.rank() == 2 && ids->shape.rank() == 2 && field.shape[0] == ids->shape[0] &&
               field.shape[1] == ids->shape[1];
    };
    const auto after = [&](ValueId front) {
        return builder(graph::Op::concat, {front, value}, {{"axis", int64_t{1}}});
    };
    const auto filled = [&](int64_t columns, double with) {
        return builder.fill(field.kind, {field.shape[0], columns}, with);
    };
    const bool of_decoder = field.name == "labels" || field.name.starts_with("decoder_");
    if (joint.encoder_decoder) {
        const auto decodes = [](const BatchField& one) {
            return one.name == "decoder_input_ids" || (one.name == "labels" && one.shape.rank() == 2);
        };
        if (field.name == "input_ids" && joint.in_body && joint.mode != HK_MODE_ENCODE &&
            std::ranges::none_of(joint.fields, decodes)) {
            builder.fail(unsupported("input: virtual tokens in an encoder need a batch with labels of tokens or "
                                     "decoder_input_ids"));
            return kNone;
        }
        if (of_decoder || field.name == "next_ids") return value;
    } else if (joint.in_body && of_decoder) {
        builder.fail(unsupported("input: an adapter with virtual tokens does not support this encoder-decoder"));
        return kNone;
    }
    if (field.name == "prefix_length")
        return builder(graph::Op::add, {value, builder.fill(Kind::int32, {}, static_cast<double>(count))});
    if (field.name == "labels" && !per_token()) return value; // of rows
    if (per_token()) {
        if (field.name == "input_ids" || field.name == "token_type_ids" || field.name == "langs")
            return after(filled(count, 0.0));
        if (field.name == "attention_mask") return after(filled(count, 1.0));
        if (field.name == "labels") return after(filled(count, -100.0));
        if (field.name == "position_ids" && joint.virtual_without_positions) return after(filled(count, 0.0));
        if (field.name == "position_ids") {
            const ValueId shifted =
                builder(graph::Op::add, {value, builder.fill(Kind::int32, {}, static_cast<double>(count))});
            return builder(graph::Op::concat, {builder.positions(field.shape[0], count), shifted},
                           {{"axis", int64_t{1}}});
        }
        if (field.name == "next_ids") { // the last virtual token predicts the row's first, unless the row is padding
            const ValueId tokens = builder.input("input_ids", ids->kind, ids->shape);
            const ValueId taken = builder(graph::Op::slice, {tokens},
                                          {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"length", int64_t{1}}});
            const ValueId counts =
                builder(graph::Op::compare, {value, builder.fill(field.kind, {}, -100.0)}, {{"relation", int64_t{1}}});
            const ValueId labels =
                builder(graph::Op::sum, {counts}, {{"axes", std::vector<int64_t>{1}}, {"keep", int64_t{1}}});
            const ValueId first = builder(graph::Op::where, {labels, taken, filled(1, -100.0)});
            const ValueId front =
                count > 1 ? builder(graph::Op::concat, {filled(count - 1, -100.0), first}, {{"axis", int64_t{1}}})
                          : first;
            return after(front);
        }
    }
    builder.fail(unsupported(fmt::format("input: an adapter with virtual tokens does not support the field '{}' {}",
                                         field.name, field.shape.text())));
    return kNone;
}

ValueId adapter_start(Joint& joint) {
    graph::Builder& builder = joint.builder;
    const Invocation& invocation = *joint.invocation;
    if (const BatchField* given = find_field(joint, invocation.field))
        return builder.input(invocation.field, given->kind, given->shape);
    const BatchField* ids = find_field(joint, "input_ids");
    if (ids == nullptr || ids->shape.rank() != 2) {
        builder.fail(unsupported(
            fmt::format("input: {} needs a batch with the field input_ids [rows, tokens]", kInvocationTokens)));
        return kNone;
    }
    const auto number = [&](int64_t n) { return builder.fill(Kind::int32, {}, static_cast<double>(n)); };
    const auto count = static_cast<int64_t>(invocation.tokens.size());
    const int64_t places = ids->shape[1] - count + 1; // at which it may begin
    if (places < 1) return builder.fill(Kind::int32, {ids->shape[0]}, kNeverStarts);
    const ValueId tokens = builder.input("input_ids", ids->kind, ids->shape);
    const auto equal = [&](ValueId a, ValueId b) {
        return builder(graph::Op::compare, {a, b}, {{"relation", int64_t{0}}});
    };
    ValueId found = kNone;
    for (int64_t i = 0; i < count; ++i) {
        const ValueId part =
            builder(graph::Op::slice, {tokens}, {{"axis", int64_t{1}}, {"start", i}, {"length", places}});
        const ValueId same = equal(part, number(invocation.tokens[static_cast<std::size_t>(i)]));
        found = i == 0 ? same : builder(graph::Op::mul, {found, same});
    }
    // The last place, counted from 1; 0: none.
    const ValueId last = builder(graph::Op::max, {builder(graph::Op::mul, {found, builder.iota(places, 1, 1)})},
                                 {{"axes", std::vector<int64_t>{1}}});
    return builder(graph::Op::where,
                   {equal(last, number(0)), number(kNeverStarts), builder(graph::Op::sub, {last, number(1)})});
}

} // namespace hekla::plugin
