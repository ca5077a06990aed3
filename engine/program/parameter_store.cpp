#include "program/half.hpp"
#include "program/program.hpp"
#include "program/storage16.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hekla::program {

namespace {

constexpr uint64_t kTensorAlignment = 256; // elements

const char* arena_name(StoreArena arena) {
    switch (arena) {
    case StoreArena::parameters: return "parameters";
    case StoreArena::gradients: return "gradients";
    case StoreArena::moment1: return "first moments";
    case StoreArena::moment2: return "second moments";
    case StoreArena::weights16: return "weights in 16 bits";
    }
    return "";
}

} // namespace

std::span<const float> HostTensor::floats() const {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<const int32_t> HostTensor::ints() const {
    return {reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

std::vector<ParameterEntry> parameter_table(const graph::Graph& graph) {
    std::vector<ParameterEntry> table;
    const std::vector<bool> readable = readable_in_16_bits(graph);
    for (const auto& [name, value] : graph.parameters()) {
        ParameterEntry entry;
        entry.name = name;
        entry.shape = graph.shape(value);
        entry.readable_in_16_bits = readable[value];
        table.push_back(std::move(entry));
    }
    return table;
}

Result<std::unique_ptr<ParameterStore>> ParameterStore::create(Runtime& runtime, std::vector<ParameterEntry> table,
                                                               const StoreOptions& options) {
    HK_TRY(check_storage(runtime.limits(), options.weights));
    const bool halves = bytes_of(options.weights) == 2;
    if (halves && (options.gradients || options.moments))
        return invalid_argument(
            "a store that is trained holds its weights in float32: leave StoreOptions::weights out");
    std::unique_ptr<ParameterStore> store(new ParameterStore);
    uint64_t elements16 = 0;
    store->runtime_ = &runtime;
    store->table_ = std::move(table);
    for (std::size_t i = 0; i < store->table_.size(); ++i) {
        ParameterEntry& entry = store->table_[i];
        if (!store->index_.emplace(entry.name, i).second)
            return invalid_argument(fmt::format("two parameters are named '{}'", entry.name));
        if (halves && entry.readable_in_16_bits && entry.shape.rank() >= 2) entry.storage = options.weights;
        uint64_t& end = entry.storage == Storage::f32 ? store->elements_ : elements16;
        entry.offset = end;
        const auto elements = static_cast<uint64_t>(entry.shape.elements());
        end += (elements + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    }
    const bool wanted[kStoreArenas] = {true, options.gradients, options.moments, options.moments, elements16 > 0};
    for (std::size_t a = 0; a < kStoreArenas; ++a) {
        if (!wanted[a]) continue;
        const auto arena = static_cast<StoreArena>(a);
        const uint64_t bytes = arena == StoreArena::weights16
                                   ? elements16 * sizeof(uint16_t)
                                   : std::max<uint64_t>(store->elements_, kTensorAlignment) * sizeof(float);
        HK_ASSIGN(store->arenas_[a],
                  runtime.gpu().memory->create_buffer(bytes, gpu::Residence::device, arena_name(arena)));
        HK_TRY(store->zero(arena));
    }
    return store;
}

ParameterStore::~ParameterStore() {
    static_cast<void>(
        runtime_->gpu().queue->wait_all()); // buffers must not go while commands that use them are pending
}

const ParameterEntry* ParameterStore::find(std::string_view name) const {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : &table_[it->second];
}

std::map<std::string, Storage> ParameterStore::storage() const {
    std::map<std::string, Storage> result;
    for (const ParameterEntry& entry : table_)
        if (entry.storage != Storage::f32) result.emplace(entry.name, entry.storage);
    return result;
}

bool ParameterStore::has(StoreArena arena) const { return static_cast<bool>(buffer(arena)); }

const gpu::Buffer& ParameterStore::buffer(StoreArena arena) const { return arenas_[static_cast<std::size_t>(arena)]; }

Status ParameterStore::upload(std::string_view name, std::span<const float> values, StoreArena arena) {
    const ParameterEntry* entry = find(name);
    if (!entry) return not_found(fmt::format("no parameter is named '{}'", name));
    if (!has(arena)) return failed_precondition(fmt::format("this store was made without {}", arena_name(arena)));
    if (values.size() != static_cast<std::size_t>(entry->shape.elements()))
        return invalid_argument(fmt::format("'{}' {} takes {} numbers; {} were given", name, entry->shape.text(),
                                            entry->shape.elements(), values.size()));
    if (arena == StoreArena::parameters && bytes_of(entry->storage) == 2) {
        std::vector<uint16_t> halves(values.size());
        std::ranges::transform(values, halves.begin(), [&](float x) { return to_half(entry->storage, x); });
        return runtime_->gpu().staging->upload(buffer(StoreArena::weights16), entry->offset * sizeof(uint16_t),
                                               std::span<const uint16_t>(halves));
    }
    return runtime_->gpu().staging->upload(buffer(arena), entry->offset * sizeof(float), values);
}

Result<std::vector<float>> ParameterStore::download(std::string_view name, StoreArena arena) {
    const ParameterEntry* entry = find(name);
    if (!entry) return not_found(fmt::format("no parameter is named '{}'", name));
    if (!has(arena)) return failed_precondition(fmt::format("this store was made without {}", arena_name(arena)));
    std::vector<float> values(static_cast<std::size_t>(entry->shape.elements()));
    if (arena == StoreArena::parameters && bytes_of(entry->storage) == 2) {
        std::vector<uint16_t> halves(values.size());
        HK_TRY(runtime_->gpu().staging->download(buffer(StoreArena::weights16), entry->offset * sizeof(uint16_t),
                                                 std::span(halves)));
        std::ranges::transform(halves, values.begin(), [&](uint16_t x) { return from_half(entry->storage, x); });
        return values;
    }
    HK_TRY(runtime_->gpu().staging->download(buffer(arena), entry->offset * sizeof(float), std::span(values)));
    return values;
}

Status ParameterStore::zero(StoreArena arena) {
    if (!has(arena)) return failed_precondition(fmt::format("this store was made without {}", arena_name(arena)));
    return runtime_->gpu().staging->fill(buffer(arena), 0, buffer(arena).bytes(), 0);
}

Status ParameterStore::make_state(std::string_view name, uint64_t bytes) {
    const uint64_t whole = (bytes + 3) / 4 * 4;
    if (const auto it = states_.find(name); it != states_.end()) {
        if (it->second.bytes() == whole) return {};
        return invalid_argument(
            fmt::format("the state '{}' has {} bytes, and {} are asked for", name, it->second.bytes(), whole));
    }
    HK_ASSIGN(gpu::Buffer buffer,
              runtime_->gpu().memory->create_buffer(whole, gpu::Residence::device, std::string(name)));
    HK_TRY(runtime_->gpu().staging->fill(buffer, 0, whole, 0));
    states_.emplace(name, std::move(buffer));
    return {};
}

bool ParameterStore::has_state(std::string_view name) const { return states_.find(name) != states_.end(); }

const gpu::Buffer* ParameterStore::state_buffer(std::string_view name) const {
    const auto it = states_.find(name);
    return it == states_.end() ? nullptr : &it->second;
}

Result<uint64_t> ParameterStore::state_bytes(std::string_view name) const {
    const gpu::Buffer* buffer = state_buffer(name);
    if (!buffer) return not_found(fmt::format("no state is named '{}'", name));
    return buffer->bytes();
}

std::vector<std::string> ParameterStore::state_names() const {
    std::vector<std::string> names;
    for (const auto& [name, buffer] : states_) names.push_back(name);
    return names;
}

Status ParameterStore::upload_state(std::string_view name, std::span<const std::byte> bytes, uint64_t offset) {
    const gpu::Buffer* buffer = state_buffer(name);
    if (!buffer) return not_found(fmt::format("no state is named '{}'", name));
    if (offset > buffer->bytes() || bytes.size() > buffer->bytes() - offset)
        return invalid_argument(fmt::format("the state '{}' has {} bytes; {} at {} do not fit", name, buffer->bytes(),
                                            bytes.size(), offset));
    return runtime_->gpu().staging->upload(*buffer, offset, bytes);
}

Result<std::vector<std::byte>> ParameterStore::download_state(std::string_view name) {
    const gpu::Buffer* buffer = state_buffer(name);
    if (!buffer) return not_found(fmt::format("no state is named '{}'", name));
    std::vector<std::byte> bytes(static_cast<std::size_t>(buffer->bytes()));
    HK_TRY(runtime_->gpu().staging->download(*buffer, 0, std::span(bytes)));
    return bytes;
}

Status ParameterStore::zero_state(std::string_view name) {
    const gpu::Buffer* buffer = state_buffer(name);
    if (!buffer) return not_found(fmt::format("no state is named '{}'", name));
    return runtime_->gpu().staging->fill(*buffer, 0, buffer->bytes(), 0);
}

uint64_t ParameterStore::bytes_of_parameters() const {
    uint64_t sum = 0;
    for (const StoreArena arena : {StoreArena::parameters, StoreArena::weights16})
        if (has(arena)) sum += buffer(arena).bytes();
    return sum;
}

uint64_t ParameterStore::bytes() const {
    uint64_t sum = 0;
    for (const gpu::Buffer& arena : arenas_) sum += arena.bytes();
    for (const auto& [name, buffer] : states_) sum += buffer.bytes();
    return sum;
}

} // namespace hekla::program
