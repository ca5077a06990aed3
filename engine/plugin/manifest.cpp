#include "plugin/manifest.hpp"

#include "base/file.hpp"
#include "hekla/plugin/abi.h"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin {
namespace {

using nlohmann::json;

// Reads members of one object; the first problem is kept, with the path to it.
class Reader {
public:
    Reader(const json& object, std::string where, Status& status)
        : object_(object), where_(std::move(where)), status_(status) {
        if (!object.is_object()) fail("", "an object");
    }

    std::string text(const char* key, bool required) {
        const json* value = find(key, required);
        if (value == nullptr) return {};
        if (!value->is_string()) return fail(key, "a text"), std::string();
        return value->get<std::string>();
    }
    uint32_t number(const char* key) {
        const json* value = find(key, true);
        if (value == nullptr) return 0;
        if (!value->is_number_unsigned()) return fail(key, "a number from 0"), 0u;
        return value->get<uint32_t>();
    }
    std::vector<std::string> texts(const char* key) {
        std::vector<std::string> result;
        each(key, [&](const json& value, const std::string& where) {
            if (value.is_string())
                result.push_back(value.get<std::string>());
            else
                fail(where.c_str(), "a text");
        });
        return result;
    }
    // An object of texts, or an array of pairs of texts (which keeps its order).
    std::vector<std::pair<std::string, std::string>> pairs(const char* key) {
        std::vector<std::pair<std::string, std::string>> result;
        const json* value = find(key, false);
        if (value == nullptr) return result;
        if (value->is_object()) {
            for (const auto& [from, to] : value->items()) {
                if (!to.is_string()) return fail(key, "texts"), result;
                result.emplace_back(from, to.get<std::string>());
            }
            return result;
        }
        each(key, [&](const json& pair, const std::string& where) {
            if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
                result.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
            else
                fail(where.c_str(), "a pair of texts");
        });
        return result;
    }
    json object(const char* key) {
        const json* value = find(key, false);
        if (value == nullptr) return json::object();
        if (!value->is_object()) return fail(key, "an object"), json::object();
        return *value;
    }
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
    Status& status_;
};

// A circle of ties would leave no tensor to hold the values.
void check_ties(const std::vector<std::pair<std::string, std::string>>& ties, const std::string& where,
                Status& status) {
    for (const auto& [alias, parameter] : ties) {
        std::string at = parameter, path = fmt::format("'{}' -> '{}'", alias, parameter);
        for (std::size_t hops = 0; hops < ties.size() && at != alias; ++hops) {
            const auto next = std::ranges::find(ties, at, [](const auto& tie) { return tie.first; });
            if (next == ties.end()) break;
            at = next->second;
            path += fmt::format(" -> '{}'", at);
        }
        if (at != alias || !status.ok()) continue;
        status = corrupt(fmt::format("manifest: {}names.ties: {} is a circle: name the parameter that holds the values",
                                     where, path));
    }
}

Provided read_provided(const json& value, const std::string& where, Status& status) {
    Reader in(value, where, status);
    Provided p;
    p.interface_id = in.text("interface", true);
    p.id = in.text("id", true);
    p.about = in.text("about", false);
    in.each("parameters", [&](const json& parameter, const std::string& at) {
        Reader one(parameter, where + at + ".", status);
        const std::string key = one.text("key", true);
        p.parameters.push_back(key);
        if (parameter.is_object() && parameter.contains("default")) p.defaults[key] = parameter["default"];
        const Range range{one.bound("minimum"), one.bound("maximum")};
        if (range.minimum || range.maximum) p.ranges[key] = range;
    });
    p.ignored = in.texts("ignored");
    p.causal = in.text("causal", false);
    p.roles = in.texts("roles");
    p.check = in.object("check");
    p.model_types = in.texts("model_types");
    const json names = in.object("names");
    Reader rules(names, where + "names.", status);
    p.names.prefix = rules.text("prefix", false);
    p.names.renames = rules.pairs("renames");
    p.names.ignore = rules.texts("ignore");
    p.names.ties = rules.pairs("ties");
    check_ties(p.names.ties, where, status);
    in.each("begins_as", [&](const json& entry, const std::string& at) {
        Reader one(entry, where + at + ".", status);
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
        p.begins_as.push_back(std::move(ancestor));
    });
    in.each("classes", [&](const json& entry, const std::string& at) {
        Reader one(entry, where + at + ".", status);
        ReferenceClass c;
        c.name = one.text("class", true);
        c.head = one.text("head", false);
        c.objective = one.text("objective", false);
        c.outputs = one.pairs("outputs");
        c.head_config = one.object("head_config");
        c.objective_config = one.object("objective_config");
        p.classes.push_back(std::move(c));
    });
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

Result<Manifest> read_manifest(const std::filesystem::path& file) {
    HK_ASSIGN(const std::string content, read_file(file));
    // From plain pointers: the parser of strings is also compiled, without optimization, into the command line, and the
    // linker keeps one of the two. A hundred manifests took 100 ms of this program's time with that one.
    const json root = json::parse(content.data(), content.data() + content.size(), nullptr, false);
    if (root.is_discarded()) return corrupt(fmt::format("{}: is not valid JSON", file.string()));
    Status status;
    Manifest m;
    m.file = file;
    Reader in(root, "", status);
    m.plugin = in.text("plugin", true);
    m.version = in.text("version", true);
    m.licence = in.text("licence", true);
    const std::string library = in.text("library", true);
    if (library.find('/') != std::string::npos) in.fail("library", "a file name beside the manifest, without a folder");
    std::error_code ignored;
    m.library = std::filesystem::absolute(file, ignored).parent_path() / library;
    m.sha256 = in.text("sha256", false);
    const bool hexadecimal =
        std::ranges::all_of(m.sha256, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (!m.sha256.empty() && (m.sha256.size() != 64 || !hexadecimal))
        in.fail("sha256", "64 digits of 0 to 9 and a to f");
    m.abi_major = in.number("abi_major");
    m.abi_minor_needed = in.number("abi_minor_needed");
    m.drafts = in.texts("drafts");
    for (const std::string& draft : m.drafts)
        if (!is_draft(draft)) in.fail("drafts", "ids of drafts, as in \"hekla.adapter.draft/1\"");
    in.each(
        "provides",
        [&](const json& value, const std::string& at) { m.provides.push_back(read_provided(value, at + ".", status)); },
        true);
    if (!status.ok()) return status.with_context(file.string());
    for (const Provided& p : m.provides)
        if (is_draft(p.interface_id) && std::ranges::find(m.drafts, p.interface_id) == m.drafts.end())
            return corrupt(fmt::format("{}: manifest: provides {} '{}', a draft, and claims to be stable: add "
                                       "\"drafts\": [\"{}\"], and it loads where that very draft is",
                                       file.string(), p.interface_id, p.id, p.interface_id));
    return m;
}

} // namespace hekla::plugin
