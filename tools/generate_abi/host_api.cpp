#include "host_api.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace hekla::abi {
namespace {

using nlohmann::json;

// Refuses keys that are not read, which are typing errors.
void only(const json& object, const std::set<std::string>& known, const std::string& where) {
    for (const auto& [key, value] : object.items())
        if (!known.contains(key)) fail(where, fmt::format("there is no key '{}'", key));
}

std::string number_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

HostMember read_host_member(const json& j, const std::string& where) {
    HostMember m;
    m.is = declaration_of(need(j, "is", where).get_ref<const std::string&>());
    const std::string name = where + "." + m.name();
    only(j, {"is",      "about",    "lines", "unit",    "nonzero",  "zero",   "default", "default_means",
             "one_of",  "null",     "empty", "valid",   "range",    "above",  "most",    "count",
             "lengths", "separate", "since", "refusal", "required", "setting"},
         name);
    m.about = text_of(j, "about");
    m.lines = texts(j, "lines");
    m.unit = text_of(j, "unit");
    m.nonzero = text_of(j, "nonzero");
    m.zero = text_of(j, "zero");
    if (j.contains("default")) m.default_value = number_of(j["default"]);
    m.default_means = text_of(j, "default_means");
    m.one_of = text_of(j, "one_of");
    m.empty = text_of(j, "empty");
    m.valid = text_of(j, "valid");
    m.required = text_of(j, "required");
    m.refusal = text_of(j, "refusal");
    if (const json null = j.value("null", json()); null.is_string())
        m.null = null;
    else
        m.may_be_null = null.is_boolean();
    if (j.contains("range")) {
        m.least = j["range"].at(0).dump();
        if (j["range"].size() > 1) m.most = j["range"].at(1).dump();
    }
    if (j.contains("above")) m.above = j["above"].dump();
    if (j.contains("most")) m.most = j["most"].dump();
    m.count = text_of(j, "count");
    m.lengths = text_of(j, "lengths");
    m.separate = j.value("separate", false);
    m.setting = j.value("setting", false);
    m.since = text_of(j, "since");
    if (m.is_reserved()) m.about = "Zero.";
    if (m.about.empty() && m.nonzero.empty() && m.one_of.empty()) fail(name, "a member needs a meaning: 'about'");
    return m;
}

HostItem read_host_item(const json& j, const std::string& where) {
    HostItem item;
    item.about = text_of(j, "about");
    item.since = text_of(j, "since");
    if (j.contains("note")) {
        item.kind = HostKind::note;
        item.about = j["note"];
    } else if (j.contains("constants")) {
        item.kind = HostKind::constants;
        item.name = j["constants"];
        for (const json& c : need(j, "of", where))
            item.constants.push_back(
                {need(c, "name", where), number_of(need(c, "value", where)), text_of(c, "about"), 0});
    } else if (j.contains("handle")) {
        item.kind = HostKind::handle;
        item.name = j["handle"];
        item.members.push_back(
            read_host_member({{"is", "uint64_t id"}, {"about", "Number of the object; 0 is null."}}, item.name));
    } else if (j.contains("pointer")) {
        item.kind = HostKind::pointer;
        item.members.push_back(read_host_member({{"is", j["pointer"]}, {"about", item.about}}, where));
        item.name = item.members[0].name();
    } else if (j.contains("struct")) {
        item.name = j["struct"];
        only(j, {"struct", "given_by", "captured", "relations", "report", "about", "members", "since"}, item.name);
        const std::string by = text_of(j, "given_by");
        if (!by.empty() && by != "host" && by != "library") fail(item.name, "'given_by' is host or library");
        item.is_sized = !by.empty();
        item.by_host = by == "host";
        item.captured = j.value("captured", false);
        item.relations = j.value("relations", false);
        item.report = j.value("report", false);
        if (item.is_sized)
            item.members.push_back(read_host_member(
                {{"is", "uint32_t struct_size"}, {"about", fmt::format("sizeof({}).", item.name)}}, item.name));
        for (const json& m : need(j, "members", item.name)) item.members.push_back(read_host_member(m, item.name));
        for (const HostMember& m : item.members)
            for (const std::string& other : {m.count, m.lengths})
                if (!other.empty() && item.find(other) == nullptr)
                    fail(item.name + "." + m.name(), fmt::format("there is no member '{}'", other));
    } else {
        item.kind = HostKind::function;
        item.function = declaration_of(need(j, "function", where).get_ref<const std::string&>()).function.at(0);
        item.name = item.function.name;
        only(j, {"function", "about", "errors", "thread", "may_be_null", "valid", "since"}, item.name);
        item.may_be_null = texts(j, "may_be_null");
        item.errors = text_of(j, "errors");
        item.valid = text_of(j, "valid");
        item.thread = need(j, "thread", item.name);
    }
    return item;
}

// Inserts before the end of the first sentence.
std::string in_first_sentence(std::string text, const std::string& inserted) {
    const std::size_t end = text.find(". ");
    return text.insert(end == std::string::npos ? text.size() - 1 : end, inserted);
}

std::string valid_text(const std::string& valid) {
    if (valid.empty()) return "";
    if (valid == "copied") return " Copied.";
    return valid == "static" ? " Static." : fmt::format(" Valid {}.", valid);
}

} // namespace

const HostMember* HostItem::find(const std::string& member) const {
    const auto found = std::ranges::find(members, member, &HostMember::name);
    return found != members.end() ? &*found : nullptr;
}

const HostItem* HostApi::find(const std::string& structure) const {
    for (const HostHeader& h : headers)
        for (const HostItem& item : h.items)
            if (item.kind == HostKind::structure && item.name == structure) return &item;
    return nullptr;
}

std::vector<Constant> HostApi::constants(const std::string& prefix) const {
    std::vector<Constant> found;
    for (const HostHeader& h : headers)
        for (const HostItem& item : h.items)
            for (const Constant& c : item.constants)
                if (c.name.starts_with(prefix)) found.push_back(c);
    if (found.empty()) fail(prefix, "there is no constant whose name begins with it");
    return found;
}

HostApi read_host_api(const std::filesystem::path& repository) {
    const json whole = read_json(repository / "engine/api/host_api.json");
    HostApi api;
    api.version = need(whole, "since", "host_api.json");
    for (const json& j : need(whole, "headers", "host_api.json")) {
        HostHeader h{need(j, "name", "a header"), texts(j, "about"), texts(j, "includes"), {}};
        for (const json& item : need(j, "items", h.name)) h.items.push_back(read_host_item(item, h.name));
        api.headers.push_back(std::move(h));
    }
    for (const json& j : need(whole, "cpp", "host_api.json")) {
        CppStruct s{need(j, "struct", "cpp"), need(j, "of", "cpp"), need(j, "about", "cpp"), {}};
        const HostItem* of = api.find(s.of);
        if (of == nullptr) fail(s.name, fmt::format("there is no struct '{}'", s.of));
        for (const json& m : need(j, "members", s.name)) {
            CppMember member{text_of(m, "is"), text_of(m, "about"), text_of(m, "member"), m.value("filled", true)};
            if (member.declaration.empty() && of->find(member.member) == nullptr)
                fail(s.name, fmt::format("there is no member '{}' in {}", member.member, s.of));
            s.members.push_back(std::move(member));
        }
        api.cpp.push_back(std::move(s));
    }
    return api;
}

std::string meaning(const HostItem& item, const HostMember& m, bool with_default) {
    const bool zero_is_default = with_default && m.default_value == "0";
    std::string s;
    if (m.is_flag()) {
        s = fmt::format("Nonzero{}: {}.", m.default_value == "1" && with_default ? " (default)" : "", m.nonzero);
        if (zero_is_default)
            s += m.zero.empty() ? " Default 0." : fmt::format(" Default 0: {}.", m.zero);
        else if (!m.zero.empty() && with_default)
            s += fmt::format(" 0: {}.", m.zero);
    } else {
        s = m.about.empty() ? m.one_of + "*." : m.about;
        std::string inserted = m.unit.empty() ? "" : ", in " + m.unit;
        if (!m.zero.empty()) inserted += fmt::format("; 0{} means {}", zero_is_default ? " (default)" : "", m.zero);
        s = in_first_sentence(std::move(s), inserted);
    }
    s += valid_text(m.valid);
    if (!m.required.empty()) s += " Required.";
    if (!with_default)
        return m.default_means.empty() ? s : s + fmt::format(" {}: {}.", m.default_value, m.default_means);
    const bool null_is_default = m.default_value == "null";
    if (m.may_be_null) s += " May be null.";
    if (!m.null.empty()) s += fmt::format(" Null{}: {}.", null_is_default ? " (default)" : "", m.null);
    if (!m.empty.empty()) s += fmt::format(" \"\" (default): {}.", m.empty);
    const bool other_default = !m.default_value.empty() && !null_is_default && m.default_value != "\"\"";
    if (other_default && !m.is_flag() && !(zero_is_default && !m.zero.empty()))
        s += fmt::format(" Default {}{}{}.", m.default_value, m.default_means.empty() ? "" : ": ", m.default_means);
    if (!m.since.empty()) s += fmt::format(" Since {}.", m.since);
    return item.kind == HostKind::structure ? s : m.about;
}

std::string contract(const HostItem& f) {
    std::string s = f.about + valid_text(f.valid);
    for (const std::string& name : f.may_be_null) s += fmt::format(" `{}` may be null.", name);
    if (!f.errors.empty()) s += fmt::format(" Errors: {}.", f.errors);
    if (!f.since.empty()) s += fmt::format(" Since {}.", f.since);
    const std::string any = "any-thread";
    return s + " " + (f.thread.starts_with(any) ? "[" + any + "]" + f.thread.substr(any.size()) : f.thread);
}

} // namespace hekla::abi
