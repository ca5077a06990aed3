#include "program/parameter_store.hpp"

#include "program/lowering/half.hpp"
#include "program/lowering/matmul_kernels.hpp"
#include "program/lowering/storage16.hpp"
#include "program/runtime.hpp"
#include "program/shared_weights.hpp"

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
    }
    return "";
}

// Places the entry in the last chunk of its kind, or in a new one if it does not fit any more.
Status place(ParameterEntry& entry, std::vector<StoreChunk>& chunks, uint64_t largest) {
    const auto elements = static_cast<uint64_t>(entry.shape.elements());
    const uint64_t padded = (elements + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    // Limited by the four bytes of a gradient, because an offset is the same in every arena.
    if (padded > largest / sizeof(float))
        return out_of_memory(fmt::format("the parameter '{}' {} takes {} bytes; one allocation of this device holds {}",
                                         entry.name, entry.shape.text(), padded * sizeof(float), largest));
    std::size_t c = chunks.size();
    for (std::size_t i = chunks.size(); i-- > 0;) {
        if (chunks[i].storage != entry.storage || chunks[i].trained != entry.trained || chunks[i].own != entry.own)
            continue;
        if (chunks[i].elements + padded <= largest / sizeof(float)) c = i;
        break;
    }
    if (c == chunks.size()) chunks.push_back({0, entry.storage, entry.trained, entry.own});
    entry.chunk = static_cast<uint32_t>(c);
    entry.offset = chunks[c].elements;
    chunks[c].elements += padded;
    return {};
}

// Of those that can be shared, which are the first.
std::vector<uint64_t> bytes_of_chunks(const std::vector<StoreChunk>& chunks) {
    std::vector<uint64_t> bytes;
    for (const StoreChunk& chunk : chunks)
        if (!chunk.own) bytes.push_back(chunk.elements * bytes_of(chunk.storage));
    return bytes;
}

} // namespace

class ParameterStore::Shared {
public:
    explicit Shared(std::shared_ptr<SharedWeights> weights) : reader(std::move(weights)) {}
    SharedWeights::Reader reader;
};

void choose_storage(std::vector<ParameterEntry>& table, const StoreOptions& options) {
    const bool trains = options.gradients || options.moments.count > 0;
    for (ParameterEntry& entry : table) {
        entry.trained = !options.frozen.contains(entry.name);
        entry.own = options.own.contains(entry.name);
        const bool fixed = !trains || !entry.trained;
        if (fixed && entry.readable_in_16_bits && entry.shape.rank() >= 2) entry.storage = options.weights;
    }
}

namespace {

// Smaller weights stay in a core's cache, however they are stored.
constexpr int64_t kLeastElementsOfPanels = int64_t{1} << 16;

void choose_panels(std::vector<ParameterEntry>& table, const Limits& limits, const StoreOptions& options) {
    const int64_t columns = panel_columns(limits);
    const bool is_shared = options.share || options.shared != nullptr;
    if (!options.panels || columns == 0 || is_shared || options.gradients || options.moments.count > 0) return;
    for (ParameterEntry& entry : table)
        if (entry.readable_by_panels && !entry.own && entry.shape.elements() >= kLeastElementsOfPanels &&
            entry.shape[entry.transposed ? 0 : 1] % columns == 0)
            entry.panel = columns;
}

// Copies a matrix [K, N], or [N, K] if the entry is transposed, to panels, or back.
template<class From, class To>
void copy_panels(const ParameterEntry& entry, From from, To to, bool back) {
    const int64_t k = entry.shape[entry.transposed ? 1 : 0], n = entry.shape[entry.transposed ? 0 : 1];
    const int64_t of_row = entry.transposed ? 1 : n, of_column = entry.transposed ? k : 1;
    std::size_t at = 0;
    for (int64_t first = 0; first < n; first += entry.panel)
        for (int64_t row = 0; row < k; ++row)
            for (int64_t column = first; column < first + entry.panel; ++column, ++at) {
                const auto as_rows = static_cast<std::size_t>(row * of_row + column * of_column);
                if (back)
                    to[as_rows] = from[at];
                else
                    to[at] = from[as_rows];
            }
}

} // namespace

std::map<std::string, StoredAs> stored_otherwise(const std::vector<ParameterEntry>& table) {
    std::map<std::string, StoredAs> result;
    for (const ParameterEntry& entry : table)
        if (entry.storage != Storage::f32 || entry.panel != 0)
            result.emplace(entry.name, StoredAs{entry.storage, entry.panel, entry.transposed});
    return result;
}

Result<std::vector<StoreChunk>> place_parameters(std::vector<ParameterEntry>& table, const Limits& limits,
                                                 const StoreOptions& options, uint64_t largest) {
    HK_TRY(check_storage(limits, options.weights));
    HK_TRY(check_storage(limits, options.moments.storage));
    if (options.moments.storage == Storage::f16)
        return invalid_argument(
            "moments are stored in float32 or bfloat16: squares of gradients leave float16's range");
    choose_storage(table, options);
    choose_panels(table, limits, options);
    std::vector<StoreChunk> chunks;
    std::set<std::string_view> names;
    for (ParameterEntry& entry : table) {
        if (!names.insert(entry.name).second)
            return invalid_argument(fmt::format("two parameters are named '{}'", entry.name));
        if (!entry.own) HK_TRY(place(entry, chunks, largest));
    }
    for (ParameterEntry& entry : table)
        if (entry.own) HK_TRY(place(entry, chunks, largest));
    if (chunks.empty()) chunks.push_back({kTensorAlignment, Storage::f32, true});
    return chunks;
}

Result<std::unique_ptr<ParameterStore>> ParameterStore::create(Runtime& runtime, std::vector<ParameterEntry> table,
                                                               const StoreOptions& options) {
    std::unique_ptr<ParameterStore> store(new ParameterStore);
    store->runtime_ = &runtime;
    store->table_ = std::move(table);
    store->kernels_ = options.kernels;
    gpu::Memory& memory = *runtime.gpu().memory;
    const uint64_t largest = options.max_chunk_bytes > 0 ? options.max_chunk_bytes : memory.max_buffer_bytes();
    HK_ASSIGN(store->chunks_, place_parameters(store->table_, runtime.device_limits(), options, largest));
    for (std::size_t i = 0; i < store->table_.size(); ++i) store->index_.emplace(store->table_[i].name, i);
    if (options.share || options.shared != nullptr) {
        if (options.gradients || options.moments.count > 0)
            return invalid_argument("a store that is trained has parameters of its own: leave StoreOptions::share out");
        std::shared_ptr<SharedWeights> weights = options.shared;
        const bool found = weights != nullptr;
        if (!found) { HK_ASSIGN(weights, SharedWeights::create(memory, bytes_of_chunks(store->chunks_))); }
        store->shared_ = std::make_unique<Shared>(std::move(weights));
        HK_TRY(store->restore()); // all other readers may have evicted them
        if (!found)
            for (const gpu::Buffer& chunk : store->shared_->reader.chunks())
                HK_TRY(runtime.gpu().staging->fill(chunk, 0, chunk.bytes(), 0));
        ParameterStore* const self = store.get();
        runtime.sharing_[self] = {[self] { return self->evict(); }, [self] { return self->restore(); }};
    }
    store->moments_ = options.moments;
    if (options.shard) store->shards_.emplace(store->chunks_, *options.shard);
    const bool wanted[kStoreArenas] = {true, options.gradients, options.moments.count > 0, options.moments.count > 1};
    for (std::size_t a = 0; a < kStoreArenas; ++a) {
        const auto arena = static_cast<StoreArena>(a);
        store->arenas_[a].resize(store->chunks_.size());
        for (std::size_t c = 0; c < store->chunks_.size(); ++c) {
            const StoreChunk& chunk = store->chunks_[c];
            const bool parameters = arena == StoreArena::parameters;
            if (!wanted[a] || (!parameters && !chunk.trained)) continue;
            if (parameters && store->shared_ != nullptr && !chunk.own) continue;
            const uint64_t size = bytes_of(store->storage_in(arena, chunk.storage));
            const bool moments = arena == StoreArena::moment1 || arena == StoreArena::moment2;
            const uint64_t elements = moments && store->shards_ ? store->shards_->own_elements(static_cast<uint32_t>(c))
                                                                : std::max(chunk.elements, kTensorAlignment);
            if (elements == 0) continue;
            const auto residence =
                moments && options.moments.in_system_memory ? gpu::Residence::system : gpu::Residence::device;
            HK_ASSIGN(store->arenas_[a][c], memory.create_buffer(elements * size, residence, arena_name(arena)));
        }
        for (const gpu::Buffer& chunk : store->arenas_[a])
            if (chunk) HK_TRY(runtime.gpu().staging->fill(chunk, 0, chunk.bytes(), 0));
    }
    return store;
}

ParameterStore::~ParameterStore() {
    static_cast<void>(
        runtime_->gpu().queue->wait_all()); // buffers must not be freed while commands that use them are pending
    runtime_->sharing_.erase(this);
}

std::shared_ptr<SharedWeights> ParameterStore::shared() const {
    return shared_ != nullptr ? shared_->reader.weights() : nullptr;
}

Status ParameterStore::evict() { return shared_ != nullptr ? shared_->reader.evict(runtime_->gpu().queue) : Status(); }
Status ParameterStore::restore() {
    return shared_ != nullptr ? shared_->reader.restore(runtime_->gpu().queue) : Status();
}

const gpu::Buffer* ParameterStore::find_buffer(StoreArena arena, std::size_t chunk) const {
    const auto found = [&](const std::vector<gpu::Buffer>& buffers) {
        return chunk < buffers.size() && buffers[chunk] ? &buffers[chunk] : nullptr;
    };
    if (arena == StoreArena::parameters && shared_ != nullptr)
        if (const gpu::Buffer* shared = found(shared_->reader.chunks())) return shared;
    return found(arenas_[static_cast<std::size_t>(arena)]);
}

const ParameterEntry* ParameterStore::find(std::string_view name) const {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : &table_[it->second];
}

std::map<std::string, StoredAs> ParameterStore::stored_otherwise() const { return program::stored_otherwise(table_); }

bool ParameterStore::has(StoreArena arena, uint32_t chunk) const { return find_buffer(arena, chunk) != nullptr; }

bool ParameterStore::has(StoreArena arena) const {
    for (std::size_t c = 0; c < chunks_.size(); ++c)
        if (find_buffer(arena, c) != nullptr) return true;
    return false;
}

const gpu::Buffer& ParameterStore::buffer(StoreArena arena, uint32_t chunk) const { return *find_buffer(arena, chunk); }

uint64_t ParameterStore::bytes(StoreArena arena) const {
    uint64_t sum = 0;
    for (std::size_t c = 0; c < chunks_.size(); ++c)
        if (const gpu::Buffer* buffer = find_buffer(arena, c)) sum += buffer->bytes();
    return sum;
}

Result<const ParameterEntry*> ParameterStore::entry_in(std::string_view name, StoreArena arena) const {
    const ParameterEntry* entry = find(name);
    if (!entry) return not_found(fmt::format("no parameter is named '{}'", name));
    if (has(arena, entry->chunk)) return entry;
    return failed_precondition(has(arena) ? fmt::format("'{}' is frozen: it has no {}", name, arena_name(arena))
                                          : fmt::format("this store was made without {}", arena_name(arena)));
}

Storage ParameterStore::storage_in(StoreArena arena, Storage of_parameter) const {
    switch (arena) {
    case StoreArena::parameters: return of_parameter;
    case StoreArena::gradients: return Storage::f32;
    case StoreArena::moment1:
    case StoreArena::moment2: return moments_.storage;
    }
    return Storage::f32;
}

Status ParameterStore::upload(std::string_view name, std::span<const float> values, StoreArena arena) {
    HK_ASSIGN(const ParameterEntry* entry, entry_in(name, arena));
    if (values.size() != static_cast<std::size_t>(entry->shape.elements()))
        return invalid_argument(fmt::format("'{}' {} takes {} numbers; {} were given", name, entry->shape.text(),
                                            entry->shape.elements(), values.size()));
    if (is_sharded(arena)) return parts_only(name, arena);
    ResourceVector<float> panels(host_memory());
    if (entry->panel != 0) {
        panels.resize(values.size());
        copy_panels(*entry, values, std::span(panels), false);
        values = panels;
    }
    return write(buffer(arena, entry->chunk), storage_in(arena, entry->storage), entry->offset, values);
}

Status ParameterStore::write(const gpu::Buffer& to, Storage storage, uint64_t first, std::span<const float> values) {
    if (bytes_of(storage) == 2) {
        ResourceVector<uint16_t> halves(values.size(), host_memory());
        std::ranges::transform(values, halves.begin(), [&](float x) { return to_half(storage, x); });
        return runtime_->gpu().staging->upload(to, first * sizeof(uint16_t), std::span<const uint16_t>(halves));
    }
    return runtime_->gpu().staging->upload(to, first * sizeof(float), values);
}

Status ParameterStore::read(const gpu::Buffer& from, Storage storage, uint64_t first, std::span<float> values) {
    if (bytes_of(storage) == 2) {
        ResourceVector<uint16_t> halves(values.size(), host_memory());
        HK_TRY(runtime_->gpu().staging->download(from, first * sizeof(uint16_t), std::span(halves)));
        std::ranges::transform(halves, values.begin(), [&](uint16_t x) { return from_half(storage, x); });
        return {};
    }
    return runtime_->gpu().staging->download(from, first * sizeof(float), values);
}

bool ParameterStore::is_sharded(StoreArena arena) const {
    return shards_ && shards_->ranks() > 1 && (arena == StoreArena::moment1 || arena == StoreArena::moment2);
}

Status ParameterStore::parts_only(std::string_view name, StoreArena arena) {
    return internal_error(
        fmt::format("the {} of '{}' are divided over the ranks of this training", arena_name(arena), name));
}

// Returns where a range is in the chunk's buffer.
Result<uint64_t> ParameterStore::place_of(const ElementRange& range, std::size_t values, StoreArena arena) const {
    if (range.chunk >= chunks_.size() || !chunks_[range.chunk].trained || range.count != values ||
        range.end() > chunks_[range.chunk].elements || !has(arena, range.chunk))
        return internal_error(fmt::format("{} numbers for elements {} to {} of chunk {} of the {}", values, range.first,
                                          range.end(), range.chunk, arena_name(arena)));
    return is_sharded(arena) ? shards_->place(range) : range.first;
}

Status ParameterStore::upload(const ElementRange& range, std::span<const float> values, StoreArena arena) {
    HK_ASSIGN(const uint64_t first, place_of(range, values.size(), arena));
    return write(buffer(arena, range.chunk), storage_in(arena, Storage::f32), first, values);
}

Status ParameterStore::download(const ElementRange& range, std::span<float> values, StoreArena arena) {
    HK_ASSIGN(const uint64_t first, place_of(range, values.size(), arena));
    return read(buffer(arena, range.chunk), storage_in(arena, Storage::f32), first, values);
}

Status ParameterStore::upload(std::span<const Part> parts) {
    std::vector<gpu::Staging::Part> bytes;
    for (const Part& part : parts) {
        HK_ASSIGN(const ParameterEntry* entry, entry_in(part.name, StoreArena::parameters));
        const auto elements = static_cast<uint64_t>(entry->shape.elements());
        if (entry->storage != Storage::f32 || entry->panel != 0 || part.first > elements ||
            part.values.size() > elements - part.first)
            return internal_error(fmt::format("'{}' {}: {} numbers from {} on", part.name, entry->shape.text(),
                                              part.values.size(), part.first));
        bytes.push_back({&buffer(StoreArena::parameters, entry->chunk), (entry->offset + part.first) * sizeof(float),
                         std::as_bytes(part.values)});
    }
    return runtime_->gpu().staging->upload(bytes);
}

Result<ResourceArray<float>> ParameterStore::download(std::string_view name, StoreArena arena) {
    HK_ASSIGN(const ParameterEntry* entry, entry_in(name, arena));
    if (is_sharded(arena)) return parts_only(name, arena);
    ResourceArray<float> values(static_cast<std::size_t>(entry->shape.elements()), host_memory());
    HK_TRY(read(buffer(arena, entry->chunk), storage_in(arena, entry->storage), entry->offset, values));
    if (entry->panel == 0) return values;
    ResourceArray<float> rows(values.size(), host_memory());
    copy_panels(*entry, std::span<const float>(values), std::span<float>(rows), true);
    return rows;
}

Status ParameterStore::zero(StoreArena arena) {
    if (!has(arena)) return failed_precondition(fmt::format("this store was made without {}", arena_name(arena)));
    for (std::size_t c = 0; c < chunks_.size(); ++c)
        if (const gpu::Buffer* chunk = find_buffer(arena, c))
            HK_TRY(runtime_->gpu().staging->fill(*chunk, 0, chunk->bytes(), 0));
    return {};
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

Status ParameterStore::adopt_state(std::string_view name, gpu::Buffer buffer) {
    if (has_state(name)) return invalid_argument(fmt::format("there is a state '{}' already", name));
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

Status ParameterStore::upload_state(std::string_view name, std::span<const std::byte> bytes, uint64_t offset) {
    ++state_writes_;
    const gpu::Buffer* buffer = state_buffer(name);
    if (!buffer) return not_found(fmt::format("no state is named '{}'", name));
    if (offset > buffer->bytes() || bytes.size() > buffer->bytes() - offset)
        return invalid_argument(fmt::format("the state '{}' has {} bytes; {} at {} do not fit", name, buffer->bytes(),
                                            bytes.size(), offset));
    return runtime_->gpu().staging->upload(*buffer, offset, bytes);
}

Result<ResourceArray<std::byte>> ParameterStore::download_state(std::string_view name) {
    const gpu::Buffer* buffer = state_buffer(name);
    if (!buffer) return not_found(fmt::format("no state is named '{}'", name));
    ResourceArray<std::byte> bytes(static_cast<std::size_t>(buffer->bytes()), host_memory());
    HK_TRY(runtime_->gpu().staging->download(*buffer, 0, std::span(bytes)));
    return bytes;
}

Status ParameterStore::zero_state(std::string_view name) {
    ++state_writes_;
    const gpu::Buffer* buffer = state_buffer(name);
    if (!buffer) return not_found(fmt::format("no state is named '{}'", name));
    return runtime_->gpu().staging->fill(*buffer, 0, buffer->bytes(), 0);
}

std::pmr::memory_resource* ParameterStore::host_memory() const { return runtime_->gpu().device->host_memory(); }

uint64_t ParameterStore::bytes() const {
    uint64_t sum = 0;
    for (std::size_t a = 0; a < kStoreArenas; ++a) sum += bytes(static_cast<StoreArena>(a));
    for (const auto& [name, buffer] : states_) sum += buffer.bytes();
    return sum;
}

} // namespace hekla::program
