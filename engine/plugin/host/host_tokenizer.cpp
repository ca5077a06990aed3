#include "plugin/host/host_tokenizer.hpp"

#include "plugin/host/host_error.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>

namespace hekla::plugin {
namespace {

// The ABI's names of roles, indexed by text::TokenRole.
constexpr const char* kRoles[] = {"bos", "eos", "pad", "unk", "mask", "separator", "classifier"};

class View final : public TokenizerView {
public:
    View(const text::Tokenizer& tokenizer, const text::TextRules& rules) : tokenizer_(tokenizer), rules_(rules) {}

    int64_t size() const override { return tokenizer_.vocabulary_size(); }

    int64_t special(std::string_view role) const override {
        if (constexpr std::string_view kSentinel = "sentinel."; role.starts_with(kSentinel)) {
            const std::string_view digits = role.substr(kSentinel.size());
            int32_t n = -1;
            const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
            if (problem != std::errc() || end != digits.data() + digits.size()) return -1;
            return tokenizer_.sentinel(n).value_or(-1);
        }
        if (role.starts_with(kFrame)) return of_frame(role.substr(kFrame.size()));
        const auto found = std::ranges::find(kRoles, role);
        if (found == std::end(kRoles)) return -1;
        return tokenizer_.special(static_cast<text::TokenRole>(found - std::begin(kRoles))).value_or(-1);
    }

    bool begins_word(int64_t id) const override { return has(id) && tokenizer_.begins_word(static_cast<int32_t>(id)); }

    bool ends_sentence(int64_t id) const override {
        if (!has(id) || tokenizer_.vocabulary().is_special(static_cast<int32_t>(id))) return false;
        const std::string text = tokenizer_.text_of(static_cast<int32_t>(id), false);
        std::string_view bytes = text;
        if (bytes.empty()) return false;
        // A quotation mark or bracket may follow the punctuation, as in `."`.
        while (bytes.size() > 1 && (bytes.back() == '"' || bytes.back() == '\'' || bytes.back() == ')'))
            bytes.remove_suffix(1);
        return std::string_view(".!?\n").find(bytes.back()) != std::string_view::npos;
    }

    std::string decode(std::span<const int64_t> ids) const override {
        std::vector<int32_t> narrow;
        for (const int64_t id : ids)
            narrow.push_back(id < 0 || id > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int32_t>(id));
        return tokenizer_.decode(narrow);
    }

private:
    bool has(int64_t id) const {
        return id >= 0 && id < tokenizer_.vocabulary_size() && tokenizer_.vocabulary().has(static_cast<int32_t>(id));
    }
    // Returns an id of the frame, by its list and place in it: "single.before.0".
    int64_t of_frame(std::string_view name) const {
        if (!rules_.framed) return -1;
        const text::TextFrame& frame = tokenizer_.frame();
        if (name.empty()) return 0;
        const text::DocumentFrame document = text::TextEncoder(tokenizer_, rules_).document_frame();
        const std::pair<std::string_view, const std::vector<int32_t>*> lists[] = {
            {".begin.", &document.before},         {".single.before.", &frame.before},
            {".single.after.", &frame.after},      {".single.types.", &frame.types},
            {".pair.before.", &frame.pair_before}, {".pair.between.", &frame.pair_between},
            {".pair.after.", &frame.pair_after},   {".pair.types.", &frame.pair_types}};
        for (const auto& [list, ids] : lists) {
            if (!name.starts_with(list)) continue;
            const std::string_view digits = name.substr(list.size());
            std::size_t n = 0;
            const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
            if (problem != std::errc() || end != digits.data() + digits.size()) return -1;
            return n < ids->size() ? (*ids)[n] : -1;
        }
        return -1;
    }
    static constexpr std::string_view kFrame = "frame";
    const text::Tokenizer& tokenizer_;
    text::TextRules rules_;
};

// Catches all exceptions of a function of the table.
template<class T, class F>
T answered(T otherwise, F&& f) noexcept {
    try {
        return f();
    } catch (...) { return otherwise; }
}

} // namespace

std::unique_ptr<TokenizerView> view_of(const text::Tokenizer& tokenizer, const text::TextRules& rules) {
    return std::make_unique<View>(tokenizer, rules);
}

const hk_tokenizer_interface* host_tokenizer_interface() {
    static const hk_tokenizer_interface kTable = {
        [](const hk_tokenizer* t) -> int64_t { return answered(int64_t{0}, [&] { return t->view->size(); }); },
        [](const hk_tokenizer* t, hk_string role) -> int64_t {
            return answered(int64_t{-1}, [&] { return t->view->special(view(role)); });
        },
        [](const hk_tokenizer* t, int64_t id) -> int32_t {
            return answered(0, [&] { return t->view->begins_word(id) ? 1 : 0; });
        },
        [](const hk_tokenizer* t, const int64_t* ids, uint64_t count, char* text, uint64_t* size,
           hk_error* error) -> int32_t {
            try {
                const std::string decoded = t->view->decode({ids, static_cast<std::size_t>(count)});
                if (text != nullptr && *size >= decoded.size()) std::ranges::copy(decoded, text);
                *size = decoded.size();
                return HK_OK;
            } catch (const std::exception& e) { return refuse_exception(error, e); }
        },
        [](const hk_tokenizer* t, int64_t id) -> int32_t {
            return answered(0, [&] { return t->view->ends_sentence(id) ? 1 : 0; });
        },
    };
    return &kTable;
}

} // namespace hekla::plugin
