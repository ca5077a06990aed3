#include "text/pipeline/oniguruma.hpp"

#include "base/utf8.hpp"

#include <fmt/format.h>
#include <utility>
#include <vector>

namespace hekla::text {
namespace {

// Unicode's sets, written to stand inside a class.
constexpr std::string_view kSpaceSet =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of classes Oniguruma has a table for Latin-1, in which superscripts and fractions belong to words.
constexpr std::string_view kLoneWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHexSet = "0-9A-Fa-f";
constexpr std::string_view kDigitSet = R"(\p{Nd})";

constexpr std::string_view kCategories[] = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {{"letter", "L"},
                                                                        {"uppercaseletter", "Lu"},
                                                                        {"lowercaseletter", "Ll"},
                                                                        {"titlecaseletter", "Lt"},
                                                                        {"modifierletter", "Lm"},
                                                                        {"otherletter", "Lo"},
                                                                        {"mark", "M"},
                                                                        {"nonspacingmark", "Mn"},
                                                                        {"spacingmark", "Mc"},
                                                                        {"enclosingmark", "Me"},
                                                                        {"number", "N"},
                                                                        {"decimalnumber", "Nd"},
                                                                        {"letternumber", "Nl"},
                                                                        {"othernumber", "No"},
                                                                        {"punctuation", "P"},
                                                                        {"connectorpunctuation", "Pc"},
                                                                        {"dashpunctuation", "Pd"},
                                                                        {"openpunctuation", "Ps"},
                                                                        {"closepunctuation", "Pe"},
                                                                        {"initialpunctuation", "Pi"},
                                                                        {"finalpunctuation", "Pf"},
                                                                        {"otherpunctuation", "Po"},
                                                                        {"symbol", "S"},
                                                                        {"mathsymbol", "Sm"},
                                                                        {"currencysymbol", "Sc"},
                                                                        {"modifiersymbol", "Sk"},
                                                                        {"othersymbol", "So"},
                                                                        {"separator", "Z"},
                                                                        {"spaceseparator", "Zs"},
                                                                        {"lineseparator", "Zl"},
                                                                        {"paragraphseparator", "Zp"},
                                                                        {"other", "C"},
                                                                        {"control", "Cc"},
                                                                        {"format", "Cf"},
                                                                        {"privateuse", "Co"},
                                                                        {"alphabetic", "Alphabetic"},
                                                                        {"alpha", "Alphabetic"}};

// A class as alternatives: `set` is the inside of one class of PCRE2, `others` are classes of their own.
struct ClassParts {
    std::string set;
    std::vector<std::string> others;
};

std::string class_expression(const ClassParts& parts, bool negated) {
    if (parts.others.empty()) return fmt::format("[{}{}]", negated ? "^" : "", parts.set);
    std::string any = parts.set.empty() ? std::string() : fmt::format("[{}]", parts.set);
    for (const std::string& other : parts.others) any += (any.empty() ? "" : "|") + other;
    return negated ? fmt::format("(?:(?!{})(?s:.))", any) : fmt::format("(?:{})", any);
}

class OnigurumaReader {
public:
    explicit OnigurumaReader(std::string_view text) : text_(text) {}

    Result<std::string> read() {
        HK_TRY(alternatives(0));
        if (!is_end()) return damaged("a ')' without its '('");
        return std::move(out_);
    }

private:
    static constexpr int kDeepest = 100;

    bool is_end() const { return at_ >= text_.size(); }
    char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    Status refused(std::string_view what) const {
        return unsupported(
            fmt::format("the regular expression {} has {} at byte {}, which is not supported", text_, what, at_));
    }

    Status damaged(std::string_view what) const {
        return corrupt(
            fmt::format("the pattern {} is not a regular expression: it has {} at byte {}", text_, what, at_));
    }

    Status alternatives(int depth) {
        if (depth > kDeepest) return refused("more than 100 nested groups");
        bool has_atom = false; // something that a quantifier can repeat
        while (!is_end() && peek() != ')') {
            const char c = peek();
            if (c == '|') {
                out_ += c;
                ++at_;
                has_atom = false;
            } else if (c == '*' || c == '+' || c == '?' || (c == '{' && is_interval())) {
                if (!has_atom) return damaged("a quantifier without something to repeat");
                HK_TRY(quantifier());
                has_atom = false;
            } else {
                HK_ASSIGN(has_atom, atom(depth));
            }
        }
        return {};
    }

    // Returns whether "{" begins an interval: {n}, {n,}, {n,m} or {,m}.
    bool is_interval() const {
        std::size_t i = 1;
        const auto digits = [&] {
            const std::size_t from = i;
            while (peek(i) >= '0' && peek(i) <= '9') ++i;
            return i > from;
        };
        const bool low = digits();
        if (peek(i) == '}') return low;
        if (peek(i) != ',') return false;
        ++i;
        const bool high = digits();
        return peek(i) == '}' && (low || high);
    }

    Status quantifier() {
        const bool interval = peek() == '{';
        if (interval) {
            const std::size_t end = text_.find('}', at_);
            std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
            out_ += inside.starts_with(',') ? fmt::format("{{0{}}}", inside) : fmt::format("{{{}}}", inside);
            const bool exact = inside.find(',') == std::string_view::npos;
            at_ = end + 1;
            // In Oniguruma {n}+ repeats, and {n}? is optional.
            if (peek() == '+' || (exact && peek() == '?')) return refused("'+' or '?' after an interval");
            if (peek() == '?') out_ += text_[at_++];
        } else {
            out_ += text_[at_++];
            if (peek() == '?' || peek() == '+') out_ += text_[at_++]; // lazy, possessive
        }
        if (peek() == '*' || peek() == '+' || peek() == '?' || (peek() == '{' && is_interval()))
            return refused("a quantifier after a quantifier");
        return {};
    }

    // Reads one atom or group; returns whether it can be repeated.
    Result<bool> atom(int depth) {
        const char c = peek();
        if (c == '(') return group(depth);
        if (c == '[') {
            HK_ASSIGN(const std::string set, character_class(depth));
            out_ += set;
            return true;
        }
        if (c == '\\') {
            ClassParts parts;
            HK_ASSIGN(const bool is_class, escape(parts, false));
            if (!is_class) return true;
            out_ += class_expression(parts, false);
            return true;
        }
        if (c == '^') {
            out_ += c;
            ++at_;
            return false;
        }
        if (c == '$') {
            out_ += "(?=\\n|\\z)"; // also before the last newline; every line's end
            ++at_;
            return false;
        }
        if (c == '.') {
            out_ += "[^\\n]";
            ++at_;
            return true;
        }
        if (c == '{' || c == '}' || c == ']') {
            out_ += '\\';
            out_ += c;
            ++at_;
            return true;
        }
        literal(out_);
        return true;
    }

    // Copies one character, escaped where PCRE2 could read it as more.
    void literal(std::string& out) {
        const std::size_t size = first_code_point(text_.substr(at_)).size;
        const char c = peek();
        if (size == 1 &&
            (c == '-' || c == '#' || c == '&' || c == '~' || c == '^' || c == '[' || c == ']' || c == '\\'))
            out += '\\';
        out += text_.substr(at_, size);
        at_ += size;
    }

    Result<bool> group(int depth) {
        constexpr std::string_view kOpens[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
        std::string_view open = "(";
        for (const std::string_view known : kOpens)
            if (text_.substr(at_).starts_with(known)) open = known;
        bool repeatable = true;
        if (open == "(") {
            if (peek(1) == '?' || peek(1) == '*') {
                if (!text_.substr(at_).starts_with("(?i)")) return refused("a group of an unknown kind");
                out_ += "(?i)";
                at_ += 4;
                return false;
            }
            out_ += "(?:"; // no expression refers to a group
        } else {
            out_ += open;
            repeatable = open != "(?=" && open != "(?!" && open != "(?<=" && open != "(?<!";
        }
        at_ += open.size();
        HK_TRY(alternatives(depth + 1));
        if (is_end()) return damaged("a group that is not closed");
        out_ += ')';
        ++at_;
        return repeatable;
    }

    // Reads an escape. A character is appended to the output (to parts.set inside a class), and false returned; a class
    // is put into `parts`, and true returned.
    Result<bool> escape(ClassParts& parts, bool inside) {
        std::string& out = inside ? parts.set : out_;
        const char c = peek(1);
        const auto set = [&](std::string_view content, bool negated) {
            at_ += 2;
            if (negated)
                parts.others.push_back(fmt::format("[^{}]", content));
            else
                parts.set += content;
            return true;
        };
        switch (c) {
        case 's': return set(kSpaceSet, false);
        case 'S': return set(kSpaceSet, true);
        case 'w': return set(inside ? kWordSet : kLoneWordSet, false);
        case 'W': return set(inside ? kWordSet : kLoneWordSet, true);
        case 'd': return set(kDigitSet, false);
        case 'D': return set(kDigitSet, true);
        case 'h': return set(kHexSet, false);
        case 'H': return set(kHexSet, true);
        case 'p':
        case 'P': return property(parts);
        case 'n':
        case 'r':
        case 't':
        case 'f':
        case 'a':
        case 'e':
            out += text_.substr(at_, 2);
            at_ += 2;
            return false;
        case 'v':
            out += "\\x{b}";
            at_ += 2;
            return false;
        case 'x':
        case 'u': return hexadecimal(out);
        case 'A':
        case 'z':
            if (inside) break;
            out += text_.substr(at_, 2);
            at_ += 2;
            return false;
        case 'b':
        case 'B': {
            if (inside) break;
            const std::string word = fmt::format("[{}]", kLoneWordSet);
            const char* form = c == 'b' ? "(?:(?<={0})(?!{0})|(?<!{0})(?={0}))" : "(?:(?<={0})(?={0})|(?<!{0})(?!{0}))";
            out += fmt::format(fmt::runtime(form), word);
            at_ += 2;
            return false;
        }
        default: break;
        }
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x80) { // an escaped character that needs no escape
            ++at_;
            literal(out);
            return false;
        }
        const bool alphanumeric = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                                  (byte >= 'A' && byte <= 'Z') || byte == '\0';
        if (alphanumeric) return refused(fmt::format("the escape \\{}", byte == '\0' ? ' ' : c));
        out += '\\';
        out += c;
        at_ += 2;
        return false;
    }

    Result<bool> hexadecimal(std::string& out) {
        const bool braces = peek(1) == 'x' && peek(2) == '{';
        std::size_t i = braces ? 3 : 2;
        const std::size_t most = braces ? 8 : peek(1) == 'u' ? 4 : 2;
        uint32_t value = 0;
        std::size_t digits = 0;
        for (; digits < most; ++digits, ++i) {
            const char c = peek(i);
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) break;
            value = value * 16 + static_cast<uint32_t>(digit);
        }
        if (digits == 0 || (braces && peek(i) != '}') ||
            (!braces && (digits < most || value > 0x7F) && peek(1) == 'x') || (peek(1) == 'u' && digits != 4) ||
            value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
            return refused("a number of a character that is not complete");
        out += fmt::format("\\x{{{:x}}}", value);
        at_ += i + (braces ? 1 : 0);
        return false;
    }

    // Reads \p{...}: a category or a script.
    Result<bool> property(ClassParts& parts) {
        bool negated = peek(1) == 'P';
        if (peek(2) != '{') return refused("a property without braces");
        const std::size_t end = text_.find('}', at_);
        if (end == std::string_view::npos) return damaged("a property that is not closed");
        std::string_view name = text_.substr(at_ + 3, end - at_ - 3);
        if (name.starts_with('^')) {
            negated = !negated;
            name.remove_prefix(1);
        }
        std::string plain; // without case and separators
        for (const char c : name) {
            if (c == ' ' || c == '_' || c == '-') continue;
            if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z')) return refused("a property of an unknown name");
            plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        }
        std::string known;
        for (const std::string_view category : kCategories)
            if (plain.size() == category.size() && plain[0] == category[0] - 'A' + 'a' &&
                plain.substr(1) == category.substr(1))
                known = category;
        for (const auto& [longer, category] : kLongNames)
            if (plain == longer) known = category;
        if (known.empty()) {
            if (plain.size() < 3) return refused("a property of an unknown name");
            known = "sc:" + plain; // the script itself; PCRE2's plain names are script extensions
        }
        at_ = end + 1;
        parts.set += fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', known);
        return true;
    }

    // Reads a class; returns it as an expression.
    Result<std::string> character_class(int depth) {
        if (depth > kDeepest) return refused("more than 100 nested classes");
        ++at_; // [
        const bool negated = peek() == '^';
        if (negated) ++at_;
        ClassParts parts;
        std::vector<std::string> all; // of an intersection
        bool is_first = true;
        for (;; is_first = false) {
            if (is_end()) return damaged("a class that is not closed");
            if (peek() == ']' && !is_first) break;
            if (peek() == ']') return refused("an empty class");
            if (peek() == '&' && peek(1) == '&') {
                if (parts.set.empty() && parts.others.empty()) return refused("an intersection with nothing");
                all.push_back(class_expression(parts, false));
                parts = {};
                at_ += 2;
                continue;
            }
            if (peek() == '[' && peek(1) == ':') {
                HK_TRY(posix_class(parts));
            } else if (peek() == '[') {
                HK_ASSIGN(const std::string inner, character_class(depth + 1));
                if (inner.starts_with('[') && !inner.starts_with("[^"))
                    parts.set += inner.substr(1, inner.size() - 2); // a union of sets
                else
                    parts.others.push_back(inner);
            } else {
                HK_TRY(class_item(parts));
            }
        }
        ++at_; // ]
        if (all.empty()) return class_expression(parts, negated);
        if (parts.set.empty() && parts.others.empty()) return refused("an intersection with nothing");
        std::string both;
        for (const std::string& one : all) both += fmt::format("(?={})", one);
        both += class_expression(parts, false);
        return negated ? fmt::format("(?:(?!{})(?s:.))", both) : fmt::format("(?:{})", both);
    }

    Status posix_class(ClassParts& parts) {
        constexpr std::pair<std::string_view, std::string_view> kPosix[] = {{"[:space:]", kSpaceSet},
                                                                            {"[:digit:]", kDigitSet},
                                                                            {"[:xdigit:]", kHexSet},
                                                                            {"[:alpha:]", R"(\p{Alphabetic})"},
                                                                            {"[:word:]", kWordSet}};
        for (const auto& [name, set] : kPosix)
            if (text_.substr(at_).starts_with(name)) {
                parts.set += set;
                at_ += name.size();
                return {};
            }
        return refused("a class of an unknown name");
    }

    // Reads a character, a range or an escape inside a class.
    Status class_item(ClassParts& parts) {
        const auto character = [&]() -> Result<bool> { // whether it was a class
            if (peek() == '\\') return escape(parts, true);
            literal(parts.set);
            return false;
        };
        HK_ASSIGN(const bool is_class, character());
        const bool is_range = peek() == '-' && peek(1) != ']' && peek(1) != '\0';
        if (!is_range) return {};
        if (is_class || peek(1) == '[') return refused("a range of classes");
        ++at_;
        parts.set += '-';
        HK_ASSIGN(const bool ends_in_class, character());
        return ends_in_class ? refused("a range of classes") : Status();
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::string out_;
};

} // namespace

Result<std::string> pcre2_of_oniguruma(std::string_view expression) { return OnigurumaReader(expression).read(); }

} // namespace hekla::text
