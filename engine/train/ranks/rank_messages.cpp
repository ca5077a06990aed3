#include "train/ranks/rank_messages.hpp"

#include "base/json.hpp"

#include <span>
#include <string>

namespace hekla::train {
namespace {

using nlohmann::json;

std::vector<std::byte> bytes_of(const json& message) {
    const std::string text = message.dump();
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

Result<json> json_of(std::span<const std::byte> bytes) {
    return parse_json_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "a message between ranks");
}

} // namespace

Status tell(exchange::Communicator& ranks, const json& message) {
    if (ranks.size() == 1 || ranks.rank() != 0) return {};
    std::vector<std::byte> bytes = bytes_of(message);
    return ranks.broadcast(bytes);
}

Result<json> hear(exchange::Communicator& ranks) {
    std::vector<std::byte> bytes;
    HK_TRY(ranks.broadcast(bytes));
    return json_of(bytes);
}

Result<json> shared(exchange::Communicator* ranks, const std::function<Result<json>()>& make) {
    if (ranks != nullptr && ranks->rank() != 0) return hear(*ranks);
    HK_ASSIGN(json message, make());
    if (ranks != nullptr) HK_TRY(tell(*ranks, message));
    return message;
}

Result<std::vector<json>> gather_messages(exchange::Communicator& ranks, const json& own) {
    HK_ASSIGN(const auto all, ranks.gather(bytes_of(own)));
    std::vector<json> messages;
    for (const std::vector<std::byte>& bytes : all) {
        HK_ASSIGN(json message, json_of(bytes));
        messages.push_back(std::move(message));
    }
    return messages;
}

} // namespace hekla::train
