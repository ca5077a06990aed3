// Device memory that outlives programs: parameters, gradients, the optimizer's moments, and named states.
#pragma once

#include "base/resource_array.hpp"
#include "gpu/memory.hpp"
#include "program/lowering/limits.hpp"
#include "program/lowering/parameter_table.hpp"
#include "program/shards.hpp"

#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::program {

class Runtime;
class SharedWeights;
struct CompiledKernels;

// What the optimizer keeps of each trained parameter.
struct Moments {
    uint32_t count = 0;             // AdamW: 2; SGD with momentum: 1
    Storage storage = Storage::f32; // f32 or bf16, which the optimizer rounds at random, so that small changes add up
    bool in_system_memory = false;  // of the host, read and written over the bus; see gpu::Residence::system
};
inline constexpr Moments kAdamMoments{.count = 2};

struct StoreOptions {
    bool gradients = false;
    Moments moments = {};
    // f16 or bf16: parameters that are not trained, have two or more dimensions, and that all readers can read in 16
    // bits are stored so, with half the memory. Without gradients and moments no parameter is trained.
    Storage weights = Storage::f32;
    uint64_t max_chunk_bytes = 0;                             // of one allocation; 0: the device's limit
    std::set<std::string, std::less<>> frozen = {};           // parameters without gradients and moments
    std::shared_ptr<const CompiledKernels> kernels = nullptr; // for the programs created with the store; null: none
    // For inference: parameters are created such that other stores of the same table can read them
    // (ParameterStore::shared), or those of such a store are used, without another upload.
    bool share = false;
    std::shared_ptr<SharedWeights> shared = nullptr;
    // With several ranks: only the moments of the rank's own elements are stored.
    std::optional<ShardOptions> shard = std::nullopt;
    // For inference on CPUs: large weights that linears alone read are stored by panels, in which a product reads them
    // from one stretch of memory. Not for weights that other stores share, whose graphs may read them otherwise, or
    // that a host reads on the device.
    bool panels = false;
    // Parameters that are not shared then: those of adapters. The others are placed as if these did not exist.
    std::set<std::string, std::less<>> own = {};
};

// The store's flat arenas, each split into chunks of at most one allocation. Tensor NAME is completely in one chunk,
// entry(NAME).chunk, at entry(NAME).offset in each of them. Between tensors there are always zeros.
enum class StoreArena : uint8_t { parameters, gradients, moment1, moment2 };
inline constexpr std::size_t kStoreArenas = 4;

// Sets storage, trained and own of each tensor of a table.
void choose_storage(std::vector<ParameterEntry>& table, const StoreOptions& options);

// Returns the tensors of a table that are not stored row by row in float32, for CompileOptions::parameters.
std::map<std::string, StoredAs> stored_otherwise(const std::vector<ParameterEntry>& table);

// Places the tensors of a table: sets chunk, offset, storage, panel, trained and own of each. largest: bytes of one
// allocation. Errors: a larger tensor; duplicate names; incompatible options.
Result<std::vector<StoreChunk>> place_parameters(std::vector<ParameterEntry>& table, const Limits& limits,
                                                 const StoreOptions& options, uint64_t largest);

// Parameters, gradients and the optimizer's moments of a run, and by name everything else that outlives programs:
// buffers of the graph, key-value caches, recurrent states, the optimizer's counters. Initialized to zero.
class ParameterStore {
public:
    static Result<std::unique_ptr<ParameterStore>> create(Runtime& runtime, std::vector<ParameterEntry> table,
                                                          const StoreOptions& options = {});
    ~ParameterStore();
    ParameterStore(const ParameterStore&) = delete;
    ParameterStore& operator=(const ParameterStore&) = delete;

    const std::vector<ParameterEntry>& table() const { return table_; }
    const ParameterEntry* find(std::string_view name) const; // null if there is none
    const std::vector<StoreChunk>& chunks() const { return chunks_; }
    const Shards* shards() const { return shards_ ? &*shards_ : nullptr; } // null without StoreOptions::shard
    std::map<std::string, StoredAs> stored_otherwise() const;              // as above, of the table
    // Returns whether a chunk has memory in that arena; without a chunk: whether any has.
    bool has(StoreArena arena) const;
    bool has(StoreArena arena, uint32_t chunk) const;
    const gpu::Buffer& buffer(StoreArena arena, uint32_t chunk) const; // has() must be true
    uint64_t bytes(StoreArena arena) const;

    // float32, row-major, exactly the tensor's elements; rounded, and widened again, if they are stored in 16 bits.
    // These wait for everything submitted.
    Status upload(std::string_view name, std::span<const float> values, StoreArena arena = StoreArena::parameters);
    // Some elements of parameters, which are stored row by row in float32, in few submissions.
    struct Part {
        std::string_view name;
        uint64_t first = 0; // element
        std::span<const float> values;
    };
    Status upload(std::span<const Part> parts);
    Result<ResourceArray<float>> download(std::string_view name, StoreArena arena = StoreArena::parameters);
    // The same for elements of a trained chunk. Of moments, only those that the rank owns, within one slice.
    Status upload(const ElementRange& range, std::span<const float> values, StoreArena arena);
    Status download(const ElementRange& range, std::span<float> values, StoreArena arena);
    Status zero(StoreArena arena);

    // States: created on first use (zeros), then found by name; another size for the same name is an error. A program
    // creates the states that it needs when it is compiled; a graph's `buffer` leaves are states with the name
    // buffer_state().
    Status make_state(std::string_view name, uint64_t bytes);
    // Uses a host's buffer (gpu::Buffer::borrow) as a state. The host is responsible for its content.
    Status adopt_state(std::string_view name, gpu::Buffer buffer);
    bool has_state(std::string_view name) const;
    Result<uint64_t> state_bytes(std::string_view name) const;
    Status upload_state(std::string_view name, std::span<const std::byte> bytes, uint64_t offset = 0);
    // How often the host has written to states: whether a content that was read before is still there.
    uint64_t state_writes() const { return state_writes_; }
    Result<ResourceArray<std::byte>> download_state(std::string_view name);
    Status zero_state(std::string_view name);
    const gpu::Buffer* state_buffer(std::string_view name) const; // null if there is none

    std::shared_ptr<SharedWeights> shared() const; // with StoreOptions::share; otherwise null
    // Like SharedWeights::Reader, on the runtime's queue; nothing if the store has its own weights.
    Status evict();
    Status restore();

    const CompiledKernels* kernels() const { return kernels_.get(); } // StoreOptions::kernels
    uint64_t bytes() const;                                           // everything, for the memory plan
    std::pmr::memory_resource* host_memory() const;

private:
    ParameterStore() = default;
    Result<const ParameterEntry*> entry_in(std::string_view name, StoreArena arena) const;
    Runtime* runtime_ = nullptr;
    std::vector<ParameterEntry> table_;
    std::map<std::string, std::size_t, std::less<>> index_;
    std::vector<StoreChunk> chunks_;
    std::shared_ptr<const CompiledKernels> kernels_;
    Moments moments_;
    std::optional<Shards> shards_;
    // Copies numbers to and from memory of the arena that is stored as `storage`, from `first` on.
    Status write(const gpu::Buffer& to, Storage storage, uint64_t first, std::span<const float> values);
    Status read(const gpu::Buffer& from, Storage storage, uint64_t first, std::span<float> values);
    bool is_sharded(StoreArena arena) const; // over several ranks
    static Status parts_only(std::string_view name, StoreArena arena);
    Result<uint64_t> place_of(const ElementRange& range, std::size_t values, StoreArena arena) const;
    Storage storage_in(StoreArena arena, Storage of_parameter) const;
    std::vector<gpu::Buffer> arenas_[kStoreArenas]; // by chunk; null if a chunk has none
    class Shared;
    std::unique_ptr<Shared> shared_; // whose parameters are read instead of arenas_[parameters]; null: its own
    const gpu::Buffer* find_buffer(StoreArena arena, std::size_t chunk) const; // null if there is none
    std::map<std::string, gpu::Buffer, std::less<>> states_;
    uint64_t state_writes_ = 0;
};

} // namespace hekla::program
