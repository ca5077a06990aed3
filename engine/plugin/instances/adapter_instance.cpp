#include "plugin/instances/adapter_instance.hpp"

#include <algorithm>

namespace hekla::plugin {

std::string what_of(const AdapterSpec& adapter) {
    return adapter.name.empty() ? fmt::format("adapter '{}'", adapter.part.id)
                                : fmt::format("adapter '{}' ({})", adapter.name, adapter.part.id);
}

Result<Invocation> invocation_of(const AdapterSpec& adapter) {
    Invocation invocation{adapter.name.empty() ? kAdapterStart : fmt::format("{}.{}", kAdapterStart, adapter.name), {}};
    const nlohmann::json given = adapter.part.config.value(kInvocationTokens, nlohmann::json());
    if (given.is_null()) return invocation;
    constexpr std::size_t kMost = 1024;
    const auto refuse = [&] {
        const std::string shown = given.size() > kMost
                                      ? fmt::format("a list of {}", given.size())
                                      : given.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        return invalid_argument(fmt::format("{}: {} is {}; expected a list of 1 to {} token ids", what_of(adapter),
                                            kInvocationTokens, shown, kMost));
    };
    if (!given.is_array() || given.empty() || given.size() > kMost) return refuse();
    for (const nlohmann::json& id : given) {
        if (!id.is_number_integer() || id < 0 || id >= kNeverStarts) return refuse();
        invocation.tokens.push_back(id.get<int32_t>());
    }
    return invocation;
}

int64_t last_invocation(std::span<const int32_t> row, std::span<const int32_t> tokens) {
    const auto found = std::ranges::find_end(row, tokens);
    return found.empty() ? -1 : found.begin() - row.begin();
}

Status AdapterInstance::create(const AdapterSpec& spec, std::set<std::string>& read) {
    name_ = spec.name;
    trained_ = spec.trained;
    instance_.what = what_of(spec);
    HK_TRY(open_instance(registry_, HK_ADAPTER_INTERFACE, spec.part.id, instance_));
    HK_TRY(create_instance(
        registry_, instance_, spec.part.config, read,
        [&](const hk_config* config, void** self, hk_error* e) { return instance_.table->create(config, self, e); }));
    // The host trains and saves these, whatever the adapter is.
    const nlohmann::json saved = spec.part.config.value("modules_to_save", nlohmann::json::array());
    if (!saved.is_array() || !std::ranges::all_of(saved, [](const nlohmann::json& one) { return one.is_string(); }))
        return invalid_argument(fmt::format("{}: modules_to_save is {}; expected a list of names of modules",
                                            instance_.what,
                                            saved.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    read.insert("modules_to_save");
    HK_ASSIGN(invocation_, invocation_of(spec));
    return read_virtual_tokens();
}

Result<nlohmann::ordered_json> AdapterInstance::write_config() const {
    if (instance_.table->write_config == nullptr)
        return unsupported(fmt::format("{} has no form in PEFT", instance_.what));
    hk_config_writer writer;
    HK_TRY(call(registry_, instance_, instance_.what + ": write_config", "write_config",
                [&](hk_error* e) { return instance_.table->write_config(instance_.self, &writer, e); }));
    Result<nlohmann::ordered_json> written = written_json(writer);
    HK_TRY(written.status().with_context(instance_.what + ": write_config"));
    return written;
}

std::string AdapterInstance::prefix(const Site& site) const {
    std::string prefix = kAdapter;
    if (!name_.empty()) prefix += name_ + ".";
    if (virtual_tokens_.count == 0) prefix += site.name + ".";
    return prefix;
}

Result<AdapterInstance::Wish> AdapterInstance::ask(const Site& site) const {
    const hk_adapter_site table = table_of(site);
    Wish wish;
    int32_t wanted = 0;
    HK_TRY(call(registry_, instance_, fmt::format("{}: wants() of '{}'", instance_.what, site.name), "wants",
                [&](hk_error* e) { return instance_.table->wants(instance_.self, &table, &wanted, e); }));
    wish.wanted = wanted != 0;
    if (instance_.table->trains == nullptr || !trained_) return wish;
    const std::string what = fmt::format("{}: trains() of '{}'", instance_.what, site.name);
    HK_TRY(call(registry_, instance_, what, "trains",
                [&](hk_error* e) { return instance_.table->trains(instance_.self, &table, &wish.trained, e); }));
    const uint32_t possible =
        (site.parameter.empty() ? 0u : HK_TRAINS_WEIGHT) | (site.bias.empty() ? 0u : HK_TRAINS_BIAS);
    if ((wish.trained & ~possible) != 0)
        return invalid_argument(
            fmt::format("{}: it trains {:#x}, and the site has the parameters {:#x}", what, wish.trained, possible));
    return wish;
}

Result<AdapterInstance::Answer> AdapterInstance::adapt(Joint& joint, const Site& site, const SiteInputs& inputs,
                                                       graph::ValueId layer) const {
    graph::Builder& builder = joint.builder;
    const std::string what = fmt::format("{}: adapt() of '{}'", instance_.what, site.name);
    hk_builder view(joint, next_tag());
    const hk_adapter_site table = table_of(site);
    const bool residual = site.kind == HK_SITE_RESIDUAL, attention = site.kind == HK_SITE_ATTENTION;
    const hk_site_values values{
        sizeof(hk_site_values),
        handle_of(&view, inputs.x),
        handle_of(&view, inputs.y),
        layer != graph::kNone ? handle_of(&view, site_weight(builder, site, layer)) : 0,
        layer != graph::kNone ? handle_of(&view, site_bias(builder.graph(), site, layer)) : 0,
        handle_of(&view, inputs.normed),
        0,
    };
    hk_site_answer answer{sizeof(hk_site_answer), HK_ANSWER_NONE, 0, 0, 0, 0, 0, 0};
    HK_TRY(describe_inside(registry_, instance_, view, what, "adapt", [&](hk_builder* b, hk_error* e) {
        return instance_.table->adapt(instance_.self, b, &table, &values, &answer, e);
    }));
    if (answer.reserved != 0 || (answer.second != 0 && answer.kind != HK_ANSWER_VIRTUAL))
        return invalid_argument(fmt::format("{}: the answer's reserved and second are {} and {}, expected 0", what,
                                            answer.reserved, answer.second));
    if (answer.kind == HK_ANSWER_NONE) return Answer();
    const bool of_rows = site.kind == HK_SITE_NORM && builder.shape(inputs.y).rank() == 3;
    const bool tokens = site.of_tokens() || of_rows || attention;
    const bool possible = answer.kind == HK_ANSWER_VIRTUAL ? tokens && virtual_tokens_.count > 0
                          : answer.kind == HK_ANSWER_RESULT
                              ? residual
                              : !attention && answer.kind > HK_ANSWER_NONE && answer.kind <= HK_ANSWER_VALUE;
    if (!possible)
        return invalid_argument(
            fmt::format("{}: the answer's kind {} is not possible at a site of this kind", what, answer.kind));
    graph::Shape shape = builder.shape(inputs.y);
    if (answer.kind == HK_ANSWER_VIRTUAL)
        shape = attention ? graph::Shape{site.out, virtual_tokens_.count, site.in}
                          : graph::Shape{virtual_tokens_.count, site.out};
    Answer given{answer.kind};
    HK_ASSIGN(given.value, given_value(view, answer.value, shape, what));
    if (attention) {
        shape[2] = builder.shape(inputs.y)[3];
        HK_ASSIGN(given.second, given_value(view, answer.second, shape, what));
    }
    if (answer.a != 0 || answer.b != 0) {
        if (site.kind != HK_SITE_LINEAR || answer.kind != HK_ANSWER_DELTA)
            return invalid_argument(
                fmt::format("{}: a and b are given; expected 0 but for what is added at a linear layer", what));
        given.a = value_of(&view, answer.a, "the plugin");
        given.b = value_of(&view, answer.b, "the plugin");
        if (!builder.ok()) return builder.status().with_context(what);
        const graph::Shape a = builder.shape(given.a), b = builder.shape(given.b);
        if (a.rank() != 2 || b.rank() != 2 || a[0] != b[1] || a[1] != site.in || b[0] != site.out)
            return invalid_argument(fmt::format("{}: a and b are {} and {}, expected [r, {}] and [{}, r]", what,
                                                a.text(), b.text(), site.in, site.out));
    }
    given.input = inputs.y;
    if (answer.input != 0) {
        given.input = value_of(&view, answer.input, "the plugin");
        if (!builder.ok()) return builder.status().with_context(what);
    }
    return given;
}

Result<AdapterInstance::Merged> AdapterInstance::merge(Joint& joint, const Site& site, const Merged& given) const {
    if (instance_.table->merge == nullptr)
        return unsupported(
            fmt::format("{} cannot be merged: it is not a change of weights; use it unmerged", instance_.what));
    const std::string what = fmt::format("{}: merge() of '{}'", instance_.what, site.name);
    if (site.kind == HK_SITE_RESIDUAL || site.kind == HK_SITE_ATTENTION)
        return unsupported(fmt::format("{}: what is added to a block cannot be merged; use it unmerged", what));
    graph::Builder& builder = joint.builder;
    hk_builder view(joint, next_tag());
    const hk_adapter_site table = table_of(site);
    const hk_site_values values{sizeof(hk_site_values),       0, 0, handle_of(&view, given.weight),
                                handle_of(&view, given.bias), 0, 0};
    hk_value new_weight = values.weight, new_bias = values.bias;
    HK_TRY(describe_inside(registry_, instance_, view, what, "merge", [&](hk_builder* b, hk_error* e) {
        return instance_.table->merge(instance_.self, b, &table, &values, &new_weight, &new_bias, e);
    }));
    Merged merged = given;
    if (new_weight != values.weight) {
        HK_ASSIGN(merged.weight, given_value(view, new_weight, builder.shape(given.weight), what));
    }
    if (new_bias == values.bias) return merged;
    if (site.bias.empty()) return unsupported(fmt::format("{}: it changes the bias, and the layer has none", what));
    HK_ASSIGN(merged.bias, given_value(view, new_bias, builder.shape(given.bias), what));
    return merged;
}

Status AdapterInstance::read_virtual_tokens() {
    if (instance_.table->virtual_tokens == nullptr) return {};
    uint32_t flags = 0;
    const std::string what = instance_.what + ": virtual_tokens()";
    HK_TRY(call(registry_, instance_, what, "virtual_tokens", [&](hk_error* e) {
        return instance_.table->virtual_tokens(instance_.self, &virtual_tokens_.count, &flags, e);
    }));
    virtual_tokens_.hidden = (flags & HK_VIRTUAL_HIDDEN) != 0;
    virtual_tokens_.without_positions = (flags & HK_VIRTUAL_WITHOUT_POSITIONS) != 0;
    constexpr int64_t kMost = 1 << 16;
    constexpr uint32_t kKnown = HK_VIRTUAL_HIDDEN | HK_VIRTUAL_WITHOUT_POSITIONS;
    if (virtual_tokens_.count < 0 || virtual_tokens_.count > kMost || (flags & ~kKnown) != 0)
        return invalid_argument(fmt::format("{}: {} tokens and flags {:#x}; expected 0 to {}, and flags {:#x} at most",
                                            what, virtual_tokens_.count, flags, kMost, kKnown));
    return {};
}

} // namespace hekla::plugin
