// A run that several ranks train together. Rank 0 runs the training loop, reads and writes the run's folder, and tells
// the others what to do next. They get everything of that folder from it: recipe, tokenizer, kernel choices, weights.
#include "train/training_run.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "graph/text.hpp"
#include "program/tuning.hpp"
#include "train/held_out.hpp"
#include "train/recipe_file.hpp"
#include "train/schedule.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <unistd.h>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kVersion = HEKLA_VERSION;

// What rank 0 asks all ranks to do.
enum class Task : int64_t {
    end,
    step,
    roll_out,
    evaluate,
    balance,
    synchronize,
    gather,
    scatter,
    inner_steps,
    read_moment, // of an island
    write_moment,
    read_states,
    write_states,
};
struct Command {
    Task task = Task::end;
    int64_t step = 0; // of applied and skipped steps before it
    double learning_rate = 0.0;
    int64_t entry = 0; // of the store's table
    int64_t arena = 0;
    int64_t island = 0;
};

std::vector<std::byte> bytes_of_text(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

Result<json> json_of(std::span<const std::byte> bytes) {
    return parse_json_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "a message between ranks");
}

Status send(exchange::Communicator& ranks, const json& message) {
    std::vector<std::byte> bytes = bytes_of_text(message.dump());
    return ranks.broadcast(bytes);
}

Result<json> receive(exchange::Communicator& ranks) {
    std::vector<std::byte> bytes;
    HK_TRY(ranks.broadcast(bytes));
    return json_of(bytes);
}

// Returns the messages of all ranks, which are called by their "process" and "device" from then on.
Result<std::vector<json>> gather_named(exchange::Communicator& ranks, const json& own) {
    HK_ASSIGN(const auto all, ranks.gather(bytes_of_text(own.dump())));
    std::vector<json> messages;
    std::vector<std::string> names, processes;
    for (const std::vector<std::byte>& bytes : all) {
        HK_ASSIGN(json message, json_of(bytes));
        processes.push_back(message.value("process", std::string()));
        names.push_back(processes.back() + message.value("device", std::string()));
        messages.push_back(std::move(message));
    }
    ranks.set_names(std::move(names), std::move(processes));
    return messages;
}

std::string own_host() {
    char host[256] = "unknown";
    ::gethostname(host, sizeof host - 1);
    return host;
}

std::string own_process() { return fmt::format("host {}, process {}", own_host(), ::getpid()); }

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

Status TrainingRun::settle_batch(const Recipe* before) {
    if (recipe_.distributed.batch != "rank") return {};
    if (has_islands())
        return invalid_argument(
            "distributed.batch = \"rank\" and mode = \"diloco\": each rank takes whole steps there; "
            "remove `batch`");
    int64_t& steps = recipe_.train.gradient_accumulation_steps;
    const int64_t of_run = before != nullptr ? before->train.gradient_accumulation_steps : steps * rank_count();
    if (of_run % steps != 0)
        return failed_precondition(
            fmt::format("{}: its steps have {} micro-batches, and train.gradient_accumulation_steps = {}, those of one "
                        "rank (distributed.batch = \"rank\"), does not divide them: put the old value back, or choose "
                        "another [output] dir",
                        run_.string(), of_run, steps));
    steps = of_run;
    recipe_.distributed.batch = "step";
    return {};
}

Status TrainingRun::settle_parts(int64_t of_checkpoint) {
    int64_t& parts = recipe_.distributed.parts;
    const int64_t ranks = rank_count();
    if (has_islands()) {
        if (parts > 1)
            return invalid_argument(
                fmt::format("distributed.parts = {} and mode = \"diloco\": each rank takes whole steps "
                            "there; remove `parts`",
                            parts));
        parts = 1;
        return {};
    }
    const std::vector<int64_t>& shares = recipe_.distributed.shares;
    const int64_t sum = std::accumulate(shares.begin(), shares.end(), int64_t{0});
    if (parts == 0 && of_checkpoint <= 0 && !shares.empty()) parts = sum;
    if (parts == 0) parts = of_checkpoint > 0 ? of_checkpoint : ranks;
    if (parts < ranks)
        return invalid_argument(fmt::format("{} ranks need distributed.parts = {} or more; it is {}: set it, or train "
                                            "on fewer devices",
                                            ranks, ranks, parts));
    if (!shares.empty() && ranks > 1 && (std::ssize(shares) != ranks || sum != parts || std::ranges::min(shares) < 1))
        return invalid_argument(
            fmt::format("distributed.shares = [{}]: expected {} numbers of at least 1, one for each "
                        "rank, whose sum is distributed.parts = {}",
                        fmt::join(shares, ", "), ranks, parts));
    const TrainSection& s = recipe_.train;
    const int64_t rows = s.per_device_train_batch_size * s.gradient_accumulation_steps;
    if (s.fit ? rows % parts == 0 : s.gradient_accumulation_steps % parts == 0) return {};
    for (int64_t micro = parts; micro <= rows; micro += parts)
        if (rows % micro == 0 && micro >= s.gradient_accumulation_steps)
            return invalid_argument(
                fmt::format("distributed.parts = {} does not divide train.gradient_accumulation_steps = {}: set "
                            "train.gradient_accumulation_steps = {} and train.per_device_train_batch_size = {}, which "
                            "is the same batch",
                            parts, s.gradient_accumulation_steps, micro, rows / micro));
    return invalid_argument(fmt::format("distributed.parts = {} does not divide the {} rows of a step: set "
                                        "train.gradient_accumulation_steps to a multiple of {}",
                                        parts, rows, parts));
}

// Compares what all ranks must have in common. Every rank finds the same difference.
Status TrainingRun::greet() {
    const json own{{"process", own_process()}, {"version", kVersion}, {"recipe", values_of_recipe(recipe_)}};
    HK_ASSIGN(const std::vector<json> ranks, gather_named(*ranks_, own));
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        if (ranks[rank]["version"] != ranks[0]["version"])
            return failed_precondition(fmt::format("{} runs version {}, and rank 0 version {}: install the same on all",
                                                   ranks_->name(static_cast<int32_t>(rank)),
                                                   ranks[rank]["version"].dump(), ranks[0]["version"].dump()));
        if (const std::string odd = difference(ranks[rank]["recipe"], ranks[0]["recipe"]); !odd.empty())
            return failed_precondition(
                fmt::format("{} has another recipe: {}", ranks_->name(static_cast<int32_t>(rank)), odd));
    }
    return {};
}

// Compares what the ranks have made of the recipe, before they compile it.
Status TrainingRun::compare_runs() {
    const gpu::Capabilities& device = runtime_->gpu().capabilities();
    const json own{{"process", own_process()},
                   {"device", fmt::format(", {}", device.device_name)},
                   {"place", fmt::format("{} {}", own_host(), json(device.device_uuid).dump())},
                   {"tokenizer", to_hex(tokenizer_->hash())},
                   {"data", data_.identity()},
                   {"graph", to_hex(graph::hash(described_))}};
    HK_ASSIGN(const std::vector<json> ranks, gather_named(*ranks_, own));
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        const auto differs = [&](const char* key) { return ranks[rank][key] != ranks[0][key]; };
        const std::string name = ranks_->name(static_cast<int32_t>(rank));
        if (differs("data"))
            return failed_precondition(fmt::format("{} has other data than rank 0: the files of [data] must have the "
                                                   "same content everywhere",
                                                   name));
        if (differs("tokenizer")) return failed_precondition(fmt::format("{} has another tokenizer than rank 0", name));
        if (differs("graph"))
            return failed_precondition(fmt::format("{} describes another network than rank 0: its plugins differ; "
                                                   "compare `hekla plugin list` on both",
                                                   name));
        for (std::size_t other = 0; other < rank && ranks_->rank() == 0; ++other)
            if (ranks[rank]["place"] == ranks[other]["place"]) {
                log_.warning(fmt::format("ranks {} and {} use the same device, {}, and share its time and memory",
                                         other, rank, device.device_name));
                break;
            }
    }
    return {};
}

Status TrainingRun::send_start() {
    HK_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
    HK_TRY(tokenizer_->save(folder.path()));
    json files = json::object();
    std::error_code error;
    for (fs::directory_iterator entry(folder.path(), error), end; !error && entry != end; entry.increment(error)) {
        HK_ASSIGN(const std::string content, read_file(entry->path()));
        files[entry->path().filename().string()] = json::binary_t({content.begin(), content.end()});
    }
    if (error) return io_error(fmt::format("{}: cannot be listed: {}", folder.path().string(), error.message()));
    std::vector<std::byte> bytes;
    for (const uint8_t byte : json::to_cbor(json{{"recipe", write_recipe(recipe_)},
                                                 {"tokenizer", files},
                                                 {kHeldOut, data_.held_out()},
                                                 {"framed", text_rules_.framed},
                                                 {"parses_special", text_rules_.parses_special}}))
        bytes.push_back(static_cast<std::byte>(byte));
    return ranks_->broadcast(bytes);
}

Status TrainingRun::receive_start() {
    std::vector<std::byte> bytes;
    HK_TRY(ranks_->broadcast(bytes));
    const json start = json::from_cbor(reinterpret_cast<const uint8_t*>(bytes.data()),
                                       reinterpret_cast<const uint8_t*>(bytes.data()) + bytes.size(), true, false);
    if (!start.is_object() || !start.contains("recipe") || !start.contains("tokenizer") || !start.contains("framed") ||
        !start.contains("parses_special") || !start.contains(kHeldOut))
        return internal_error(
            "the first message of rank 0 has no recipe, tokenizer, rules of its texts and share of its data");
    HK_ASSIGN(Recipe recipe, parse_resolved_recipe(start["recipe"].get<std::string>(), "the recipe of rank 0"));
    recipe.file = recipe_.file;
    recipe.train.fit = false; // rank 0 has chosen
    recipe_ = std::move(recipe);
    HK_ASSIGN(TemporaryFolder folder, TemporaryFolder::make());
    for (const auto& [name, content] : start["tokenizer"].items()) {
        const auto& binary = content.get_binary();
        HK_TRY(write_file_atomically(folder.path() / fs::path(name).filename(),
                                     std::string(binary.begin(), binary.end())));
    }
    held_out_ = start[kHeldOut].get<double>();
    text_rules_ = {start["framed"].get<bool>(), start["parses_special"].get<bool>()};
    joined_.emplace(std::move(folder));
    return {};
}

Status TrainingRun::send_choices() {
    return send(*ranks_, {{"kernels_of", runtime_->tuning().identity()}, {"kernel_choices", kernel_choices()}});
}

Result<nlohmann::json> TrainingRun::receive_choices() const { return receive(*ranks_); }

Result<nlohmann::json> TrainingRun::shared_generation_settings() const {
    if (joined_) return receive(*ranks_);
    HK_ASSIGN(json settings, generation_settings());
    HK_TRY(send(*ranks_, settings));
    return settings;
}

uint32_t TrainingRun::micro_steps() const {
    return sharded_ != nullptr ? sharded_->micro().count
                               : static_cast<uint32_t>(recipe_.train.gradient_accumulation_steps);
}

ShardedStep::Options TrainingRun::sharded_options() const {
    const DistributedSection& d = recipe_.distributed;
    std::vector<uint32_t> shares;
    if (rank_count() > 1)
        for (const int64_t share : d.shares) shares.push_back(static_cast<uint32_t>(share));
    return {static_cast<uint32_t>(d.parts), static_cast<uint32_t>(recipe_.train.gradient_accumulation_steps),
            std::move(shares), d.exchange == "bf16"};
}

Status TrainingRun::command_step(int64_t step, double learning_rate) {
    Command command{Task::step, step, learning_rate};
    return ranks_->broadcast(command);
}

Status TrainingRun::command_rollouts() {
    Command command{Task::roll_out, step()};
    return ranks_->broadcast(command);
}

Status TrainingRun::command_evaluation() {
    Command command{Task::evaluate, step()};
    return ranks_->broadcast(command);
}

Status TrainingRun::check_ranks(int64_t step) {
    const int64_t every = recipe_.distributed.check_every;
    return every > 0 && (step + 1) % every == 0 ? sharded_->check_parameters() : Status();
}

Result<bool> TrainingRun::balance_ranks() {
    if (ranks_->size() == 1 || recipe_.distributed.balance != "measured") return false;
    Command command{Task::balance};
    HK_TRY(ranks_->broadcast(command));
    const std::vector<uint32_t> shares = sharded_->balance();
    if (shares.empty()) return false;
    std::vector<std::string> seconds;
    for (const double s : sharded_->seconds_per_part()) seconds.push_back(fmt::format("{:.3f}", s));
    message(fmt::format("the ranks compute {} parts from now on: they took {} s for each", fmt::join(shares, ", "),
                        fmt::join(seconds, ", ")));
    return true;
}

Status TrainingRun::synchronize() {
    first_step_ = step();
    if (!is_sharded() && !has_islands()) return {};
    Command command{Task::synchronize};
    HK_TRY(ranks_->broadcast(command));
    return synchronize_state();
}

// Gives all ranks the state of rank 0.
Status TrainingRun::synchronize_state() {
    HK_TRY(has_islands() ? islands_->synchronize() : sharded_->synchronize());
    return rollouts_ != nullptr ? rollouts_->synchronize(*ranks_) : Status();
}

Status TrainingRun::command_inner_steps(int64_t step) {
    Command command{Task::inner_steps, step};
    return ranks_->broadcast(command);
}

// Trains alone until the next average, as another rank than 0.
Status TrainingRun::run_inner_steps(int64_t step) {
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step));
    for (progress_.step = step;; ++progress_.step) {
        HK_ASSIGN(const std::optional<std::vector<data::Batch>> micro, next_micro_batches(*batcher));
        if (!micro) return {Code::cancelled, "stopped while waiting for a batch"};
        HK_TRY(begin_step(*micro, progress_.step, learning_rate(recipe_.train, progress_.step)));
        HK_TRY(end_step().status()); // takes the outer step
        if (is_average_due(progress_.step + 1)) return {};
    }
}

namespace {

// Sends bytes of an island to rank 0, or from it. Each has as many.
Status move_bytes(exchange::Communicator& ranks, int32_t island, bool to_first, std::span<std::byte> bytes) {
    std::vector<hk_exchange_part> parts(static_cast<std::size_t>(ranks.size()));
    const bool sends = to_first ? ranks.rank() == island : ranks.rank() == 0;
    const bool receives = to_first ? ranks.rank() == 0 : ranks.rank() == island;
    const auto other = static_cast<std::size_t>(ranks.rank() == 0 ? island : 0);
    if (sends) parts[other] = {bytes.data(), nullptr, bytes.size(), 0};
    if (receives) parts[other] = {nullptr, bytes.data(), 0, bytes.size()};
    return ranks.exchange(parts);
}

} // namespace

Result<ResourceArray<float>> TrainingRun::island_moment(int32_t island, const program::ParameterEntry& entry,
                                                        program::StoreArena arena) const {
    Command command{Task::read_moment, 0, 0.0, &entry - store_->table().data(), static_cast<int64_t>(arena), island};
    HK_TRY(ranks_->broadcast(command));
    ResourceArray<float> values(static_cast<std::size_t>(entry.shape.elements()));
    HK_TRY(move_bytes(*ranks_, island, true, std::as_writable_bytes(std::span(values.data(), values.size()))));
    return values;
}

Status TrainingRun::set_island_moment(int32_t island, const program::ParameterEntry& entry, program::StoreArena arena,
                                      std::span<const float> values) {
    Command command{Task::write_moment, 0, 0.0, &entry - store_->table().data(), static_cast<int64_t>(arena), island};
    HK_TRY(ranks_->broadcast(command));
    std::vector<float> copy(values.begin(), values.end());
    return move_bytes(*ranks_, island, false, std::as_writable_bytes(std::span(copy)));
}

Result<std::vector<std::byte>> TrainingRun::island_states(int32_t island) const {
    Command command{Task::read_states, 0, 0.0, 0, 0, island};
    HK_TRY(ranks_->broadcast(command));
    HK_ASSIGN(std::vector<std::byte> states, optimizers_.front()->decision());
    HK_TRY(move_bytes(*ranks_, island, true, states));
    return states;
}

Status TrainingRun::set_island_states(int32_t island, std::vector<std::byte> states) {
    Command command{Task::write_states, 0, 0.0, 0, 0, island};
    HK_TRY(ranks_->broadcast(command));
    return move_bytes(*ranks_, island, false, states);
}

Status TrainingRun::end_ranks() {
    Command command{Task::end};
    return ranks_->broadcast(command);
}

Result<ResourceArray<float>> TrainingRun::moment(const program::ParameterEntry& entry,
                                                 program::StoreArena arena) const {
    if (!is_sharded()) return store_->download(entry.name, arena);
    Command command{Task::gather, 0, 0.0, &entry - store_->table().data(), static_cast<int64_t>(arena)};
    HK_TRY(ranks_->broadcast(command));
    return sharded_->gather(entry, arena);
}

Status TrainingRun::set_moment(const program::ParameterEntry& entry, program::StoreArena arena,
                               std::span<const float> values) {
    if (!is_sharded()) return store_->upload(entry.name, values, arena);
    Command command{Task::scatter, 0, 0.0, &entry - store_->table().data(), static_cast<int64_t>(arena)};
    HK_TRY(ranks_->broadcast(command));
    return sharded_->scatter(entry, values, arena);
}

Status TrainingRun::serve() {
    std::unique_ptr<data::Batcher> batcher;
    int64_t next = -1; // step of the batcher's next batch
    for (;;) {
        Command command;
        HK_TRY(ranks_->broadcast(command));
        const auto entry = [&]() -> const program::ParameterEntry& {
            return store_->table()[static_cast<std::size_t>(command.entry)];
        };
        const auto arena = static_cast<program::StoreArena>(command.arena);
        switch (command.task) {
        case Task::end: return {};
        case Task::roll_out: {
            next = -1; // examples of the next step are rollouts
            batcher.reset();
            const Status made = rollouts_->begin(command.step, false, *ranks_);
            if (made.code() != Code::cancelled) HK_TRY(made); // rank 0 decides what follows
            break;
        }
        case Task::evaluate: {
            progress_.step = command.step;
            const Status evaluated = validate(false).status();
            if (evaluated.code() != Code::cancelled) HK_TRY(evaluated);
            break;
        }
        case Task::balance:
            if (!sharded_->balance().empty()) next = -1; // other micro-batches
            break;
        case Task::synchronize: HK_TRY(synchronize_state()); break;
        case Task::inner_steps: HK_TRY(run_inner_steps(command.step)); break;
        case Task::read_moment:
        case Task::write_moment: {
            const bool reads = command.task == Task::read_moment;
            const bool own = command.island == ranks_->rank();
            ResourceArray<float> values;
            if (own && reads) { HK_ASSIGN(values, store_->download(entry().name, arena)); }
            if (own && !reads) values = ResourceArray<float>(static_cast<std::size_t>(entry().shape.elements()));
            HK_TRY(move_bytes(*ranks_, static_cast<int32_t>(command.island), reads,
                              std::as_writable_bytes(std::span(values.data(), values.size()))));
            if (own && !reads) HK_TRY(store_->upload(entry().name, values, arena));
            break;
        }
        case Task::read_states:
        case Task::write_states: {
            const bool reads = command.task == Task::read_states;
            HK_ASSIGN(std::vector<std::byte> states, optimizers_.front()->decision());
            HK_TRY(move_bytes(*ranks_, static_cast<int32_t>(command.island), reads, states));
            if (!reads && command.island == ranks_->rank()) HK_TRY(optimizers_.front()->set_decision(states));
            break;
        }
        case Task::gather: HK_TRY(sharded_->gather(entry(), arena).status()); break;
        case Task::scatter: HK_TRY(sharded_->scatter(entry(), {}, arena)); break;
        case Task::step: {
            if (command.step != next) {
                batcher.reset();
                HK_ASSIGN(batcher, batches(command.step));
            }
            HK_ASSIGN(const std::optional<std::vector<data::Batch>> micro, next_micro_batches(*batcher));
            if (!micro) return {Code::cancelled, "stopped while waiting for a batch"};
            HK_TRY(prepare_step(command.step));
            HK_TRY(sharded_->begin(*micro, command.step, command.learning_rate));
            HK_TRY(sharded_->end().status());
            HK_TRY(check_ranks(command.step));
            next = command.step + 1;
            break;
        }
        default: return internal_error(fmt::format("rank 0 sent the task {}", static_cast<int64_t>(command.task)));
        }
    }
}

} // namespace hekla::train
