#include "plugin/trace/trace_rules.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace hekla::plugin::trace {

void check_text(hk_string s) {
    if (s.data == nullptr && s.size > 0)
        report_broken("abi.1", fmt::format("a string is a null pointer with a size of {}", s.size));
    else if (!is_utf8(view(s)))
        report_broken("abi.1", fmt::format("{} is not UTF-8", quoted_text(view(s))));
}

void report(const Broken& broken) {
    if (broken) report_broken(broken->rule, broken->what);
}

BuilderState* state_of(const hk_builder* builder, std::string_view function) {
    Trace& t = *current_trace();
    std::unique_lock hold(t.lock);
    const auto found = t.builders.find(builder);
    if (found == t.builders.end()) {
        hold.unlock();
        report_broken("graph.8",
                      fmt::format("{}() with a builder whose build call is over; it is not carried out", function));
        return nullptr;
    }
    BuilderState* state = &found->second;
    const bool other = state->thread != std::this_thread::get_id();
    hold.unlock();
    if (other) report_broken("abi.9", fmt::format("{}() from another thread than the build call's", function));
    return state;
}

void check_value(const BuilderState& state, hk_value value, std::string_view function) {
    if (value != 0 && !state.values.contains(value))
        report_broken("graph.3",
                      fmt::format("{}() with the value {}, which this builder did not give", function, value));
}

void check_not_in_gradient(const BuilderState& state, const char* function) {
    if (state.in_gradient) report_broken("operation.7", fmt::format("{}() in a gradient", function));
}

uint32_t check_description(const hk_operation_description* given) {
    const std::optional<hk_operation_description> d = struct_of(given);
    if (!d) {
        report_broken("abi.5", "a description that is null or whose struct_size is not possible");
        return 0;
    }
    if (d->reserved != 0) report_broken("abi.8", "a description whose reserved member is not 0");
    const auto check = [](std::string_view name) {
        const bool good = !name.empty() && name[0] >= 'a' && name[0] <= 'z' && std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
        });
        if (!good) report_broken("operation.4", fmt::format("the name {}", quoted_text(name)));
    };
    for (uint32_t i = 0; d->inputs != nullptr && i < std::min(d->input_count, 256u); ++i)
        if (const std::optional<hk_operation_input> input = struct_at(d->inputs, i)) check(view(input->name));
    for (uint32_t i = 0; d->attributes != nullptr && i < std::min(d->attribute_count, 256u); ++i)
        if (const std::optional<hk_operation_attribute> a = struct_at(d->attributes, i)) check(view(a->name));
    for (uint32_t i = 0; d->outputs != nullptr && i < std::min(d->output_count, 256u); ++i) check(view(d->outputs[i]));
    return d->local_size;
}

} // namespace hekla::plugin::trace
