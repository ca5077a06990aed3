#include "program/lowering/kernel_problem.hpp"

#include <charconv>
#include <fmt/format.h>

namespace hekla::program {

std::string KernelChoice::text() const {
    std::string text = kernel;
    if (splits != 0) text += fmt::format(" splits={}", splits);
    if (lanes != 0) text += fmt::format(" lanes={}", lanes);
    return text;
}

KernelChoice KernelChoice::parse(std::string_view text) {
    KernelChoice choice;
    const std::size_t end = text.find(' ');
    choice.kernel = text.substr(0, end);
    const auto number = [&](std::string_view name, uint32_t& value) {
        const std::size_t at = text.find(name);
        if (at == std::string_view::npos) return;
        const char* const begin = text.data() + at + name.size();
        if (std::from_chars(begin, text.data() + text.size(), value).ec != std::errc()) value = 0;
    };
    number(" splits=", choice.splits);
    number(" lanes=", choice.lanes);
    if (choice.text() != text) return {.kernel = std::string(text)};
    return choice;
}

} // namespace hekla::program
