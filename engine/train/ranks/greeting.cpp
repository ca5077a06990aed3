#include "train/ranks/greeting.hpp"

#include "base/file.hpp"
#include "base/host.hpp"
#include "base/path_text.hpp"
#include "graph/text.hpp"
#include "train/ranks/rank_messages.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/held_out.hpp"
#include "train/run/prepared_run.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kVersion = HEKLA_VERSION;

// Returns the messages of all ranks, which are called by their "process" and "device" from then on.
Result<std::vector<json>> gather_named(exchange::Communicator& ranks, const json& own) {
    HK_ASSIGN(std::vector<json> messages, gather_messages(ranks, own));
    std::vector<std::string> names, processes;
    for (const json& message : messages) {
        processes.push_back(message.value("process", std::string()));
        names.push_back(processes.back() + message.value("device", std::string()));
    }
    ranks.set_names(std::move(names), std::move(processes));
    return messages;
}

std::string own_process() { return fmt::format("host {}, process {}", host_name(), process_id()); }

// Returns the first key with different values, "train.seed = 1, and 2 on rank 0"; empty if there is none.
std::string difference(const json& recipe, const json& of_rank_0) {
    for (const auto& [key, value] : recipe.items())
        if (!of_rank_0.contains(key) || of_rank_0[key] != value)
            return fmt::format("{} = {}, and {} on rank 0", key, value.get<std::string>(),
                               of_rank_0.value(key, std::string("nothing")));
    for (const auto& [key, value] : of_rank_0.items())
        if (!recipe.contains(key)) return fmt::format("no {}, and {} on rank 0", key, value.get<std::string>());
    return {};
}

json values_of_recipe(const Recipe& recipe) {
    json values = json::object();
    for (const RecipeValue& value : recipe_values(recipe))
        values[fmt::format("{}.{}", value.section, value.key)] = value.value;
    return values;
}

} // namespace

// Every rank finds the same difference.
Status greet(const RunContext& context, const Recipe& recipe) {
    if (context.ranks.size() == 1) return {};
    const json own{{"process", own_process()}, {"version", kVersion}, {"recipe", values_of_recipe(recipe)}};
    HK_ASSIGN(const std::vector<json> ranks, gather_named(context.ranks, own));
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        if (ranks[rank]["version"] != ranks[0]["version"])
            return failed_precondition(fmt::format("{} runs version {}, and rank 0 version {}: install the same on all",
                                                   context.ranks.name(static_cast<int32_t>(rank)),
                                                   ranks[rank]["version"].dump(), ranks[0]["version"].dump()));
        if (const std::string odd = difference(ranks[rank]["recipe"], ranks[0]["recipe"]); !odd.empty())
            return failed_precondition(
                fmt::format("{} has another recipe: {}", context.ranks.name(static_cast<int32_t>(rank)), odd));
    }
    return {};
}

Status compare_runs(const PreparedRun& run, const graph::Graph& described, const gpu::Capabilities& device) {
    exchange::Communicator& communicator = run.context.ranks;
    if (communicator.size() == 1) return {};
    const json own{{"process", own_process()},
                   {"device", fmt::format(", {}", device.device_name)},
                   {"place", fmt::format("{} {}", host_name(), json(device.device_uuid).dump())},
                   {"tokenizer", to_hex(run.tokenizer->hash())},
                   {"data", run.data.identity()},
                   {"graph", to_hex(graph::hash(described))}};
    HK_ASSIGN(const std::vector<json> ranks, gather_named(communicator, own));
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        const auto differs = [&](const char* key) { return ranks[rank][key] != ranks[0][key]; };
        const std::string name = communicator.name(static_cast<int32_t>(rank));
        if (differs("data"))
            return failed_precondition(fmt::format("{} has other data than rank 0: the files of [data] must have the "
                                                   "same content everywhere",
                                                   name));
        if (differs("tokenizer")) return failed_precondition(fmt::format("{} has another tokenizer than rank 0", name));
        if (differs("graph"))
            return failed_precondition(fmt::format("{} describes another network than rank 0: its plugins differ; "
                                                   "compare `hekla plugin list` on both",
                                                   name));
        for (std::size_t other = 0; other < rank && communicator.rank() == 0; ++other)
            if (ranks[rank]["place"] == ranks[other]["place"]) {
                run.context.log.warning(
                    fmt::format("ranks {} and {} use the same device, {}, and share its time and memory", other, rank,
                                device.device_name));
                break;
            }
    }
    return {};
}

Status send_start(const PreparedRun& run) {
    if (run.context.ranks.size() == 1 || run.context.ranks.rank() != 0) return {};
    HK_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
    HK_TRY(run.tokenizer->save(folder.path()));
    json files = json::object();
    std::error_code error;
    for (fs::directory_iterator entry(folder.path(), error), end; !error && entry != end; entry.increment(error)) {
        HK_ASSIGN(const std::string content, read_file(entry->path()));
        files[entry->path().filename().string()] = json::binary_t({content.begin(), content.end()});
    }
    if (error) return io_error(fmt::format("{}: cannot be listed: {}", folder.path().string(), error.message()));
    std::vector<std::byte> bytes;
    for (const uint8_t byte : json::to_cbor(json{{"recipe", write_recipe(run.recipe)},
                                                 {"tokenizer", files},
                                                 {kHeldOut, run.data.held_out()},
                                                 {"framed", run.text_rules.framed},
                                                 {"parses_special", run.text_rules.parses_special}}))
        bytes.push_back(static_cast<std::byte>(byte));
    return run.context.ranks.broadcast(bytes);
}

Result<RankStart> receive_start(const RunContext& context, const Recipe& own) {
    std::vector<std::byte> bytes;
    HK_TRY(context.ranks.broadcast(bytes));
    const json start = json::from_cbor(reinterpret_cast<const uint8_t*>(bytes.data()),
                                       reinterpret_cast<const uint8_t*>(bytes.data()) + bytes.size(), true, false);
    if (!start.is_object() || !start.contains("recipe") || !start.contains("tokenizer") || !start.contains("framed") ||
        !start.contains("parses_special") || !start.contains(kHeldOut))
        return internal_error(
            "the first message of rank 0 has no recipe, tokenizer, rules of its texts and share of its data");
    HK_ASSIGN(Recipe recipe, parse_resolved_recipe(start["recipe"].get<std::string>(), "the recipe of rank 0"));
    recipe.file = own.file;
    recipe.train.fit = false; // rank 0 has chosen
    HK_ASSIGN(TemporaryFolder folder, TemporaryFolder::make());
    for (const auto& [name, content] : start["tokenizer"].items()) {
        const auto& binary = content.get_binary();
        HK_TRY(
            write_file_atomically(folder.path() / path_of(name).filename(), std::string(binary.begin(), binary.end())));
    }
    return RankStart{std::move(recipe),
                     std::move(folder),
                     {start["framed"].get<bool>(), start["parses_special"].get<bool>()},
                     start[kHeldOut].get<double>()};
}

} // namespace hekla::train
