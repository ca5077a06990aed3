#include "plugin/host/host_adapter.hpp"

#include "plugin/host/host_config.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/joint.hpp"
#include "plugin/host/site.hpp"
#include "text/expression.hpp"

#include <cmath>
#include <fmt/format.h>

namespace hekla::plugin {
namespace {

int32_t member(const hk_config* config, hk_string key, uint64_t index, hk_string* out, hk_error* error) {
    try {
        config->read.emplace(view(key));
        const nlohmann::json* object = find_value(*config, view(key));
        if (object == nullptr || !object->is_object() || index >= object->size())
            return refuse(error, HK_NOT_FOUND,
                          fmt::format("config key '{}' is not an object with a member {}", view(key), index));
        auto at = object->begin();
        std::advance(at, static_cast<std::ptrdiff_t>(index));
        *out = {at.key().data(), at.key().size()};
        return HK_OK;
    } catch (const std::exception& e) { return refuse_exception(error, e); }
}

int32_t matches(hk_string expression, hk_string text, int32_t* matched, hk_error* error) {
    try {
        const Result<bool> found = text::matches_expression(view(expression), view(text));
        if (!found.ok()) return refuse(error, HK_INVALID_ARGUMENT, found.message());
        *matched = found.value() ? 1 : 0;
        return HK_OK;
    } catch (const std::exception& e) { return refuse_exception(error, e); }
}

hk_value initial(hk_builder* b, hk_string given, hk_value handle, uint32_t flags) {
    graph::Builder& builder = b->joint.builder;
    try {
        if (!builder.ok()) return 0;
        const std::string name(view(given));
        const auto fail = [&](const std::string& message) {
            builder.fail(invalid_argument(fmt::format("initial '{}': {}", name, message)));
            return hk_value{0};
        };
        constexpr uint32_t kKnown = HK_PARAMETER_NO_DECAY | HK_INITIAL_FIXED;
        if ((flags & ~kKnown) != 0)
            return fail(fmt::format("the flags are {:#x}, expected {:#x} at most", flags, kKnown));
        if (name.empty() || !is_utf8(name)) return fail("the name is empty or not UTF-8");
        if (b->joint.prefix.empty()) return fail("only an adapter's adapt() and merge() have such parameters");
        const graph::ValueId value = value_of(b, handle, "initial");
        if (value == graph::kNone) return 0;
        if (!graph::is_float(builder.kind(value))) return fail("the value is not float");
        if (!depends_on_parameters_alone(builder.graph(), value))
            return fail("the value depends on the batch or on random numbers");
        const std::string whole = b->joint.prefix + name;
        b->joint.initial.emplace(whole, value);
        return handle_of(b, builder.parameter(whole, builder.shape(value), HK_INITIALIZE_CONSTANT, 0.0, 0.0, flags));
    } catch (const std::exception& e) {
        try {
            builder.fail(Status(Code::out_of_memory, e.what()));
        } catch (...) {} // the builder keeps its first error
        return 0;
    }
}

} // namespace

const hk_adapter_host* host_adapter_interface() {
    static const hk_adapter_host kTable = {member, matches, initial};
    return &kTable;
}

} // namespace hekla::plugin
