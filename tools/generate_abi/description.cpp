#include "description.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace hekla::abi {

using nlohmann::json;

void fail(const std::string& where, const std::string& what) {
    throw std::runtime_error(fmt::format("{}: {}", where, what));
}

namespace {

// A parser of the small C subset in the description: TYPE NAME, TYPE NAME[SIZE], TYPE NAME(PARAMETERS).
class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    Variable declaration() {
        Variable v;
        v.type = type();
        v.name = word();
        if (take('[')) {
            v.array = word();
            expect(']');
        } else if (take('(')) {
            Function f;
            f.name = v.name;
            f.returns = v.type;
            if (!(peek() == "void" && after_word() == ')')) {
                do f.parameters.push_back(declaration());
                while (take(','));
            } else {
                word();
            }
            expect(')');
            v.type = {};
            v.function.push_back(std::move(f));
        }
        return v;
    }
    Variable whole() {
        Variable v = declaration();
        skip();
        if (at_ != text_.size()) fail(std::string(text_), fmt::format("what is '{}'?", text_.substr(at_)));
        return v;
    }

private:
    static bool letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
    void skip() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    std::string_view peek() {
        skip();
        std::size_t end = at_;
        while (end < text_.size() && letter(text_[end])) ++end;
        return text_.substr(at_, end - at_);
    }
    char after_word() {
        const std::size_t end = at_ + peek().size();
        return end < text_.size() ? text_[end] : '\0';
    }
    std::string word() {
        const std::string_view found = peek();
        if (found.empty()) fail(std::string(text_), fmt::format("expected a name at '{}'", text_.substr(at_)));
        at_ += found.size();
        return std::string(found);
    }
    bool take(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail(std::string(text_), fmt::format("expected '{}' at '{}'", c, text_.substr(at_)));
    }
    Type type() {
        Type t;
        if (peek() == "const") {
            t.is_const = true;
            word();
        }
        if (peek() == "struct") word(); // every struct has a typedef of the same name
        t.base = word();
        while (take('*')) {
            ++t.pointers;
            if (peek() != "const") continue;
            t.const_pointer = true;
            word();
        }
        return t;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

} // namespace

Variable declaration_of(std::string_view text) { return Parser(text).whole(); }

const json& need(const json& object, const char* key, const std::string& where) {
    const auto found = object.find(key);
    if (found == object.end()) fail(where, fmt::format("'{}' is missing", key));
    return *found;
}

std::string text_of(const json& object, const char* key) { return object.value(key, std::string()); }

std::vector<std::string> texts(const json& object, const char* key) {
    return object.value(key, std::vector<std::string>());
}

json read_json(const std::filesystem::path& path) {
    std::ifstream file(path);
    if (!file) fail(path.string(), "cannot be read");
    try {
        return json::parse(file);
    } catch (const std::exception& e) { fail(path.string(), e.what()); }
}

namespace {

Member read_member(const json& j, const std::string& where) {
    Member m;
    m.is = declaration_of(need(j, "is", where).get_ref<const std::string&>());
    m.about = text_of(j, "about");
    m.thread = text_of(j, "thread");
    m.lines = texts(j, "lines");
    m.since = j.value("since", 0u);
    m.optional = j.value("optional", false);
    const std::string name = where + "." + m.is.name;
    if (m.is_function() && (m.about.empty() || m.thread.empty())) fail(name, "a function needs 'about' and 'thread'");
    if (!m.is_function() && !m.thread.empty()) fail(name, "only functions have a 'thread'");
    return m;
}

Item read_item(const json& j, const std::string& where, uint32_t since) {
    Item item;
    item.since = since;
    item.about = text_of(j, "about");
    if (j.contains("prelude")) {
        item.kind = ItemKind::prelude;
        item.name = j["prelude"];
        return item;
    }
    if (j.contains("constants")) {
        item.kind = ItemKind::constants;
        item.name = j["constants"];
        for (const json& c : need(j, "of", where)) {
            const json& value = need(c, "value", where);
            item.constants.push_back({need(c, "name", where),
                                      value.is_string() ? value.get<std::string>() : value.dump(), text_of(c, "about"),
                                      std::max(since, c.value("since", 0u))});
        }
        return item;
    }
    item.name = need(j, "type", where);
    const std::string name = where + ": " + item.name;
    if (j.contains("interface")) {
        item.kind = ItemKind::table;
        item.id = j["interface"];
        item.macro = need(j, "macro", name);
        const std::string by = need(j, "given_by", name);
        if (by != "host" && by != "plugin") fail(name, "'given_by' is host or plugin");
        item.by_host = by == "host";
        item.declares = texts(j, "declares");
        for (const json& f : need(j, "functions", name)) item.members.push_back(read_member(f, name));
    } else {
        const std::string is = need(j, "is", name);
        if (is == "opaque") {
            item.kind = ItemKind::opaque;
        } else if (is == "struct") {
            for (const json& m : need(j, "members", name)) item.members.push_back(read_member(m, name));
        } else {
            item.kind = ItemKind::alias;
            item.alias = is;
        }
    }
    uint32_t newest = since;
    for (Member& m : item.members) {
        m.since = std::max(m.since, since);
        if (m.since < newest) fail(name, fmt::format("{} is older than the members before it", m.is.name));
        newest = m.since;
        if (m.since > since && item.kind == ItemKind::table && !item.by_host)
            fail(name,
                 fmt::format("{}: a struct of functions that plugins give never grows; it needs a new id", m.is.name));
    }
    return item;
}

Header read_header(const json& j, const std::set<std::string>& threads) {
    Header h;
    h.name = need(j, "name", "a header");
    h.title = need(j, "title", h.name);
    h.about = texts(j, "about");
    h.includes = texts(j, "includes");
    h.since = j.value("since", 0u);
    for (const json& r : j.value("rules", json::array())) {
        h.rules.push_back({need(r, "id", h.name), need(r, "text", h.name), need(r, "by", h.name), texts(r, "tests"),
                           r.value("traced", false)});
        const Rule& rule = h.rules.back();
        if (rule.tests.empty())
            fail(rule.id, "'tests' must name what fails where the rule is broken, or none with the reason");
        // Rule numbers are never reused, so the numbers of a header are consecutive.
        if (rule.id != fmt::format("{}.{}", h.name, h.rules.size()))
            fail(rule.id, fmt::format("expected {}.{}", h.name, h.rules.size()));
        if (rule.by != "host" && rule.by != "compiler" && rule.by != "build" && rule.by != "author")
            fail(rule.id, fmt::format("'by' is '{}', expected host, compiler, build or author", rule.by));
    }
    for (const json& i : need(j, "items", h.name)) {
        h.items.push_back(read_item(i, h.name, h.since));
        for (const Member& m : h.items.back().members)
            if (!m.thread.empty() && !threads.contains(m.thread))
                fail(h.name + ": " + m.is.name, fmt::format("there is no thread '{}'", m.thread));
    }
    return h;
}

// Checks that every [rule] referenced in a text exists.
void check_references(const Description& d) {
    std::set<std::string> rules;
    std::vector<Header> headers = d.headers;
    headers.insert(headers.end(), d.drafts.begin(), d.drafts.end());
    for (const Header& h : headers)
        for (const Rule& r : h.rules) rules.insert(r.id);
    const auto check = [&](const std::string& text, const std::string& where) {
        for (std::size_t at = 0; (at = text.find('[', at)) != std::string::npos; ++at) {
            const std::size_t end = text.find(']', at);
            if (end == std::string::npos) break;
            const std::string inside = text.substr(at + 1, end - at - 1);
            const std::size_t dot = inside.find('.');
            const bool is_rule = dot != std::string::npos &&
                                 std::any_of(headers.begin(), headers.end(),
                                             [&](const Header& h) { return h.name == inside.substr(0, dot); });
            if (is_rule && !rules.contains(inside)) fail(where, fmt::format("there is no rule [{}]", inside));
        }
    };
    for (const Header& h : headers)
        for (const Item& i : h.items) {
            check(i.about, i.name);
            for (const Member& m : i.members) check(m.about, i.name + "." + m.is.name);
            for (const Constant& c : i.constants) check(c.about, c.name);
        }
}

// What a revision adds can be left out, and comes after what earlier ones have: a call of theirs is one of the newest.
void check_revisions(const Operation& o) {
    if (o.revision > 2) fail(o.name, fmt::format("revision {}: at most two are generated", o.revision));
    if ((o.revision == 2) != (o.revised > 0)) fail(o.name, "'revised' belongs to revision 2");
    const auto check = [&](const std::string& name, int revision, int before, bool optional) {
        if (revision < before || revision > o.revision || (revision > 1 && !optional))
            fail(o.name + "." + name, "what a revision adds is optional, and comes last");
    };
    int before = 1;
    for (const Input& i : o.inputs) {
        check(i.name, i.revision, before, i.optional);
        before = i.revision;
    }
    before = 1;
    for (const Attribute& a : o.attributes) {
        check(a.name, a.revision, before, !a.required());
        before = a.revision;
    }
}

std::vector<Operation> read_operations(const json& all) {
    std::vector<Operation> result;
    for (const json& j : all.at("operations")) {
        Operation o;
        o.name = j.at("name");
        o.doc = j.at("doc");
        o.group = j.at("group");
        o.revision = j.value("revision", 1);
        o.since = j.value("since", 0u);
        o.revised = j.value("revised", 0u);
        o.internal = j.value("internal", false);
        for (const json& i : j.value("inputs", json::array()))
            o.inputs.push_back({i.at("name"), i.at("kind"), i.value("optional", false), i.value("variadic", false),
                                i.value("revision", 1)});
        for (const json& a : j.value("attributes", json::array()))
            o.attributes.push_back({a.at("name"), a.at("type"), a.value("doc", ""),
                                    a.contains("default") ? a.at("default") : json(), a.value("revision", 1)});
        for (const json& p : j.at("outputs")) {
            if (p.is_string())
                o.outputs.push_back({p, false});
            else
                o.outputs.push_back({p.at("name"), p.value("hidden", false)});
        }
        check_revisions(o);
        result.push_back(o);
    }
    return result;
}

} // namespace

std::vector<std::string> Operation::visible() const {
    std::vector<std::string> names;
    for (const Output& output : outputs)
        if (!output.hidden) names.push_back(output.name);
    return names;
}

bool Operation::has_options() const {
    return std::any_of(inputs.begin(), inputs.end(), [](const Input& i) { return i.optional; }) ||
           std::any_of(attributes.begin(), attributes.end(), [](const Attribute& a) { return !a.required(); });
}

Description read_description(const std::filesystem::path& repository) {
    const json abi = read_json(repository / "engine/plugin/abi.json");
    Description d;
    d.major = abi.at("major");
    d.minor = abi.at("minor");
    d.oldest_minor = abi.at("oldest_minor");
    d.open = abi.value("open", false);
    std::set<std::string> threads;
    for (const auto& [name, about] : abi.at("threads").items()) {
        d.threads.emplace_back(name, about);
        threads.insert(name);
    }
    for (const json& h : abi.at("headers")) d.headers.push_back(read_header(h, threads));
    for (const json& h : abi.at("drafts")) {
        d.drafts.push_back(read_header(h, threads));
        d.drafts.back().draft = true;
        for (const Item& i : d.drafts.back().items)
            if (i.kind == ItemKind::table && i.id.find(".draft/") == std::string::npos)
                fail(i.name, fmt::format("the id {} is not a draft's; expected one like hekla.NAME.draft/1", i.id));
    }
    for (const Header& h : d.headers)
        for (const Item& i : h.items) {
            for (const Member& m : i.members)
                if (m.since > d.minor)
                    fail(m.is.name, fmt::format("since {}, the ABI is {}.{}", m.since, d.major, d.minor));
            for (const Constant& c : i.constants)
                if (c.since > d.minor)
                    fail(c.name, fmt::format("since {}, the ABI is {}.{}", c.since, d.major, d.minor));
        }
    check_references(d);
    d.operations = read_operations(read_json(repository / "engine/graph/operations.json"));
    for (const Operation& o : d.operations)
        if (const uint32_t newest = std::max(o.since, o.revised); newest > d.minor)
            fail(o.name, fmt::format("since {}, the ABI is {}.{}", newest, d.major, d.minor));
    return d;
}

Header relative(Header h) {
    for (Item& item : h.items) {
        for (Constant& c : item.constants)
            if (c.since == h.since) c.since = 0;
        for (Member& m : item.members)
            if (m.since == h.since) m.since = 0;
    }
    return h;
}

std::string wrapped(std::string_view text, const std::string& prefix, std::size_t width) {
    std::istringstream words{std::string(text)};
    std::string result, line = prefix, next;
    while (words >> next) {
        if (line.size() + next.size() + 1 > width && line != prefix) {
            result += line + "\n";
            line = prefix;
        }
        line += " " + next;
    }
    return result + line + "\n";
}

std::string camel(std::string_view name) {
    std::string result;
    bool upper = true;
    for (const char c : name) {
        if (c == '_') {
            upper = true;
            continue;
        }
        result += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        upper = false;
    }
    return result;
}

std::string c_type(const Type& type) {
    const std::string last = type.const_pointer ? " const*" : "*";
    return (type.is_const ? "const " : "") + type.base +
           (type.pointers > 0 ? std::string(static_cast<std::size_t>(type.pointers - 1), '*') + last : "");
}

namespace {
std::string parameters_of(const Function& f, std::string (*one)(const Variable&)) {
    if (f.parameters.empty()) return "void";
    std::string result;
    for (const Variable& p : f.parameters) result += (result.empty() ? "" : ", ") + one(p);
    return result;
}
} // namespace

std::string c_variable(const Variable& v) {
    if (!v.function.empty()) {
        const Function& f = v.function[0];
        return fmt::format("{}(HK_ABI* {})({})", c_type(f.returns), f.name, parameters_of(f, c_variable));
    }
    const std::string size = v.array.empty() ? "" : fmt::format("[{}]", v.array);
    return fmt::format("{} {}{}", c_type(v.type), v.name, size);
}

std::string c_type_of(const Variable& v) {
    if (!v.function.empty())
        return fmt::format("{}(HK_ABI*)({})", c_type(v.function[0].returns), parameters_of(v.function[0], c_type_of));
    return c_type(v.type) + (v.array.empty() ? "" : fmt::format("[{}]", v.array));
}

} // namespace hekla::abi
