#include "model/strict_json.hpp"

#include "base/file.hpp"
#include "model/tensor.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <set>

namespace hekla::model {
namespace {

// nlohmann's messages begin with "[json.exception.parse_error.101] "; people need what follows.
std::string reason_of(const std::exception& error) {
    const std::string_view text = error.what();
    const std::size_t bracket = text.find("] ");
    return std::string(bracket == std::string_view::npos ? text : text.substr(bracket + 2));
}

struct Refusal {
    std::string reason;
};

} // namespace

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where) {
    using Event = nlohmann::json::parse_event_t;
    std::vector<std::set<std::string>> keys;
    const auto watch = [&keys](int depth, Event event, nlohmann::json& parsed) {
        if (depth > json_depth_limit) throw Refusal{fmt::format("nested deeper than {} levels", json_depth_limit)};
        if (event == Event::object_start) keys.emplace_back();
        if (event == Event::object_end) keys.pop_back();
        if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
            throw Refusal{fmt::format("key {} is there twice", in_quotes(parsed.get<std::string>()))};
        return true;
    };
    try {
        nlohmann::json value = nlohmann::json::parse(text, watch);
        if (!value.is_object())
            return corrupt(fmt::format("{}: holds {}, a JSON object was expected", where, value.type_name()));
        return value;
    } catch (const Refusal& refusal) {
        return corrupt(fmt::format("{}: {}", where, refusal.reason));
    } catch (const std::bad_alloc&) {
        return out_of_memory(fmt::format("{}: not enough memory to read {} bytes of JSON", where, text.size()));
    } catch (const std::exception& error) {
        return corrupt(fmt::format("{}: is not JSON: {}", where, reason_of(error)));
    }
}

Result<std::string> read_bounded_file(const std::filesystem::path& path, uint64_t largest) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(path, error);
    if (!error && size > largest)
        return corrupt(fmt::format("{}: is {} bytes long, at most {} were expected", path.string(), size, largest));
    return read_file(path); // says what is wrong where the size could not be asked
}

Result<std::string> dump_json(const nlohmann::json& value) {
    try {
        return value.dump(2) + "\n";
    } catch (const std::exception& error) {
        return invalid_argument(fmt::format("cannot be written as JSON: {}", reason_of(error)));
    }
}

bool is_plain_file_name(std::string_view name) {
    if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c != '/' && c != '\\' && c != ':' && byte >= 0x20 && byte != 0x7f;
    });
}

} // namespace hekla::model
