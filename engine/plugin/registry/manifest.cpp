#include "plugin/registry/manifest.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest_name.hpp"
#include "base/printable.hpp"
#include "base/sha256.hpp"
#include "hekla/plugin/abi.h"
#include "plugin/instances/table_slots.hpp"
#include "plugin/registry/version_range.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace hekla::plugin {
namespace {

using nlohmann::json;

// State shared while one manifest is read: the storage of texts, and the first problem.
struct Reading {
    StringInterner& kept;
    Status status;
    // Whether unknown keys are errors: not in manifests for another ABI, nor in entries for another host.
    bool strict = true;

    // Refuses control characters: names and descriptions are printed, and those of files by their names.
    void check_text(const std::string& text, const std::string& where) {
        if (has_control_characters(text)) fail(where, fmt::format("has a control character: \"{}\"", printable(text)));
    }
    std::string_view keep(const std::string& text, const std::string& where) {
        check_text(text, where);
        return kept.text(text);
    }
    void fail(const std::string& where, const std::string& what) {
        if (status.ok()) status = corrupt(where.empty() ? what : fmt::format("{}: {}", where, what));
    }
};

// Formats a value for a message: as JSON, shortened.
std::string shown(const json& value) {
    constexpr std::size_t kLongest = 60;
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    return text;
}

// A reader of the members of one object. The first problem is reported with its path; finish() reports keys that were
// never read.
class Reader {
public:
    Reader(const json& object, std::string path, Reading& reading)
        : object_(object), path_(std::move(path)), reading_(reading) {
        if (!object.is_object()) reading_.fail(path_, expected("an object", object));
    }

    std::string_view text(const char* key, bool required) { return reading_.kept.text(borrow_text(key, required)); }
    // The result is valid as long as the JSON value.
    std::string_view borrow_text(const char* key, bool required) {
        const json* value = find(key, required);
        if (value == nullptr) return {};
        if (!value->is_string()) return fail(key, expected("a string", *value)), std::string_view();
        const std::string& text = value->get_ref<const std::string&>();
        reading_.check_text(text, path_dot() + key);
        return text;
    }
    uint32_t number(const char* key) {
        const json* value = find(key, true);
        if (value == nullptr) return 0;
        if (!value->is_number_unsigned() || value->get<uint64_t>() > UINT32_MAX)
            return fail(key, expected("an integer from 0 to 2^32 - 1", *value)), 0u;
        return value->get<uint32_t>();
    }
    Texts texts(const char* key) {
        std::vector<std::string_view> result;
        each(key, [&](const json& value, const std::string& path) {
            if (value.is_string())
                result.push_back(reading_.keep(value.get_ref<const std::string&>(), path));
            else
                reading_.fail(path, expected("a string", value));
        });
        return reading_.kept.list(result);
    }
    // Reads an object of strings, or an array of pairs of strings (which keeps its order).
    TextPairs pairs(const char* key) {
        std::vector<TextPair> result;
        const auto add = [&](const std::string& from, const json& to) {
            const std::string path = path_dot() + key;
            result.push_back({reading_.keep(from, path), reading_.keep(to.get_ref<const std::string&>(), path)});
        };
        const json* value = find(key, false);
        if (value == nullptr) return {};
        if (value->is_object()) {
            for (const auto& [from, to] : value->items()) {
                if (!to.is_string()) {
                    fail(key, fmt::format("'{}': {}", from, expected("a string", to)));
                    return {};
                }
                add(from, to);
            }
            return reading_.kept.list(result);
        }
        each(key, [&](const json& pair, const std::string& path) {
            if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
                add(pair[0].get_ref<const std::string&>(), pair[1]);
            else
                reading_.fail(path, expected("a pair of strings", pair));
        });
        return reading_.kept.list(result);
    }
    const json& object(const char* key) {
        static const json& kNone = *new json(json::object());
        const json* value = find(key, false);
        if (value == nullptr) return kNone;
        if (!value->is_object()) return fail(key, expected("an object", *value)), kNone;
        return *value;
    }
    JsonText json_text(const char* key) { return json_text(object(key)); }
    JsonText json_text(const json& object) {
        return object.empty() ? JsonText() : JsonText{reading_.kept.text(object.dump())};
    }
    template<class F>
    void each(const char* key, F&& f, bool required = false) {
        const json* value = find(key, required);
        if (value == nullptr) return;
        if (!value->is_array()) return fail(key, expected("an array", *value));
        for (std::size_t i = 0; i < value->size(); ++i) f((*value)[i], fmt::format("{}{}[{}]", path_dot(), key, i));
    }
    std::optional<double> bound(const char* key) {
        const json* value = find(key, false);
        if (value == nullptr) return {};
        if (value->is_number()) return value->get<double>();
        fail(key, expected("a number", *value));
        return {};
    }
    bool flag(const char* key) {
        const json* value = find(key, false);
        if (value == nullptr) return false;
        if (value->is_boolean()) return value->get<bool>();
        fail(key, expected("true or false", *value));
        return false;
    }
    const json* find(const char* key, bool required) {
        asked_.emplace_back(key);
        if (!object_.is_object()) return nullptr;
        const auto found = object_.find(key);
        if (found != object_.end()) return &*found;
        if (required) reading_.fail(path_, fmt::format("the key \"{}\" is missing", key));
        return nullptr;
    }
    void fail(const char* key, const std::string& what) { reading_.fail(path_dot() + key, what); }

    // Call it after the last key was read.
    void finish() {
        if (!reading_.strict || !object_.is_object()) return;
        for (const auto& [key, value] : object_.items()) {
            if (std::ranges::find(asked_, key) != asked_.end()) continue;
            const std::string_view near = nearest_name(key, asked_);
            reading_.fail(path_, fmt::format("unknown key \"{}\"{}", key,
                                             near.empty() ? fmt::format("; known are {}", fmt::join(asked_, ", "))
                                                          : fmt::format("; did you mean \"{}\"?", near)));
        }
    }

private:
    static std::string expected(const char* what, const json& found) {
        return fmt::format("expected {}, found {}", what, shown(found));
    }
    std::string path_dot() const { return path_.empty() ? "" : path_ + "."; }

    const json& object_;
    std::string path_;
    Reading& reading_;
    std::vector<std::string_view> asked_;
};

// In a cycle of ties no tensor would hold the values.
void check_ties(TextPairs ties, const std::string& path, Reading& reading) {
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
            reading.fail(path + ".names.ties",
                         fmt::format("{} is a cycle; name the parameter that holds the values", cycle));
    }
}

// The parameters of one entry, before they are stored.
struct Parameters {
    std::vector<std::string_view> keys, nullable;
    json defaults = json::object();
    std::map<std::string_view, Range> ranges;
};

// Reads one parameter: its key, its default, the range of its number and whether it may be null.
void read_parameter(const json& value, const std::string& path, Reading& reading, Parameters& parameters) {
    auto& [keys, nullable, defaults, ranges] = parameters;
    Reader in(value, path, reading);
    const std::string_view key = in.text("key", true);
    in.borrow_text("about", false);
    const Range range{key, in.bound("minimum"), in.bound("maximum")};
    const json* fallback = in.find("default", false);
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
    if (!fallback->is_number())
        return in.fail("default", fmt::format("{} is not a number, and the parameter has a range", shown(*fallback)));
    const auto number = fallback->get<double>();
    if (range.minimum && number < *range.minimum)
        in.fail("default", fmt::format("{} is below the minimum {}", shown(*fallback), *range.minimum));
    if (range.maximum && number > *range.maximum)
        in.fail("default", fmt::format("{} is above the maximum {}", shown(*fallback), *range.maximum));
}

// Checks the keys of "check"; the tests that read their values check these.
void check_keys_of_check(const json& value, const std::string& path, Reading& reading) {
    Reader in(value, path, reading);
    for (const char* key : {"architecture", "attributes", "branches", "config", "head", "head_config", "integers",
                            "learning_rate", "objective", "objective_config", "range", "shapes", "skip"})
        in.find(key, false);
    const json& waived = in.object("waive");
    for (const auto& [test, reason] : waived.items())
        if (!reason.is_string() || reason.get_ref<const std::string&>().empty())
            in.fail("waive", fmt::format("\"{}\" needs the reason as a string, found {}", test, shown(reason)));
    in.finish();
}

Provided read_provided(const json& value, const std::string& path, Reading& reading) {
    Reader in(value, path, reading);
    StringInterner& kept = reading.kept;
    Provided p;
    p.interface_id = in.text("interface", true);
    const bool was_strict = reading.strict;
    reading.strict = was_strict && (is_known_interface(p.interface_id) || is_draft(p.interface_id));
    p.id = in.text("id", true);
    p.about = in.text("about", false);
    Parameters parameters;
    in.each("parameters",
            [&](const json& parameter, const std::string& at) { read_parameter(parameter, at, reading, parameters); });
    p.parameters = kept.list(parameters.keys);
    p.nullable = kept.list(parameters.nullable);
    p.defaults = in.json_text(parameters.defaults);
    std::vector<Range> by_key;
    for (const auto& [key, range] : parameters.ranges) by_key.push_back(range);
    p.ranges = kept.list(by_key);
    p.ignored = in.texts("ignored");
    p.causal = in.text("causal", false);
    p.roles = in.texts("roles");
    p.check = in.json_text("check");
    check_keys_of_check(in.object("check"), path + ".check", reading);
    p.model_types = in.texts("model_types");
    Reader rules(in.object("names"), path + ".names", reading);
    p.names.prefix = rules.text("prefix", false);
    p.names.renames = rules.pairs("renames");
    p.names.ignore = rules.texts("ignore");
    p.names.ties = rules.pairs("ties");
    rules.finish();
    check_ties(p.names.ties, path, reading);
    std::vector<Ancestor> ancestors;
    in.each("begins_as", [&](const json& entry, const std::string& at) {
        Reader one(entry, at, reading);
        Ancestor ancestor;
        ancestor.model_type = one.text("model_type", true);
        ancestor.keys = one.pairs("keys");
        ancestor.names = one.pairs("names");
        ancestor.ignore = one.texts("ignore");
        one.finish();
        for (const auto& [theirs, ours] : ancestor.keys)
            if (std::ranges::find(p.parameters, ours) == p.parameters.end())
                one.fail("keys", fmt::format("\"{}\" on the right is not a key of \"parameters\"", ours));
        for (const auto& [theirs, ours] : ancestor.names)
            if (theirs.empty()) one.fail("names", "a name on the left is empty");
        ancestors.push_back(ancestor);
    });
    p.begins_as = kept.list(ancestors);
    std::vector<ReferenceClass> classes;
    in.each("classes", [&](const json& entry, const std::string& at) {
        Reader one(entry, at, reading);
        ReferenceClass c;
        c.name = one.text("class", true);
        c.head = one.text("head", false);
        c.objective = one.text("objective", false);
        c.outputs = one.pairs("outputs");
        c.head_config = one.json_text("head_config");
        c.objective_config = one.json_text("objective_config");
        one.finish();
        classes.push_back(c);
    });
    p.classes = kept.list(classes);
    in.finish();
    reading.strict = was_strict;
    return p;
}

// The minor versions that have these keys first: an older host would refuse them as unknown.
constexpr uint32_t kMinorOfNeeds = 1, kMinorOfNull = 2;

std::span<const Need> read_needs(Reader& in, const Manifest& manifest, Reading& reading) {
    std::vector<Need> needs;
    in.each("needs", [&](const json& value, const std::string& path) {
        Reader one(value, path, reading);
        const Need need{one.text("plugin", true), one.text("version", false)};
        one.finish();
        if (const auto range = VersionRange::parse(need.version); !range.ok()) one.fail("version", range.message());
        if (need.plugin == manifest.plugin) one.fail("plugin", "a plugin cannot need itself");
        if (std::ranges::find(needs, need.plugin, &Need::plugin) != needs.end())
            one.fail("plugin", fmt::format("\"{}\" is listed twice", need.plugin));
        needs.push_back(need);
    });
    if (!needs.empty() && reading.strict && manifest.abi_minor_needed < kMinorOfNeeds)
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
    Reading reading{kept, {}};
    Manifest m;
    m.file = kept.text(file.string());
    Reader in(root, "", reading);
    m.abi_major = in.number("abi_major");
    m.abi_minor_needed = in.number("abi_minor_needed");
    // A newer manifest may have newer keys; loading the library reports the version.
    reading.strict = m.abi_major == HK_ABI_MAJOR && m.abi_minor_needed <= HK_ABI_MINOR;
    m.plugin = in.text("plugin", true);
    m.version = in.text("version", true);
    m.licence = in.text("licence", true);
    const std::string_view library = in.borrow_text("library", true);
    if (library.find('/') != std::string_view::npos)
        in.fail("library",
                fmt::format("\"{}\" is a path; expected the name of a file in the manifest's folder", library));
    std::error_code ignored;
    m.library = kept.text((std::filesystem::absolute(file, ignored).parent_path() / library).string());
    m.sha256 = in.text("sha256", false);
    if (!m.sha256.empty() && !is_sha256_hex(m.sha256))
        in.fail("sha256", fmt::format("\"{}\" is not 64 digits of 0 to 9 and a to f", m.sha256));
    m.drafts = in.texts("drafts");
    for (const std::string_view draft : m.drafts)
        if (!is_draft(draft))
            in.fail("drafts", fmt::format("\"{}\" is not the id of a draft, such as \"hekla.adapter.draft/1\"", draft));
    m.needs = read_needs(in, m, reading);
    std::vector<Provided> provides;
    in.each(
        "provides",
        [&](const json& value, const std::string& path) { provides.push_back(read_provided(value, path, reading)); },
        true);
    m.provides = kept.list(provides);
    in.finish();
    for (const Provided& p : m.provides) {
        const uint32_t minor = minor_of_interface(p.interface_id);
        if (reading.strict && minor > m.abi_minor_needed)
            in.fail("abi_minor_needed",
                    fmt::format("{} '{}' exists from plugin ABI {}.{} on, and the manifest asks for "
                                "{}.{}: set \"abi_minor_needed\": {} and build the plugin again",
                                p.interface_id, p.id, HK_ABI_MAJOR, minor, m.abi_major, m.abi_minor_needed, minor));
    }
    for (const Provided& p : m.provides)
        if (reading.strict && !p.nullable.empty() && m.abi_minor_needed < kMinorOfNull)
            in.fail("provides", fmt::format("\"null\" of the parameter \"{0}\" exists from plugin ABI {1}.{2} on: set "
                                            "\"abi_minor_needed\": {2} and build the plugin again",
                                            p.nullable.front(), HK_ABI_MAJOR, kMinorOfNull));
    for (const Provided& p : m.provides)
        if (is_draft(p.interface_id) && std::ranges::find(m.drafts, p.interface_id) == m.drafts.end())
            in.fail("provides", fmt::format("{} '{}' is a draft, and the manifest claims to be stable; add \"drafts\": "
                                            "[\"{}\"], and the plugin loads where that very draft is",
                                            p.interface_id, p.id, p.interface_id));
    if (!reading.status.ok()) return reading.status.with_context(file.string());
    return m;
}

} // namespace hekla::plugin
