#include "train/evaluation/gathered.hpp"

#include <span>
#include <vector>

namespace hekla::train {

using nlohmann::json;

Result<json> gathered(exchange::Communicator& ranks, const json& own) {
    const std::vector<uint8_t> bytes = json::to_cbor(own);
    HK_ASSIGN(const auto all, ranks.gather(std::as_bytes(std::span(bytes))));
    json elements = json::array();
    for (const std::vector<std::byte>& of_rank : all) {
        const auto* const begin = reinterpret_cast<const uint8_t*>(of_rank.data());
        for (json& one : json::from_cbor(begin, begin + of_rank.size(), true, false))
            elements.push_back(std::move(one));
    }
    return elements;
}

} // namespace hekla::train
