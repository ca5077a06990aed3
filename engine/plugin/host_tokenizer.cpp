#include "plugin/host_tokenizer.hpp"

#include "plugin/host_error.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>

namespace hekla::plugin {
namespace {

// The ABI's names of roles; the numbers are text::TokenRole's.
constexpr const char* kRoles[] = {"bos", "eos", "pad", "unk", "mask", "separator", "classifier"};

} // namespace

const hk_tokenizer_interface* host_tokenizer_interface() {
    static const hk_tokenizer_interface table = {
        [](const hk_tokenizer* t) -> int64_t { return t->tokenizer->vocabulary_size(); },
        [](const hk_tokenizer* t, hk_string role) -> int64_t {
            const std::string_view name = view(role);
            if (constexpr std::string_view kSentinel = "sentinel."; name.starts_with(kSentinel)) {
                const std::string_view digits = name.substr(kSentinel.size());
                int32_t n = -1;
                const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
                if (problem != std::errc() || end != digits.data() + digits.size()) return -1;
                return t->tokenizer->sentinel(n).value_or(-1);
            }
            const auto found = std::ranges::find(kRoles, name);
            if (found == std::end(kRoles)) return -1;
            return t->tokenizer->special(static_cast<text::TokenRole>(found - std::begin(kRoles))).value_or(-1);
        },
        [](const hk_tokenizer* t, int64_t id) -> int32_t {
            if (id < 0 || id >= t->tokenizer->vocabulary_size()) return 0;
            const auto narrow = static_cast<int32_t>(id);
            return t->tokenizer->vocabulary().has(narrow) && t->tokenizer->begins_word(narrow) ? 1 : 0;
        },
        [](const hk_tokenizer* t, const int64_t* ids, uint64_t count, char* text, uint64_t* size,
           hk_error* error) -> int32_t {
            try {
                std::vector<int32_t> narrow;
                for (uint64_t i = 0; i < count; ++i)
                    narrow.push_back(
                        ids[i] < 0 || ids[i] > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int32_t>(ids[i]));
                const std::string decoded = t->tokenizer->decode(narrow);
                if (text != nullptr && *size >= decoded.size()) std::ranges::copy(decoded, text);
                *size = decoded.size();
                return HK_OK;
            } catch (const std::exception& e) {
                const std::string_view what = e.what();
                host_error_interface()->set(error, HK_INTERNAL, {what.data(), what.size()});
                return HK_INTERNAL;
            }
        },
        [](const hk_tokenizer* t, int64_t id) -> int32_t {
            if (id < 0 || id >= t->tokenizer->vocabulary_size()) return 0;
            const auto narrow = static_cast<int32_t>(id);
            if (!t->tokenizer->vocabulary().has(narrow) || t->tokenizer->vocabulary().is_special(narrow)) return 0;
            const std::string text = t->tokenizer->text_of(narrow, false);
            std::string_view bytes = text;
            if (bytes.empty()) return 0;
            // A quotation mark or bracket may stand behind the mark, as in `."`.
            while (bytes.size() > 1 && (bytes.back() == '"' || bytes.back() == '\'' || bytes.back() == ')'))
                bytes.remove_suffix(1);
            return std::string_view(".!?\n").find(bytes.back()) != std::string_view::npos ? 1 : 0;
        },
    };
    return &table;
}

} // namespace hekla::plugin
