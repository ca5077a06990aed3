#include "batch/collate.hpp"

#include "plugin/composition/compose.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_struct.hpp"
#include "plugin/host/joint.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fmt/format.h>

namespace hekla::batch {
namespace {

// An example as a struct of the ABI; points into the EncodedExample.
class View {
public:
    View(const data::EncodedExample& example, uint64_t epoch) {
        for (const data::EncodedColumn& column : example.columns) {
            hk_column c{};
            c.struct_size = sizeof c;
            c.kind = column.kind;
            c.name = {column.name.data(), column.name.size()};
            c.ids = column.ids.data();
            c.numbers = column.numbers.data();
            c.size = column.kind == HK_COLUMN_NUMBERS ? column.numbers.size() : column.ids.size();
            c.parts = column.parts.data();
            c.part_count = column.parts.size();
            columns_.push_back(c);
        }
        example_ = {sizeof(hk_example), static_cast<uint32_t>(columns_.size()), columns_.data(), example.index, epoch,
                    example.document};
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    const hk_example& raw() const { return example_; }

private:
    std::vector<hk_column> columns_;
    hk_example example_{};
};

// The examples that one call of collate requested from the corpus, valid until it returns.
struct Asked {
    const data::EncodedExamples* corpus = nullptr;
    std::deque<data::EncodedExample> examples;
    std::deque<View> views;
    std::string refusal; // of the last request, which the objective need not pass on

    void note(const char* message) noexcept {
        try {
            refusal = message;
        } catch (const std::bad_alloc&) { refusal.clear(); }
    }
};

int32_t get_example(void* context, uint64_t index, hk_example* out, hk_error* error) {
    auto& asked = *static_cast<Asked*>(context);
    const auto refuse = [&](std::string message) {
        asked.refusal = std::move(message);
        plugin::host_error_interface()->set(error, HK_INVALID_ARGUMENT, {asked.refusal.data(), asked.refusal.size()});
        return HK_INVALID_ARGUMENT;
    };
    try {
        if (index >= asked.corpus->size())
            return refuse(
                fmt::format("the corpus has {} examples; number {} was requested", asked.corpus->size(), index));
        asked.corpus->get(index, asked.examples.emplace_back());
        if (plugin::fill_struct(out, asked.views.emplace_back(asked.examples.back(), 0).raw())) return HK_OK;
        return refuse(plugin::unfilled_text(out, "an example"));
    } catch (const std::exception& e) {
        asked.note(e.what());
        return plugin::refuse_exception(error, e);
    }
}

} // namespace

graph::Tensor tensor_of(const data::Field& field) {
    graph::Tensor tensor;
    tensor.kind = field.kind == data::FieldKind::int32 ? graph::Kind::int32 : graph::Kind::float32;
    tensor.shape = graph::Shape(field.shape);
    tensor.data.resize(field.bytes.size() / 4);
    const auto load = [&](auto zero) {
        for (std::size_t i = 0; i < tensor.data.size(); ++i) {
            std::memcpy(&zero, field.bytes.data() + i * 4, 4);
            tensor.data[i] = static_cast<double>(zero);
        }
    };
    if (field.kind == data::FieldKind::int32)
        load(int32_t{});
    else
        load(float{});
    return tensor;
}

std::vector<hk_field> field_views(std::span<data::Field> fields) {
    std::vector<hk_field> views;
    for (data::Field& field : fields) {
        hk_field f{};
        f.struct_size = sizeof f;
        f.kind = field.kind == data::FieldKind::int32 ? HK_KIND_INT32 : HK_KIND_FLOAT32;
        f.name = {field.name.data(), field.name.size()};
        f.rank = static_cast<uint32_t>(field.shape.size());
        std::ranges::copy(field.shape, f.dims);
        f.data = field.bytes.data();
        views.push_back(f);
    }
    return views;
}

std::vector<data::Field> empty_fields(std::span<const plugin::BatchField> described,
                                      std::pmr::memory_resource* memory) {
    std::vector<data::Field> fields;
    for (const plugin::BatchField& field : described) {
        data::Field made;
        made.name = field.name;
        made.kind = field.kind == graph::Kind::int32 ? data::FieldKind::int32 : data::FieldKind::float32;
        made.shape = field.shape.vector();
        made.bytes = ResourceArray<std::byte>(static_cast<std::size_t>(field.shape.elements()) * 4, memory);
        fields.push_back(std::move(made));
    }
    return fields;
}

Status make_fields(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                   const data::EncodedExamples* corpus, uint64_t seed, int64_t batch, int64_t length,
                   std::vector<data::Field>& fields, std::pmr::memory_resource* memory, uint64_t step) {
    HK_ASSIGN(const std::vector<plugin::BatchField> described, composition.batch_fields(batch, length));
    fields = empty_fields(described, memory);
    std::vector<hk_field> storage = field_views(fields);
    return collate_into(composition, examples, corpus, seed, storage, step);
}

Status collate_into(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                    const data::EncodedExamples* corpus, uint64_t seed, std::span<hk_field> fields, uint64_t step) {
    std::deque<View> views;
    std::vector<hk_example> raw;
    for (const DrawnExample& drawn : examples) raw.push_back(views.emplace_back(drawn.example, drawn.epoch).raw());
    Asked asked;
    asked.corpus = corpus;
    hk_corpus others{};
    others.struct_size = sizeof others;
    others.context = &asked;
    others.get = get_example;
    if (corpus != nullptr) others.example_count = corpus->size();
    hk_batch given{};
    given.struct_size = sizeof given;
    given.example_count = static_cast<uint32_t>(raw.size());
    given.examples = raw.data();
    given.corpus = corpus != nullptr ? &others : nullptr;
    given.seed = seed;
    given.step = step;
    std::vector<hk_field> of_objective;
    for (const hk_field& field : fields) {
        if (std::string_view(field.name.data, field.name.size) != plugin::kAdapterRows) {
            of_objective.push_back(field);
            continue;
        }
        std::vector<int32_t> adapters(static_cast<std::size_t>(field.dims[0]), -1);
        for (std::size_t i = 0; i < examples.size(); ++i) adapters[i] = examples[i].example.adapter;
        std::memcpy(field.data, adapters.data(), adapters.size() * sizeof(int32_t));
    }
    const Status done = composition.collate(given, of_objective);
    if (done.ok() || asked.refusal.empty() || done.message().find(asked.refusal) != std::string::npos) return done;
    return {done.code(), fmt::format("{}: {}", done.message(), asked.refusal)};
}

int64_t example_length(const plugin::Composition& composition, const data::EncodedExample& example) {
    const View view(example, 0);
    return composition.example_length(view.raw());
}

} // namespace hekla::batch
