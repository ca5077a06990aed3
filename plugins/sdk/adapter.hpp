// C++ wrappers for adapters: HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "lora", adapter<Lora>()}). The manifest asks for
// "abi_minor_needed": 1.
#pragma once

#include "hekla_plugin.hpp"

#include "hekla/plugin/adapter.h"

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// The host's functions for adapters.
inline const hk_adapter_host& adapter_host() {
    const hk_host* host = host_interfaces().host;
    const void* table = host->get_interface(host, text(HK_ADAPTER_HOST_INTERFACE));
    if (table == nullptr) throw unsupported(std::string("the host lacks ") + HK_ADAPTER_HOST_INTERFACE);
    return *static_cast<const hk_adapter_host*>(table);
}

// The names of an object's members; empty if the key is missing.
inline std::vector<std::string> members_of(const Config& config, const std::string& key) {
    std::vector<std::string> names;
    for (uint64_t i = 0, count = config.has(key) ? config.count(key) : 0; i < count; ++i) {
        hk_string name{};
        if (adapter_host().member(config.raw(), text(key), i, &name, nullptr) != HK_OK)
            throw invalid(key + " is not an object");
        names.emplace_back(view(name));
    }
    return names;
}

// Returns whether the regular expression matches the whole text.
inline bool matches_expression(std::string_view expression, std::string_view whole) {
    int32_t matched = 0;
    if (adapter_host().matches(text(expression), text(whole), &matched, nullptr) != HK_OK)
        throw invalid("'" + std::string(expression) + "' is not a regular expression, or takes too many steps");
    return matched != 0;
}

// A parameter of the adapter that begins with the values of `value`, which depends on parameters of the body alone.
inline Value initial_parameter(Graph& g, std::string_view name, Value value, uint32_t flags = 0) {
    const hk_value made = adapter_host().initial(g.raw(), text(name), value.id, flags);
    if (made == 0) throw invalid("the parameter '" + std::string(name) + "' cannot begin with this value");
    return {&g, made};
}

// A place of the network where an adapter acts: hk_adapter_site.
struct Site {
    explicit Site(const hk_adapter_site& site)
        : kind(site.kind), name(view(site.name)), parameter(view(site.parameter)), bias(view(site.bias)), in(site.in),
          out(site.out), index(site.index), of_head((site.flags & HK_SITE_OF_HEAD) != 0),
          of_attention((site.flags & HK_SITE_OF_ATTENTION) != 0), of_cross((site.flags & HK_SITE_OF_CROSS) != 0),
          of_tokens((site.flags & HK_SITE_OF_TOKENS) != 0), of_decoder((site.flags & HK_SITE_OF_DECODER) != 0) {}

    bool linear() const { return kind == HK_SITE_LINEAR; }
    bool embedding() const { return kind == HK_SITE_EMBEDDING; }
    bool norm() const { return kind == HK_SITE_NORM; }
    bool residual() const { return kind == HK_SITE_RESIDUAL; }
    bool attention() const { return kind == HK_SITE_ATTENTION; }

    int32_t kind;
    std::string_view name, parameter, bias;
    int64_t in, out, index;
    bool of_head;
    bool of_attention, of_cross; // of a residual site
    bool of_tokens;              // of an embedding
    bool of_decoder;             // of attention: in an encoder-decoder
};

// hk_site_values.
struct SiteValues {
    Value x, y, weight, bias, normed;
};

// hk_site_answer: delta(v), instead(v), result(v), at_virtual_tokens(v), or {} for none.
struct SiteAnswer {
    int32_t kind = HK_ANSWER_NONE;
    Value value{}, second{}, input{}, a{}, b{};
};
// input: what the value is computed from; without it, the site's y.
inline SiteAnswer delta(Value value, Value input = {}) { return {HK_ANSWER_DELTA, value, {}, input}; }
// A change of a linear layer that is a number times (input A^T) B^T: a [r, in], b [out, r].
inline SiteAnswer low_rank_delta(Value value, Value input, Value a, Value b) {
    return {HK_ANSWER_DELTA, value, {}, input, a, b};
}
inline SiteAnswer instead(Value value, Value input = {}) { return {HK_ANSWER_VALUE, value, {}, input}; }
inline SiteAnswer result(Value value) { return {HK_ANSWER_RESULT, value}; }
inline SiteAnswer at_virtual_tokens(Value value, Value second = {}) { return {HK_ANSWER_VIRTUAL, value, second}; }

// What a site computes with after merging.
struct MergedSite {
    Value weight, bias;
};

template<class T>
concept AdaptsSites = requires(T& t, Graph& g, const Site& s, const SiteValues& v) {
    { t.adapt(g, s, v) } -> std::same_as<SiteAnswer>;
};
template<class T>
concept TrainsSites = requires(T& t, const Site& s) {
    { t.trains(s) } -> std::same_as<uint32_t>;
};
// How many virtual tokens begin each row, whether heads and objective do not see them, and whether the row's own tokens
// begin at position 0.
struct VirtualTokens {
    int64_t count = 0;
    bool hidden = false;
    bool without_positions = false;
};
template<class T>
concept AddsTokens = requires(T& t) {
    { t.virtual_tokens() } -> std::same_as<VirtualTokens>;
};
template<class T>
concept MergesSites = requires(T& t, Graph& g, const Site& s, const SiteValues& v) {
    { t.merge(g, s, v) } -> std::same_as<MergedSite>;
};
template<class T>
concept WritesConfig = requires(T& t, ConfigWriter& w) {
    t.write(w);
};

// An adapter T has: T(const Config&), bool wants(const Site&), SiteAnswer adapt(Graph&, const Site&, const
// SiteValues&), and if it can be merged MergedSite merge(Graph&, const Site&, const SiteValues&), and if PEFT has such
// an adapter void write(ConfigWriter&). uint32_t trains(const Site&) selects parameters of sites that are trained
// (HK_TRAINS_WEIGHT...); an adapter that does only this has no adapt(). VirtualTokens virtual_tokens(): its tokens.
template<class T>
const hk_adapter* adapter() {
    static const hk_adapter kTable = [] {
        hk_adapter table{};
        table.create = [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
        };
        table.destroy = [](void* self) { delete static_cast<T*>(self); };
        table.wants = [](void* self, const hk_adapter_site* site, int32_t* wanted, hk_error* error) -> int32_t {
            return guarded(error, [&] { *wanted = static_cast<T*>(self)->wants(Site(*site)) ? 1 : 0; });
        };
        if constexpr (TrainsSites<T>)
            table.trains = [](void* self, const hk_adapter_site* site, uint32_t* trained, hk_error* error) -> int32_t {
                return guarded(error, [&] { *trained = static_cast<T*>(self)->trains(Site(*site)); });
            };
        if constexpr (AddsTokens<T>)
            table.virtual_tokens = [](void* self, int64_t* count, uint32_t* flags, hk_error* error) -> int32_t {
                return guarded(error, [&] {
                    const VirtualTokens tokens = static_cast<T*>(self)->virtual_tokens();
                    *count = tokens.count;
                    *flags = (tokens.hidden ? HK_VIRTUAL_HIDDEN : 0) |
                             (tokens.without_positions ? HK_VIRTUAL_WITHOUT_POSITIONS : 0);
                });
            };
        table.adapt = [](void* self, hk_builder* builder, const hk_adapter_site* site, const hk_site_values* values,
                         hk_site_answer* answer, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                if constexpr (AdaptsSites<T>) {
                    Graph g(builder);
                    const SiteAnswer made = static_cast<T*>(self)->adapt(g, Site(*site),
                                                                         {{&g, values->x},
                                                                          {&g, values->y},
                                                                          {&g, values->weight},
                                                                          {&g, values->bias},
                                                                          {&g, values->normed}});
                    answer->kind = made.kind;
                    answer->value = made.value.id;
                    answer->second = made.second.id;
                    answer->input = made.input.id;
                    answer->a = made.a.id;
                    answer->b = made.b.id;
                }
            });
        };
        if constexpr (MergesSites<T>)
            table.merge = [](void* self, hk_builder* builder, const hk_adapter_site* site, const hk_site_values* values,
                             hk_value* weight, hk_value* bias, hk_error* error) -> int32_t {
                return guarded(error, [&] {
                    Graph g(builder);
                    const MergedSite made = static_cast<T*>(self)->merge(
                        g, Site(*site), {{}, {}, {&g, values->weight}, {&g, values->bias}, {}});
                    *weight = made.weight.id;
                    *bias = made.bias.id;
                });
            };
        if constexpr (WritesConfig<T>)
            table.write_config = [](void* self, hk_config_writer* writer, hk_error* error) -> int32_t {
                return guarded(error, [&] {
                    ConfigWriter out(writer);
                    static_cast<T*>(self)->write(out);
                });
            };
        return table;
    }();
    return &kTable;
}

} // namespace hekla::plugin
