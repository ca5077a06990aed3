// Base64 (RFC 4648) with padding, which tokenizer.json uses for SentencePiece's map of characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hekla::text {

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text); // nothing if it has other characters

} // namespace hekla::text
