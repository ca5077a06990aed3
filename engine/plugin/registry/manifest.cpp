#include "plugin/registry/manifest.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/strict_table.hpp"
#include "hekla/plugin/abi.h"
#include "plugin/instances/table_slots.hpp"
#include "plugin/registry/version_range.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>

namespace hekla::plugin {
namespace {

using nlohmann::json;

// What is shared while one manifest is read: the storage of texts, and the first error.
struct Reading {
    Reading(StringInterner& texts, const std::string& file) : kept(texts), table(file, Code::corrupt) {
        table.refuses_control_characters = true;
    }
    StringInterner& kept;
    TableReading table;
};

// A reader of one object whose texts are stored.
class ManifestTable : public StrictTable {
public:
    ManifestTable(const json& object, const std::string& path, Reading& reading, const char* title = "")
        : StrictTable(object, reading.table, path, title), reading_(reading) {}

    std::string_view text(const char* key) { return keep(find(key), key); }
    std::string_view required_text(const char* key) { return keep(require(key), key); }
    uint32_t number(const char* key) {
        int64_t number = 0;
        require(key, number, NumberRange{0.0, std::numeric_limits<uint32_t>::max()});
        return static_cast<uint32_t>(number);
    }
    Texts texts(const char* key) {
        std::vector<std::string> given;
        read(key, given);
        std::vector<std::string_view> result;
        for (const std::string& one : given) result.push_back(reading_.kept.text(one));
        return reading_.kept.list(result);
    }
    // Reads an object of strings, or an array of pairs of strings (which keeps its order).
    TextPairs pairs(const char* key) {
        const json* value = find(key);
        std::vector<TextPair> result;
        if (value == nullptr) return {};
        if (!value->is_object() && !value->is_array()) {
            wrong(*value, key, "an object of strings, or an array of pairs of strings");
            return {};
        }
        for (const auto& [name, entry] : value->items()) {
            const bool is_pair = value->is_array() && entry.is_array() && entry.size() == 2;
            if (value->is_array() && !is_pair) {
                wrong(entry, fmt::format("{}[{}]", key, name), "a pair of strings");
                return {};
            }
            result.push_back({keep(is_pair ? entry[0] : json(name), key), keep(is_pair ? entry[1] : entry, key)});
        }
        return reading_.kept.list(result);
    }
    const json& object(const char* key) {
        static const json& kNone = *new json(json::object());
        const json* value = find(key);
        if (value != nullptr && !value->is_object()) wrong(*value, key, "an object");
        return value != nullptr && value->is_object() ? *value : kNone;
    }
    JsonText json_text(const char* key) { return json_text(object(key)); }
    JsonText json_text(const json& object) {
        return object.empty() ? JsonText() : JsonText{reading_.kept.text(object.dump())};
    }
    // Calls each() with every object of an array.
    template<class Each>
    void objects(const char* key, const Each& each) {
        const json* list = find(key);
        if (list != nullptr && !list->is_array()) wrong(*list, key, "an array");
        for (std::size_t i = 0; list != nullptr && list->is_array() && i < list->size(); ++i) {
            ManifestTable entry((*list)[i], path_of(key, i), reading_);
            each(entry);
        }
    }
    std::optional<double> bound(const char* key) {
        double number = 0.0;
        return read(key, number) ? std::optional(number) : std::nullopt;
    }
    bool flag(const char* key) {
        bool value = false;
        read(key, value);
        return value;
    }

private:
    std::string_view keep(const json* value, const char* key) {
        return value != nullptr ? keep(*value, key) : std::string_view();
    }
    std::string_view keep(const json& value, const char* key) {
        std::string text;
        take(value, key, text);
        return reading_.kept.text(text);
    }
    Reading& reading_;
};

// In a cycle of ties no tensor would hold the values.
void check_ties(TextPairs ties, ManifestTable& rules) {
    for (const auto& [alias, parameter] : ties) {
        std::string_view at = parameter;
        std::string cycle = fmt::format("'{}' -> '{}'", alias, parameter);
        for (std::size_t hops = 0; hops < ties.size() && at != alias; ++hops) {
            const auto next = std::ranges::find(ties, at, &TextPair::from);
            if (next == ties.end()) break;
            at = next->to;
            cycle += fmt::format(" -> '{}'", at);
        }
        if (at == alias)
            rules.fail("ties", fmt::format("{} is a cycle; name the parameter that holds the values", cycle));
    }
}

// The parameters of one entry, before they are stored.
struct Parameters {
    std::vector<std::string_view> keys, nullable;
    json defaults = json::object();
    std::map<std::string_view, Range> ranges;
};

// Reads one parameter: its key, its default, the range of its number and whether it may be null.
void read_parameter(ManifestTable& in, Parameters& parameters) {
    auto& [keys, nullable, defaults, ranges] = parameters;
    const std::string_view key = in.required_text("key");
    in.text("about");
    const Range range{key, in.bound("minimum"), in.bound("maximum")};
    const json* fallback = in.find("default");
    if (in.flag("null")) nullable.push_back(key);
    in.finish();
    if (std::ranges::find(keys, key) != keys.end())
        in.fail("key", fmt::format("the parameter \"{}\" is listed twice", key));
    keys.push_back(key);
    if (range.minimum && range.maximum && *range.minimum > *range.maximum)
        in.fail("minimum", fmt::format("{} is above the maximum {}", *range.minimum, *range.maximum));
    if (range.minimum || range.maximum) ranges[key] = range;
    if (fallback == nullptr) return;
    defaults[key] = *fallback;
    if ((!range.minimum && !range.maximum) || fallback->is_null() || fallback->is_array()) return;
    const std::string shown = shown_value(*fallback);
    if (!fallback->is_number()) {
        in.fail("default", fmt::format("{} is not a number, and the parameter has a range", shown));
        return;
    }
    const auto number = fallback->get<double>();
    if (range.minimum && number < *range.minimum)
        in.fail("default", fmt::format("{} is below the minimum {}", shown, *range.minimum));
    if (range.maximum && number > *range.maximum)
        in.fail("default", fmt::format("{} is above the maximum {}", shown, *range.maximum));
}

// Checks the keys of "check"; the tests that read their values check these.
void check_keys_of_check(ManifestTable in) {
    for (const char* key : {"architecture", "attributes", "branches", "config", "head", "head_config", "integers",
                            "learning_rate", "objective", "objective_config", "range", "shapes", "skip"})
        in.find(key);
    for (const auto& [test, reason] : in.object("waive").items())
        if (!reason.is_string() || reason.get_ref<const std::string&>().empty())
            in.fail("waive", fmt::format("\"{}\" needs the reason as a string, found {}", test, shown_value(reason)));
    in.finish();
}

Ancestor read_ancestor(ManifestTable& in, Texts parameters) {
    Ancestor ancestor;
    ancestor.model_type = in.required_text("model_type");
    ancestor.keys = in.pairs("keys");
    ancestor.names = in.pairs("names");
    ancestor.ignore = in.texts("ignore");
    in.finish();
    for (const auto& [theirs, ours] : ancestor.keys)
        if (std::ranges::find(parameters, ours) == parameters.end())
            in.fail("keys", fmt::format("\"{}\" on the right is not a key of \"parameters\"", ours));
    for (const auto& [theirs, ours] : ancestor.names)
        if (theirs.empty()) in.fail("names", "a name on the left is empty");
    return ancestor;
}

ReferenceClass read_class(ManifestTable& in) {
    ReferenceClass c;
    c.name = in.required_text("class");
    c.head = in.text("head");
    c.objective = in.text("objective");
    c.outputs = in.pairs("outputs");
    c.head_config = in.json_text("head_config");
    c.objective_config = in.json_text("objective_config");
    in.finish();
    return c;
}

Provided read_provided(ManifestTable& in, Reading& reading) {
    StringInterner& kept = reading.kept;
    Provided p;
    p.interface_id = in.required_text("interface");
    bool& strict = reading.table.refuses_unknown_keys;
    const bool was_strict = strict;
    strict = was_strict && (is_known_interface(p.interface_id) || is_draft(p.interface_id));
    p.id = in.required_text("id");
    p.about = in.text("about");
    Parameters parameters;
    in.objects("parameters", [&](ManifestTable& parameter) { read_parameter(parameter, parameters); });
    p.parameters = kept.list(parameters.keys);
    p.nullable = kept.list(parameters.nullable);
    p.defaults = in.json_text(parameters.defaults);
    std::vector<Range> by_key;
    for (const auto& [key, range] : parameters.ranges) by_key.push_back(range);
    p.ranges = kept.list(by_key);
    p.ignored = in.texts("ignored");
    p.causal = in.text("causal");
    p.segments = in.flag("segments");
    p.roles = in.texts("roles");
    p.check = in.json_text("check");
    check_keys_of_check(ManifestTable(in.object("check"), in.path_of("check"), reading));
    p.model_types = in.texts("model_types");
    ManifestTable rules(in.object("names"), in.path_of("names"), reading);
    p.names.prefix = rules.text("prefix");
    p.names.renames = rules.pairs("renames");
    p.names.ignore = rules.texts("ignore");
    p.names.stacks = rules.texts("stacks");
    p.names.ties = rules.pairs("ties");
    rules.finish();
    for (const std::string_view stack : p.names.stacks)
        if (const std::size_t place = stack.find(".#."); place == std::string_view::npos || place == 0)
            rules.fail("stacks", fmt::format("\"{}\" has no number between two dots, as \"experts.#.weight\"", stack));
    check_ties(p.names.ties, rules);
    std::vector<Ancestor> ancestors;
    in.objects("begins_as", [&](ManifestTable& one) { ancestors.push_back(read_ancestor(one, p.parameters)); });
    p.begins_as = kept.list(ancestors);
    std::vector<ReferenceClass> classes;
    in.objects("classes", [&](ManifestTable& one) { classes.push_back(read_class(one)); });
    p.classes = kept.list(classes);
    in.finish();
    strict = was_strict;
    return p;
}

// The minor versions that have these keys first: an older host would refuse them as unknown.
constexpr uint32_t kMinorOfNeeds = 1, kMinorOfNull = 2, kMinorOfStacks = 2, kMinorOfSegments = 2;

std::span<const Need> read_needs(ManifestTable& in, const Manifest& manifest, Reading& reading) {
    std::vector<Need> needs;
    in.objects("needs", [&](ManifestTable& one) {
        const Need need{one.required_text("plugin"), one.text("version")};
        one.finish();
        if (const auto range = VersionRange::parse(need.version); !range.ok()) one.fail("version", range.message());
        if (need.plugin == manifest.plugin) one.fail("plugin", "a plugin cannot need itself");
        if (std::ranges::find(needs, need.plugin, &Need::plugin) != needs.end())
            one.fail("plugin", fmt::format("\"{}\" is listed twice", need.plugin));
        needs.push_back(need);
    });
    if (!needs.empty() && reading.table.refuses_unknown_keys && manifest.abi_minor_needed < kMinorOfNeeds)
        in.fail("needs",
                fmt::format("plugins may need others from plugin ABI {0}.{1} on: set \"abi_minor_needed\": {1} "
                            "and build the plugin again",
                            HK_ABI_MAJOR, kMinorOfNeeds));
    return reading.kept.list(needs);
}

} // namespace

const Ancestor* Provided::ancestor(std::string_view model_type) const {
    const auto found = std::ranges::find(begins_as, model_type, &Ancestor::model_type);
    return found != begins_as.end() ? &*found : nullptr;
}

bool is_draft(std::string_view interface_id) {
    const std::size_t number = interface_id.rfind('/');
    return number != std::string_view::npos && interface_id.substr(0, number).ends_with(".draft");
}

json JsonText::parse() const { return json_or_null(text); }

Result<Manifest> read_manifest(const std::filesystem::path& file, ReadOnlyArena& kept) {
    StringInterner texts(kept);
    return read_manifest(file, texts);
}

Result<Manifest> read_manifest(const std::filesystem::path& file, StringInterner& kept) {
    HK_ASSIGN(const std::string content, read_file(file));
    HK_ASSIGN(const json root, parse_json_object(content, file.string()));
    Reading reading(kept, file.string());
    const bool& strict = reading.table.refuses_unknown_keys;
    Manifest m;
    m.file = kept.text(file.string());
    ManifestTable in(root, "", reading, "a manifest");
    m.abi_major = in.number("abi_major");
    m.abi_minor_needed = in.number("abi_minor_needed");
    // A newer manifest may have newer keys; loading the library reports the version.
    reading.table.refuses_unknown_keys = m.abi_major == HK_ABI_MAJOR && m.abi_minor_needed <= HK_ABI_MINOR;
    m.plugin = in.required_text("plugin");
    m.version = in.required_text("version");
    m.licence = in.required_text("licence");
    std::string library;
    in.require("library", library);
    if (library.find('/') != std::string::npos)
        in.fail("library",
                fmt::format("\"{}\" is a path; expected the name of a file in the manifest's folder", library));
    std::error_code ignored;
    m.library = kept.text((std::filesystem::absolute(file, ignored).parent_path() / library).string());
    m.sha256 = in.text("sha256");
    if (!m.sha256.empty() && !is_sha256_hex(m.sha256))
        in.fail("sha256", fmt::format("\"{}\" is not 64 digits of 0 to 9 and a to f", m.sha256));
    m.drafts = in.texts("drafts");
    for (const std::string_view draft : m.drafts)
        if (!is_draft(draft))
            in.fail("drafts", fmt::format("\"{}\" is not the id of a draft, such as \"hekla.adapter.draft/1\"", draft));
    m.needs = read_needs(in, m, reading);
    std::vector<Provided> provides;
    in.require("provides");
    in.objects("provides", [&](ManifestTable& one) { provides.push_back(read_provided(one, reading)); });
    m.provides = kept.list(provides);
    in.finish();
    for (const Provided& p : m.provides) {
        const uint32_t minor = minor_of_interface(p.interface_id);
        if (strict && minor > m.abi_minor_needed)
            in.fail("abi_minor_needed",
                    fmt::format("{} '{}' exists from plugin ABI {}.{} on, and the manifest asks for "
                                "{}.{}: set \"abi_minor_needed\": {} and build the plugin again",
                                p.interface_id, p.id, HK_ABI_MAJOR, minor, m.abi_major, m.abi_minor_needed, minor));
    }
    for (const Provided& p : m.provides)
        if (strict && !p.nullable.empty() && m.abi_minor_needed < kMinorOfNull)
            in.fail("provides", fmt::format("\"null\" of the parameter \"{0}\" exists from plugin ABI {1}.{2} on: set "
                                            "\"abi_minor_needed\": {2} and build the plugin again",
                                            p.nullable.front(), HK_ABI_MAJOR, kMinorOfNull));
    for (const Provided& p : m.provides)
        if (strict && !p.names.stacks.empty() && m.abi_minor_needed < kMinorOfStacks)
            in.fail("provides",
                    fmt::format("\"stacks\" exists from plugin ABI {0}.{1} on: set \"abi_minor_needed\": {1} "
                                "and build the plugin again",
                                HK_ABI_MAJOR, kMinorOfStacks));
    for (const Provided& p : m.provides)
        if (strict && p.segments && m.abi_minor_needed < kMinorOfSegments)
            in.fail("provides",
                    fmt::format("\"segments\" exists from plugin ABI {0}.{1} on: set \"abi_minor_needed\": {1} "
                                "and build the plugin again",
                                HK_ABI_MAJOR, kMinorOfSegments));
    for (const Provided& p : m.provides)
        if (is_draft(p.interface_id) && std::ranges::find(m.drafts, p.interface_id) == m.drafts.end())
            in.fail("provides", fmt::format("{} '{}' is a draft, and the manifest claims to be stable; add \"drafts\": "
                                            "[\"{}\"], and the plugin loads where that very draft is",
                                            p.interface_id, p.id, p.interface_id));
    HK_TRY(reading.table.status());
    return m;
}

} // namespace hekla::plugin
