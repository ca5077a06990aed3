#include "plugin/composition/neutral_keys.hpp"

#include "plugin/composition/alternatives.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace hekla::plugin {
namespace {

using nlohmann::json;

struct NeutralKey {
    std::string_view key, values;
};
constexpr NeutralKey kNeutralKeys[] = {
#define HK_NEUTRAL(key, values) {key, values},
#include "plugin/composition/neutral_keys.inc"
#undef HK_NEUTRAL
};

std::string in_json(const json& value) {
    constexpr std::size_t kLongest = 80;
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

bool was_read(const std::set<std::string>& read, const std::string& key) { // itself, or anything below it
    const auto found = read.lower_bound(key);
    if (found != read.end() && *found == key) return true;
    const std::string below = key + ".";
    const auto member = read.lower_bound(below);
    return member != read.end() && member->starts_with(below);
}

// Refuses members of an object, and of objects in it, that were not read.
Status check_members(const json& object, const std::string& path, const std::set<std::string>& read,
                     const std::string& where, const std::string& what) {
    if (!object.is_object()) return {};
    for (const auto& [member, inner] : object.items()) {
        const std::string key = fmt::format("{}.{}", path, member);
        if (inner.is_null() || read.contains(key)) continue;
        if (!was_read(read, key))
            return unsupported(fmt::format("{}{} is {}, which {} does not know: use a model without it", where, key,
                                           in_json(inner), what));
        HK_TRY(check_members(inner, key, read, where, what));
    }
    return {};
}

bool has_parameter(const Provided& provided, std::string_view key) {
    return std::ranges::find(provided.parameters, key) != provided.parameters.end();
}

// Returns the first of these keys that is an integer.
std::optional<int64_t> integer_of(const json& values, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
        if (const auto found = values.find(key); found != values.end() && found->is_number_integer())
            return found->get<int64_t>();
    return {};
}

class Neutral {
public:
    Neutral(const Provided& provided, const json& values) : provided_(provided), values_(values) {}

    // Returns whether a value is one of the alternatives.
    bool any(std::string_view alternatives, const json& value) const {
        return any_alternative(alternatives, [&](std::string_view one) { return is(one, value); });
    }
    // Returns the alternatives for a message.
    std::string expected(std::string_view alternatives) const {
        std::string all;
        any_alternative(alternatives, [&](std::string_view alternative) {
            if (const std::string one = text(alternative); !one.empty() && all.find(one) == all.npos)
                all += (all.empty() ? "" : " or ") + one;
            return false;
        });
        return all;
    }

private:
    std::optional<int64_t> hidden() const { return integer_of(values_, {"hidden_size", "n_embd", "d_model", "dim"}); }
    std::optional<int64_t> head() const {
        if (const auto given = integer_of(values_, {"head_dim"}); given && has_parameter(provided_, "head_dim"))
            return given;
        const auto width = hidden(), heads = integer_of(values_, {"num_attention_heads", "n_head", "n_heads"});
        if (!width || !heads || *heads <= 0) return {};
        return *width / *heads;
    }
    bool is_causal() const {
        const auto key = values_.find(provided_.causal);
        return provided_.causal == "yes" || (key != values_.end() && *key == true);
    }
    bool is_masked() const { return is_causal() || has_parameter(provided_, "decoder_start_token_id"); }
    bool has_rotary() const { return has_parameter(provided_, "rope_parameters"); }
    const json* activation() const {
        for (const char* key : {"hidden_act", "activation_function", "activation", "afn", "ff_activation"})
            if (has_parameter(provided_, key))
                if (const auto found = values_.find(key); found != values_.end()) return &*found;
        return nullptr;
    }
    static bool all(const json& value, std::initializer_list<json> of) {
        return value.is_array() &&
               std::ranges::all_of(value, [&](const json& one) { return std::ranges::find(of, one) != of.end(); });
    }

    bool is(std::string_view alternative, const json& value) const {
        if (alternative == "hidden") return hidden() && value == *hidden();
        if (alternative == "head") return head() && value == *head();
        if (alternative == "activation") return activation() != nullptr && value == *activation();
        if (alternative == "causal") return value == is_causal() || (value.is_null() && !is_causal());
        if (alternative == "masked") return value == is_masked() || (value.is_null() && !is_masked());
        if (alternative == "positions")
            return value.is_null() || value == "absolute" || (has_rotary() && (value == "rope" || value == "rotary"));
        if (alternative == "rope") {
            if (value.is_null() || (value.is_object() && value.empty())) return true;
            if (!value.is_object() || !has_rotary()) return false;
            return std::ranges::all_of(value.items(), [](const auto& one) {
                return one.key() == "rope_theta" || one.value() == "default" ||
                       (one.key() == "partial_rotary_factor" && one.value() == 1);
            });
        }
        if (alternative == "full") return all(value, {json("full_attention")});
        if (alternative == "ones") return all(value, {json(1), json(true)});
        if (alternative == "window") {
            const auto used = values_.find("use_sliding_window");
            return value.is_number() && used != values_.end() && *used == false;
        }
        const json literal = json::parse(alternative, nullptr, false);
        return value == literal;
    }
    std::string text(std::string_view alternative) const {
        if (alternative == "hidden") return hidden() ? fmt::format("{}", *hidden()) : "";
        if (alternative == "head") return head() ? fmt::format("{}", *head()) : "";
        if (alternative == "activation") return activation() != nullptr ? in_json(*activation()) : "";
        if (alternative == "causal") return is_causal() ? "true" : "false";
        if (alternative == "masked") return is_masked() ? "true" : "false";
        if (alternative == "positions") return has_rotary() ? "null, \"absolute\" or \"rope\"" : "null or \"absolute\"";
        if (alternative == "rope") return has_rotary() ? "null or the type \"default\"" : "null";
        if (alternative == "full") return "only \"full_attention\"";
        if (alternative == "ones") return "only 1";
        if (alternative == "window") return "use_sliding_window = false";
        return std::string(alternative);
    }

    const Provided& provided_;
    const json& values_;
};

} // namespace

Status check_neutral_keys(const Provided& provided, const json& given, const json& values,
                          const std::set<std::string>& read, const std::string& what, const std::string& file) {
    const std::string where = file.empty() ? std::string() : file + ": ";
    const Neutral neutral(provided, values);
    for (const NeutralKey& one : kNeutralKeys) {
        const std::string key(one.key);
        const auto found = given.find(key);
        if (found == given.end() || was_read(read, key) || neutral.any(one.values, *found)) continue;
        return unsupported(
            fmt::format("{}{} is {}, which changes the computation, and {} does not compute it; expected "
                        "{}: use a model that was trained without it",
                        where, key, in_json(*found), what, neutral.expected(one.values)));
    }
    // Members of an object of which others were read.
    for (const auto& [key, value] : given.items()) {
        if (value.is_null() || read.contains(key) || !was_read(read, key)) continue;
        if (!value.is_object() && !value.is_array())
            return invalid_argument(fmt::format("{}{} is {}, expected an object", where, key, in_json(value)));
        HK_TRY(check_members(value, key, read, where, what));
    }
    return {};
}

} // namespace hekla::plugin
