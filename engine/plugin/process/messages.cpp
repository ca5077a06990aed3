#include "plugin/process/messages.hpp"

#include "plugin/host/host_error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {
namespace {

using nlohmann::json;

json packed(const PartsSpec& spec) {
    const auto part = [](const PartSpec& one) { return json{{"id", one.id}, {"config", one.config}}; };
    json all = json::object();
    if (spec.architecture) all["architecture"] = part(*spec.architecture);
    all["adapters"] = json::array();
    for (const AdapterSpec& adapter : spec.adapters) {
        json one = part(adapter.part);
        one["name"] = adapter.name;
        one["trained"] = adapter.trained;
        all["adapters"].push_back(std::move(one));
    }
    all["combination"] = spec.combination;
    all["combiners"] = json::array();
    for (const PartSpec& combiner : spec.combiners) all["combiners"].push_back(part(combiner));
    all["optimizers"] = json::array();
    for (const PartSpec& optimizer : spec.optimizers) all["optimizers"].push_back(part(optimizer));
    if (spec.objective) all["objective"] = part(*spec.objective);
    all["heads"] = json::array();
    for (const PartsSpec::Head& head : spec.heads) {
        json one = part(head.part);
        one["plugin"] = head.plugin;
        one["asked_for"] = head.asked_for;
        all["heads"].push_back(std::move(one));
    }
    if (spec.teacher != nullptr) all["teacher"] = packed(*spec.teacher);
    if (spec.value != nullptr) all["value"] = packed(*spec.value);
    return all;
}

PartsSpec unpacked(const json& all) {
    const auto part = [](const json& one) { return PartSpec{one.at("id").get<std::string>(), one.at("config")}; };
    PartsSpec spec;
    if (all.contains("architecture")) spec.architecture = part(all["architecture"]);
    for (const json& one : all.at("adapters"))
        spec.adapters.push_back({one.at("name").get<std::string>(), part(one), one.at("trained").get<bool>()});
    spec.combination = all.at("combination").get<std::string>();
    for (const json& one : all.at("combiners")) spec.combiners.push_back(part(one));
    for (const json& one : all.at("optimizers")) spec.optimizers.push_back(part(one));
    if (all.contains("objective")) spec.objective = part(all["objective"]);
    for (const json& head : all.at("heads"))
        spec.heads.push_back({part(head), head.at("plugin").get<bool>(), head.at("asked_for").get<bool>()});
    if (all.contains("teacher")) spec.teacher = std::make_shared<const PartsSpec>(unpacked(all["teacher"]));
    if (all.contains("value")) spec.value = std::make_shared<const PartsSpec>(unpacked(all["value"]));
    return spec;
}

void put_keys(WireWriter& out, const std::set<std::string>& keys) {
    out.texts(std::vector<std::string>(keys.begin(), keys.end()));
}

std::set<std::string> get_keys(WireReader& in) {
    std::vector<std::string> keys = in.texts();
    return {std::make_move_iterator(keys.begin()), std::make_move_iterator(keys.end())};
}

void put_lists(WireWriter& out, const std::vector<std::set<std::string>>& lists) {
    out.number(lists.size());
    for (const std::set<std::string>& keys : lists) put_keys(out, keys);
}

std::vector<std::set<std::string>> get_lists(WireReader& in) {
    std::vector<std::set<std::string>> lists(in.count());
    for (std::set<std::string>& keys : lists) keys = get_keys(in);
    return lists;
}

} // namespace

void put_fields(WireWriter& out, std::span<const BatchField> fields) {
    out.number(fields.size());
    for (const BatchField& field : fields) {
        out.text(field.name);
        out.integer(static_cast<int64_t>(field.kind));
        const std::vector<int64_t> dims = field.shape.vector();
        out.array(std::span<const int64_t>(dims));
    }
}

void put_sites(WireWriter& out, std::span<const Site> sites) {
    out.number(sites.size());
    for (const Site& site : sites) {
        out.integer(site.kind);
        for (const std::string* text : {&site.name, &site.parameter, &site.bias}) out.text(*text);
        for (const int64_t size : {site.in, site.out, site.index}) out.integer(size);
        for (const uint32_t bits : {site.flags, site.trained}) out.number(bits);
        for (const bool flag : {site.input_first, site.wanted}) out.flag(flag);
    }
}

std::vector<Site> get_sites(WireReader& in) {
    std::vector<Site> sites(in.count());
    for (Site& site : sites) {
        site.kind = static_cast<int32_t>(in.integer());
        for (std::string* text : {&site.name, &site.parameter, &site.bias}) *text = in.text();
        for (int64_t* size : {&site.in, &site.out, &site.index}) *size = in.integer();
        for (uint32_t* bits : {&site.flags, &site.trained}) *bits = static_cast<uint32_t>(in.number());
        for (bool* flag : {&site.input_first, &site.wanted}) *flag = in.flag();
    }
    return sites;
}

std::vector<BatchField> get_fields(WireReader& in, Status& status) {
    std::vector<BatchField> fields(in.count());
    for (BatchField& field : fields) {
        field.name = in.text();
        const int64_t kind = in.integer();
        const std::span<const int64_t> dims = in.array<int64_t>();
        if (kind < static_cast<int64_t>(graph::Kind::float_) || kind > static_cast<int64_t>(graph::Kind::int32) ||
            dims.size() > HK_MAX_RANK ||
            std::ranges::any_of(dims, [](int64_t d) { return d < 0 || d > int64_t{1} << 46; })) {
            status = corrupt(
                fmt::format("a field '{}' of kind {} and dimensions [{}]", field.name, kind, fmt::join(dims, ", ")));
            return {};
        }
        field.kind = static_cast<graph::Kind>(kind);
        field.shape = graph::Shape(dims);
    }
    return fields;
}

void put_parameter(WireWriter& out, const OptimizedParameter& parameter) {
    const BatchField field{{}, graph::Kind::float_, parameter.shape};
    put_fields(out, std::span(&field, 1));
    out.number(parameter.flags);
}

OptimizedParameter get_parameter(WireReader& in, Status& status) {
    const std::vector<BatchField> fields = get_fields(in, status);
    const auto flags = static_cast<uint32_t>(in.number());
    if (status.ok() && fields.size() != 1) status = corrupt(fmt::format("{} parameters of an update", fields.size()));
    if (!status.ok()) return {};
    return {fields[0].shape, flags};
}

void put_states(WireWriter& out, std::span<const UpdateState> states) {
    std::vector<BatchField> fields;
    for (const UpdateState& state : states) fields.push_back({state.name, graph::Kind::float_, state.shape});
    put_fields(out, fields);
    for (const UpdateState& state : states) out.real(state.initial);
}

std::vector<UpdateState> get_states(WireReader& in, Status& status) {
    std::vector<UpdateState> states;
    for (const BatchField& field : get_fields(in, status)) states.push_back({field.name, field.shape, in.real()});
    return states;
}

// Preserves numbers and texts exactly, including those that JSON cannot represent.
void put_spec(WireWriter& out, const PartsSpec& spec) {
    std::string bytes; // of char, because libc++ has no char_traits for unsigned types, which the library would use
    json::to_cbor(packed(spec), bytes);
    out.text(bytes);
}

Result<PartsSpec> get_spec(WireReader& in) {
    const std::string_view bytes = in.text();
    try {
        return unpacked(json::from_cbor(bytes.begin(), bytes.end()));
    } catch (const json::exception& e) { return corrupt(fmt::format("a composition that is none: {}", e.what())); }
}

void put_read_keys(WireWriter& out, const ReadKeys& read) {
    put_keys(out, read.architecture);
    put_keys(out, read.objective);
    for (const auto* lists : {&read.adapters, &read.combiners, &read.heads, &read.optimizers}) put_lists(out, *lists);
    for (const auto& other : {read.teacher, read.value}) {
        out.flag(other != nullptr);
        if (other != nullptr) put_read_keys(out, *other);
    }
}

ReadKeys get_read_keys(WireReader& in, int depth) {
    ReadKeys read;
    read.architecture = get_keys(in);
    read.objective = get_keys(in);
    for (auto* lists : {&read.adapters, &read.combiners, &read.heads, &read.optimizers}) *lists = get_lists(in);
    constexpr int kDeepest = 8; // teachers of teachers; deeper ones are not read, which finish() reports
    for (auto* other : {&read.teacher, &read.value})
        if (in.flag() && depth < kDeepest) *other = std::make_shared<const ReadKeys>(get_read_keys(in, depth + 1));
    return read;
}

void put_example(WireWriter& out, const hk_example& example) {
    out.number(example.index);
    out.number(example.epoch);
    out.number(example.document);
    out.number(example.column_count);
    for (uint32_t i = 0; i < example.column_count; ++i) {
        const hk_column& column = example.columns[i];
        out.integer(column.kind);
        out.text(view(column.name));
        const bool numbers = column.kind == HK_COLUMN_NUMBERS;
        out.array(std::span<const int32_t>(column.ids, numbers ? 0 : column.size));
        out.array(std::span<const float>(column.numbers, numbers ? column.size : 0));
        out.array(std::span<const uint64_t>(column.parts, column.part_count));
    }
}

hk_example ReadExamples::get(WireReader& in) {
    hk_example example{};
    example.struct_size = sizeof example;
    example.index = in.number();
    example.epoch = in.number();
    example.document = in.number();
    std::vector<hk_column>& columns = columns_.emplace_back(in.count());
    for (hk_column& column : columns) {
        column.struct_size = sizeof column;
        column.kind = static_cast<int32_t>(in.integer());
        const std::string_view name = in.text();
        const std::span<const int32_t> ids = in.array<int32_t>();
        const std::span<const float> numbers = in.array<float>();
        const std::span<const uint64_t> parts = in.array<uint64_t>();
        column.name = {name.data(), name.size()};
        column.ids = ids.data();
        column.numbers = numbers.data();
        column.size = column.kind == HK_COLUMN_NUMBERS ? numbers.size() : ids.size();
        column.parts = parts.data();
        column.part_count = parts.size();
    }
    example.column_count = static_cast<uint32_t>(columns.size());
    example.columns = columns.data();
    return example;
}

} // namespace hekla::plugin
