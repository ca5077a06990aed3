#include "plugin/manifest.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "hekla/plugin/abi.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace hekla::plugin {
namespace {

using nlohmann::json;

// Reads members of one object and keeps them; the first problem is kept too, with the path to it.
class Reader {
public:
    Reader(const json& object, std::string where, StringInterner& kept, Status& status)
        : object_(object), where_(std::move(where)), kept_(kept), status_(status) {
        if (!object.is_object()) fail("", "an object");
    }

    std::string_view text(const char* key, bool required) { return kept_.text(read_text(key, required)); }
    // As it stands in what is read.
    std::string_view read_text(const char* key, bool required) {
        const json* value = find(key, required);
        if (value == nullptr) return {};
        if (!value->is_string()) return fail(key, "a text"), std::string_view();
        return value->get_ref<const std::string&>();
    }
    uint32_t number(const char* key) {
        const json* value = find(key, true);
        if (value == nullptr) return 0;
        if (!value->is_number_unsigned()) return fail(key, "a number from 0"), 0u;
        return value->get<uint32_t>();
    }
    Texts texts(const char* key) {
        std::vector<std::string_view> result;
        each(key, [&](const json& value, const std::string& where) {
            if (value.is_string())
                result.push_back(kept_.text(value.get_ref<const std::string&>()));
            else
                fail(where.c_str(), "a text");
        });
        return kept_.list(result);
    }
    // An object of texts, or an array of pairs of texts (which keeps its order).
    TextPairs pairs(const char* key) {
        std::vector<TextPair> result;
        const auto add = [&](const std::string& from, const json& to) {
            result.push_back({kept_.text(from), kept_.text(to.get_ref<const std::string&>())});
        };
        const json* value = find(key, false);
        if (value == nullptr) return {};
        if (value->is_object()) {
            for (const auto& [from, to] : value->items()) {
                if (!to.is_string()) return fail(key, "texts"), TextPairs();
                add(from, to);
            }
            return kept_.list(result);
        }
        each(key, [&](const json& pair, const std::string& where) {
            if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
                add(pair[0].get_ref<const std::string&>(), pair[1]);
            else
                fail(where.c_str(), "a pair of texts");
        });
        return kept_.list(result);
    }
    const json& object(const char* key) {
        static const json none = json::object();
        const json* value = find(key, false);
        if (value == nullptr) return none;
        if (!value->is_object()) return fail(key, "an object"), none;
        return *value;
    }
    JsonText json_text(const char* key) { return json_text(object(key)); }
    JsonText json_text(const json& object) { return object.empty() ? JsonText() : JsonText{kept_.text(object.dump())}; }
    template<class F>
    void each(const char* key, F&& f, bool required = false) {
        const json* value = find(key, required);
        if (value == nullptr) return;
        if (!value->is_array()) return fail(key, "an array");
        for (std::size_t i = 0; i < value->size(); ++i) f((*value)[i], fmt::format("{}[{}]", key, i));
    }
    void fail(const char* key, const std::string& expected) {
        if (status_.ok()) status_ = corrupt(fmt::format("manifest: {}{}: expected {}", where_, key, expected));
    }

    std::optional<double> bound(const char* key) {
        const json* value = find(key, false);
        if (value == nullptr) return {};
        if (value->is_number()) return value->get<double>();
        fail(key, "a number");
        return {};
    }

private:
    const json* find(const char* key, bool required) {
        if (!object_.is_object()) return nullptr;
        const auto found = object_.find(key);
        if (found != object_.end()) return &*found;
        if (required) fail(key, "this key");
        return nullptr;
    }
    const json& object_;
    std::string where_;
    StringInterner& kept_;
    Status& status_;
};

// A circle of ties would leave no tensor to hold the values.
void check_ties(TextPairs ties, const std::string& where, Status& status) {
    for (const auto& [alias, parameter] : ties) {
        std::string_view at = parameter;
        std::string path = fmt::format("'{}' -> '{}'", alias, parameter);
        for (std::size_t hops = 0; hops < ties.size() && at != alias; ++hops) {
            const auto next = std::ranges::find(ties, at, &TextPair::from);
            if (next == ties.end()) break;
            at = next->to;
            path += fmt::format(" -> '{}'", at);
        }
        if (at != alias || !status.ok()) continue;
        status = corrupt(fmt::format("manifest: {}names.ties: {} is a circle: name the parameter that holds the values",
                                     where, path));
    }
}

Provided read_provided(const json& value, const std::string& where, StringInterner& kept, Status& status) {
    Reader in(value, where, kept, status);
    Provided p;
    p.interface_id = in.text("interface", true);
    p.id = in.text("id", true);
    p.about = in.text("about", false);
    std::vector<std::string_view> parameters;
    json defaults = json::object();
    std::map<std::string_view, Range> ranges;
    in.each("parameters", [&](const json& parameter, const std::string& at) {
        Reader one(parameter, where + at + ".", kept, status);
        const std::string_view key = one.text("key", true);
        parameters.push_back(key);
        if (parameter.is_object() && parameter.contains("default")) defaults[key] = parameter["default"];
        const Range range{key, one.bound("minimum"), one.bound("maximum")};
        if (range.minimum || range.maximum) ranges[key] = range;
    });
    p.parameters = kept.list(parameters);
    p.defaults = in.json_text(defaults);
    std::vector<Range> by_key;
    for (const auto& [key, range] : ranges) by_key.push_back(range);
    p.ranges = kept.list(by_key);
    p.ignored = in.texts("ignored");
    p.causal = in.text("causal", false);
    p.roles = in.texts("roles");
    p.check = in.json_text("check");
    p.model_types = in.texts("model_types");
    Reader rules(in.object("names"), where + "names.", kept, status);
    p.names.prefix = rules.text("prefix", false);
    p.names.renames = rules.pairs("renames");
    p.names.ignore = rules.texts("ignore");
    p.names.ties = rules.pairs("ties");
    check_ties(p.names.ties, where, status);
    std::vector<Ancestor> ancestors;
    in.each("begins_as", [&](const json& entry, const std::string& at) {
        Reader one(entry, where + at + ".", kept, status);
        Ancestor ancestor;
        ancestor.model_type = one.text("model_type", true);
        ancestor.keys = one.pairs("keys");
        ancestor.names = one.pairs("names");
        ancestor.ignore = one.texts("ignore");
        for (const auto& [theirs, ours] : ancestor.keys)
            if (std::ranges::find(p.parameters, ours) == p.parameters.end())
                one.fail("keys", fmt::format("keys of `parameters` on the right, not \"{}\"", ours));
        for (const auto& [theirs, ours] : ancestor.names)
            if (theirs.empty()) one.fail("names", "a part of a name on the left, not nothing");
        ancestors.push_back(ancestor);
    });
    p.begins_as = kept.list(ancestors);
    std::vector<ReferenceClass> classes;
    in.each("classes", [&](const json& entry, const std::string& at) {
        Reader one(entry, where + at + ".", kept, status);
        ReferenceClass c;
        c.name = one.text("class", true);
        c.head = one.text("head", false);
        c.objective = one.text("objective", false);
        c.outputs = one.pairs("outputs");
        c.head_config = one.json_text("head_config");
        c.objective_config = one.json_text("objective_config");
        classes.push_back(c);
    });
    p.classes = kept.list(classes);
    return p;
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
    Status status;
    Manifest m;
    m.file = kept.text(file.string());
    Reader in(root, "", kept, status);
    m.plugin = in.text("plugin", true);
    m.version = in.text("version", true);
    m.licence = in.text("licence", true);
    const std::string_view library = in.read_text("library", true);
    if (library.find('/') != std::string_view::npos)
        in.fail("library", "a file name beside the manifest, without a folder");
    std::error_code ignored;
    m.library = kept.text((std::filesystem::absolute(file, ignored).parent_path() / library).string());
    m.sha256 = in.text("sha256", false);
    const bool hexadecimal =
        std::ranges::all_of(m.sha256, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (!m.sha256.empty() && (m.sha256.size() != 64 || !hexadecimal))
        in.fail("sha256", "64 digits of 0 to 9 and a to f");
    m.abi_major = in.number("abi_major");
    m.abi_minor_needed = in.number("abi_minor_needed");
    m.drafts = in.texts("drafts");
    for (const std::string_view draft : m.drafts)
        if (!is_draft(draft)) in.fail("drafts", "ids of drafts, as in \"hekla.adapter.draft/1\"");
    std::vector<Provided> provides;
    in.each(
        "provides",
        [&](const json& value, const std::string& at) {
            provides.push_back(read_provided(value, at + ".", kept, status));
        },
        true);
    m.provides = kept.list(provides);
    if (!status.ok()) return status.with_context(file.string());
    for (const Provided& p : m.provides)
        if (is_draft(p.interface_id) && std::ranges::find(m.drafts, p.interface_id) == m.drafts.end())
            return corrupt(fmt::format("{}: manifest: provides {} '{}', a draft, and claims to be stable: add "
                                       "\"drafts\": [\"{}\"], and it loads where that very draft is",
                                       file.string(), p.interface_id, p.id, p.interface_id));
    return m;
}

} // namespace hekla::plugin
