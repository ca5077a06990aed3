#include "model/stacked_tensors.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace hekla::model {
namespace {

struct Pattern {
    std::string_view before, after; // of the number; `before` ends with a dot, `after` begins with one

    explicit Pattern(std::string_view text)
        : before(text.substr(0, text.find('#'))), after(text.substr(text.find('#') + 1)) {}
};

bool ends_with_part(std::string_view name, std::string_view ending) {
    return name.ends_with(ending) && (name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.');
}

struct Part {
    std::string stack; // the name of the whole
    std::size_t number = 0;
};

// Returns nothing for a name that the pattern does not match.
std::optional<Part> part_of(std::string_view name, const Pattern& pattern) {
    if (!name.ends_with(pattern.after)) return std::nullopt;
    const std::string_view rest = name.substr(0, name.size() - pattern.after.size());
    const std::size_t digits = rest.size() - (rest.find_last_not_of("0123456789") + 1);
    const std::string_view before = rest.substr(0, rest.size() - digits), number = rest.substr(rest.size() - digits);
    if (!ends_with_part(before, pattern.before) || (number.size() > 1 && number[0] == '0')) return std::nullopt;
    uint32_t value = 0;
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (problem != std::errc() || end != number.data() + number.size()) return std::nullopt;
    return Part{std::string(before) + std::string(pattern.after.substr(1)), value};
}

// Returns the name of part `number` of a stack, or nothing if no pattern names it.
std::optional<std::string> name_of_part(std::string_view stack, const Pattern& pattern, std::size_t number) {
    const std::string ending = std::string(pattern.before) + std::string(pattern.after.substr(1));
    if (!ends_with_part(stack, ending)) return std::nullopt;
    return fmt::format("{}{}{}{}", stack.substr(0, stack.size() - ending.size()), pattern.before, number,
                       pattern.after);
}

using Parts = std::map<std::size_t, const TensorView*>;

Result<TensorView> stack_of(const std::string& name, const Pattern& pattern, const Parts& parts,
                            const std::string& where) {
    const auto part_name = [&](std::size_t number) { return in_quotes(*name_of_part(name, pattern, number)); };
    const std::size_t last = parts.rbegin()->first;
    for (std::size_t number = 0; number <= last; ++number)
        if (!parts.contains(number))
            return corrupt(fmt::format("{}: has {}, but no {}: the parts of a stack are numbered from 0 on", where,
                                       part_name(last), part_name(number)));
    const TensorView& first = *parts.at(0);
    TensorView whole;
    whole.name = name;
    whole.dtype = first.dtype;
    whole.dims = first.dims;
    whole.dims.insert(whole.dims.begin(), std::ssize(parts));
    for (const auto& [number, part] : parts) {
        if (part->dims != first.dims || part->dtype != first.dtype)
            return corrupt(fmt::format("{}: {} is {}, expected {} as {}", where, part_name(number), describe(*part),
                                       describe(first), part_name(0)));
        whole.parts.push_back(part->bytes);
    }
    return whole;
}

// The bytes of a stack between the first and the last of its parts that is written.
struct Streamed {
    TensorSource source;
    std::vector<std::byte> bytes{};
    std::size_t left = 0;
};

Status stream_part(Streamed& stack, std::size_t number, std::size_t parts, const Sink& sink) {
    if (stack.left == 0) {
        stack.bytes.clear();
        HK_TRY(stack.source.stream([&](std::span<const std::byte> piece) -> Status {
            stack.bytes.insert(stack.bytes.end(), piece.begin(), piece.end());
            return {};
        }));
        stack.left = parts;
    }
    const std::size_t size = stack.bytes.size() / parts;
    HK_TRY(sink(std::span<const std::byte>(stack.bytes).subspan(number * size, size)));
    if (--stack.left == 0) stack.bytes = {};
    return {};
}

} // namespace

Result<StackedTensors> stack_tensors(std::span<const TensorView> stored, std::span<const std::string> patterns,
                                     const std::string& where) {
    StackedTensors result{std::vector<bool>(stored.size(), false), {}};
    for (const std::string& text : patterns) {
        const Pattern pattern(text);
        std::map<std::string, Parts> stacks;
        for (std::size_t i = 0; i < stored.size(); ++i) {
            const std::optional<Part> part = part_of(stored[i].name, pattern);
            if (!part) continue;
            stacks[part->stack].emplace(part->number, &stored[i]);
            result.stacked[i] = true;
        }
        for (const auto& [name, parts] : stacks) {
            HK_ASSIGN(TensorView whole, stack_of(name, pattern, parts, where));
            result.tensors.push_back(std::make_shared<const TensorView>(std::move(whole)));
        }
    }
    return result;
}

Result<std::vector<TensorView>> with_stacks(std::span<const TensorView> stored, std::span<const std::string> patterns,
                                            const std::string& where) {
    HK_ASSIGN(const StackedTensors stacks, stack_tensors(stored, patterns, where));
    std::vector<TensorView> all;
    for (std::size_t i = 0; i < stored.size(); ++i)
        if (!stacks.stacked[i]) all.push_back(stored[i]);
    for (const std::shared_ptr<const TensorView>& tensor : stacks.tensors) all.push_back(*tensor);
    return all;
}

std::vector<TensorSource> divide_stacks(std::vector<TensorSource> tensors, std::span<const std::string> patterns) {
    std::vector<TensorSource> divided;
    for (TensorSource& tensor : tensors) {
        const auto named = std::ranges::find_if(patterns, [&](const std::string& pattern) {
            return !tensor.dims.empty() && name_of_part(tensor.name, Pattern(pattern), 0).has_value();
        });
        if (named == patterns.end()) {
            divided.push_back(std::move(tensor));
            continue;
        }
        const Pattern pattern(*named);
        const auto stack = std::make_shared<Streamed>(Streamed{std::move(tensor)});
        const auto parts = static_cast<std::size_t>(stack->source.dims.front());
        for (std::size_t number = 0; number < parts; ++number) {
            TensorSource& part = divided.emplace_back();
            part.name = *name_of_part(stack->source.name, pattern, number);
            part.dtype = stack->source.dtype;
            part.dims.assign(stack->source.dims.begin() + 1, stack->source.dims.end());
            part.stream = [stack, number, parts](const Sink& sink) { return stream_part(*stack, number, parts, sink); };
        }
    }
    return divided;
}

} // namespace hekla::model
