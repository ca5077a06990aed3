#include "text/pipeline/known_expressions.hpp"

#include "text/splitter.hpp"

#include <algorithm>

namespace hekla::text {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kDeepSeekChinese = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view kDeepSeekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kOfGpt2[] = {kGpt2Pattern};
constexpr std::string_view kOfLlama3[] = {kLlama3};
constexpr std::string_view kOfQwen2[] = {kQwen2};
constexpr std::string_view kOfQwen35[] = {kQwen35};
constexpr std::string_view kOfTekken[] = {kTekken};
constexpr std::string_view kOfO200k[] = {kO200k};
constexpr std::string_view kOfDeepSeek[] = {kDeepSeekNumbers, kDeepSeekChinese, kDeepSeekWords};

constexpr std::string_view kNumber = R"(\p{N})";
constexpr std::string_view kOfDigits[] = {kNumber, kGpt2Pattern};

constexpr KnownExpressions kKnown[] = {
    {"gpt-2", kOfGpt2, false},   {"smollm", kOfDigits, false}, {"llama-bpe", kOfLlama3, true},
    {"dbrx", kOfLlama3, false},  {"qwen2", kOfQwen2, false},   {"qwen35", kOfQwen35, false},
    {"tekken", kOfTekken, true}, {"gpt-4o", kOfO200k, false},  {"deepseek-v3", kOfDeepSeek, false},
};

} // namespace

std::span<const KnownExpressions> known_expressions() { return kKnown; }

bool words_end_at_spaces(std::string_view expression) {
    return expression == kCl100k || std::ranges::any_of(kKnown, [&](const KnownExpressions& known) {
               return std::ranges::find(known.expressions, expression) != known.expressions.end();
           });
}

} // namespace hekla::text
