#include "gpu/pipeline.hpp"

#include "base/file.hpp"
#include "base/thread.hpp"
#include "gpu/result.hpp"
#include "gpu/without_int64.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <new>
#include <system_error>
#include <thread>

namespace hekla::gpu {

namespace {

// A SPIR-V capability number and the required bit of Capabilities; null: every device of the baseline supports it.
struct Needed {
    uint32_t number;
    const char* name;
    bool Capabilities::*bit;
};

constexpr Needed kNeeded[] = {
    {0, "Matrix", nullptr},
    {1, "Shader", nullptr},
    {9, "Float16", &Capabilities::float16},
    {10, "Float64", &Capabilities::float64},
    {11, "Int64", nullptr},
    {22, "Int16", &Capabilities::int16},
    {39, "Int8", &Capabilities::int8},
    {50, "ImageQuery", nullptr},
    {61, "GroupNonUniform", nullptr},
    {62, "GroupNonUniformVote", &Capabilities::subgroup_ballot},
    {63, "GroupNonUniformArithmetic", &Capabilities::subgroup_arithmetic},
    {64, "GroupNonUniformBallot", &Capabilities::subgroup_ballot},
    {65, "GroupNonUniformShuffle", &Capabilities::subgroup_shuffle},
    {66, "GroupNonUniformShuffleRelative", &Capabilities::subgroup_shuffle},
    {4433, "StorageBuffer16BitAccess", &Capabilities::storage_16bit},
    {4448, "StorageBuffer8BitAccess", &Capabilities::storage_8bit},
    {5116, "BFloat16TypeKHR", &Capabilities::bfloat16},
    {5118, "BFloat16CooperativeMatrixKHR", &Capabilities::bfloat16_cooperative_matrix},
    {5430, "CooperativeMatrixReductionsNV", &Capabilities::cooperative_matrix_elements},
    {5431, "CooperativeMatrixConversionsNV", &Capabilities::cooperative_matrix_elements},
    {5432, "CooperativeMatrixPerElementOperationsNV", &Capabilities::cooperative_matrix_elements},
    {5433, "CooperativeMatrixTensorAddressingNV", &Capabilities::cooperative_matrix_workgroups},
    {5439, "TensorAddressingNV", &Capabilities::cooperative_matrix_workgroups},
    {5055, "ShaderClockKHR", &Capabilities::subgroup_clock},
    {5345, "VulkanMemoryModel", &Capabilities::memory_model},
    {5346, "VulkanMemoryModelDeviceScope", &Capabilities::memory_model},
    {5347, "PhysicalStorageBufferAddresses", nullptr},
    {6016, "DotProductInputAll", &Capabilities::integer_dot_product},
    {6017, "DotProductInput4x8Bit", &Capabilities::integer_dot_product},
    {6018, "DotProductInput4x8BitPacked", &Capabilities::integer_dot_product},
    {6019, "DotProduct", &Capabilities::integer_dot_product},
    {6022, "CooperativeMatrixKHR", &Capabilities::cooperative_matrix},
};

// The header of a cache file, to check that the driver's blob is complete and belongs to this driver.
struct BlobHeader {
    char magic[8] = {'H', 'K', 'P', 'I', 'P', 'E', '0', '1'};
    uint64_t bytes = 0;
    Hash128 hash;
};
static_assert(sizeof(BlobHeader) == 32);

std::string key_of(const PipelineDescription& d) {
    std::string key = to_hex(d.shader.hash());
    key.append(reinterpret_cast<const char*>(d.constants.data()), d.constants.size() * sizeof(uint32_t));
    key += fmt::format("/{}/{}", d.subgroup_size, d.full_subgroups);
    return key;
}

} // namespace

Result<std::shared_ptr<Pipelines>> Pipelines::create(std::shared_ptr<Device> device, const PipelinesOptions& options) {
    HK_TRY(device->alive());
    auto self = std::shared_ptr<Pipelines>(new Pipelines);
    self->device_ = std::move(device);
    self->options_ = options;
    const Device& d = *self->device_;
    const Functions& f = d.functions();

    VkPushConstantRange range{};
    range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    range.size = sizeof(VkDeviceAddress);
    VkPipelineLayoutCreateInfo layout{};
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.pushConstantRangeCount = 1;
    layout.pPushConstantRanges = &range;
    HK_TRY(d.check(f.vkCreatePipelineLayout(d.handle(), &layout, d.callbacks(), &self->layout_),
                   "vkCreatePipelineLayout"));

    if (self->reports()) return self;
    if (options.host_cache != VK_NULL_HANDLE) {
        self->cache_ = options.host_cache;
        return self;
    }
    const std::string blob = self->read_blob();
    VkPipelineCacheCreateInfo cache{};
    cache.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    cache.initialDataSize = blob.size();
    cache.pInitialData = blob.empty() ? nullptr : blob.data();
    HK_TRY(d.check(f.vkCreatePipelineCache(d.handle(), &cache, d.callbacks(), &self->cache_), "vkCreatePipelineCache"));
    self->started_from_cache_ = !blob.empty();
    return self;
}

Pipelines::~Pipelines() {
    const Functions& f = device_->functions();
    pipelines_.clear();
    if (cache_ != VK_NULL_HANDLE && cache_ != options_.host_cache)
        f.vkDestroyPipelineCache(device_->handle(), cache_, device_->callbacks());
    if (layout_) f.vkDestroyPipelineLayout(device_->handle(), layout_, device_->callbacks());
}

Pipeline::~Pipeline() {
    if (pipeline_) device_->functions().vkDestroyPipeline(device_->handle(), pipeline_, device_->callbacks());
}

std::string Pipelines::cache_name() const {
    const Capabilities& c = device_->capabilities();
    const std::string who = fmt::format("{}/{}/{}/{}", c.vendor_id, c.device_id, c.driver_version, c.driver_info) +
                            std::string(c.pipeline_cache_uuid.begin(), c.pipeline_cache_uuid.end());
    return "pipelines-" + to_hex(hash128(who)) + ".bin";
}

// Returns the driver's blob from the file; empty if it does not exist, is torn, or belongs to another driver. A driver
// should refuse a foreign blob, but some crash.
std::string Pipelines::read_blob() const {
    if (options_.cache == nullptr) return {};
    const Result<std::optional<std::string>> file = options_.cache->load(cache_name());
    if (!file.ok()) {
        device_->log().warning("the pipeline cache is not used: " + file.message());
        return {};
    }
    if (!file.value()) return {};
    const std::string& content = *file.value();
    const auto refuse = [&](const char* why) {
        device_->log().warning(
            fmt::format("the pipeline cache {} is not used: {}", options_.cache->place(cache_name()), why));
        return std::string();
    };
    BlobHeader header;
    const BlobHeader expected;
    if (content.size() < sizeof header) return refuse("it is too short");
    std::memcpy(&header, content.data(), sizeof header);
    if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0)
        return refuse("it is not a pipeline cache");
    const std::string_view blob = std::string_view(content).substr(sizeof header);
    if (header.bytes != blob.size() || !(hash128(blob) == header.hash)) return refuse("it is torn");
    VkPipelineCacheHeaderVersionOne vulkan{};
    if (blob.empty()) return {};
    if (blob.size() < sizeof vulkan) return refuse("the driver's part is too short");
    std::memcpy(&vulkan, blob.data(), sizeof vulkan);
    const Capabilities& c = device_->capabilities();
    if (vulkan.headerSize < sizeof vulkan || vulkan.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE ||
        vulkan.vendorID != c.vendor_id || vulkan.deviceID != c.device_id ||
        !std::equal(c.pipeline_cache_uuid.begin(), c.pipeline_cache_uuid.end(), vulkan.pipelineCacheUUID)) {
        return refuse("it is another driver's");
    }
    return std::string(blob);
}

Status Pipelines::save() {
    if (options_.cache == nullptr || cache_ == VK_NULL_HANDLE || cache_ == options_.host_cache) return {};
    HK_TRY(device_->alive());
    uint64_t compiled = 0;
    {
        const std::lock_guard guard(mutex_);
        if (compiled_ == saved_) return {};
        compiled = compiled_;
    }
    const Functions& f = device_->functions();
    std::string blob;
    VkResult result = VK_INCOMPLETE;
    while (result == VK_INCOMPLETE) { // another thread may compile between the two calls
        std::size_t bytes = 0;
        result = f.vkGetPipelineCacheData(device_->handle(), cache_, &bytes, nullptr);
        if (result != VK_SUCCESS) break;
        blob.resize(bytes);
        result = f.vkGetPipelineCacheData(device_->handle(), cache_, &bytes, blob.data());
        blob.resize(std::min(bytes, blob.size()));
    }
    HK_TRY(device_->check(result, "vkGetPipelineCacheData"));
    if (blob.size() < sizeof(VkPipelineCacheHeaderVersionOne)) { // some drivers have no cache (lavapipe of Mesa 26)
        const std::lock_guard guard(mutex_);
        saved_ = compiled;
        return {};
    }
    BlobHeader header;
    header.bytes = blob.size();
    header.hash = hash128(blob);
    std::string content(reinterpret_cast<const char*>(&header), sizeof header);
    content += blob;
    HK_TRY(options_.cache->store(cache_name(), content));
    const std::lock_guard guard(mutex_);
    saved_ = compiled;
    return {};
}

std::size_t Pipelines::count() const {
    const std::lock_guard guard(mutex_);
    return pipelines_.size();
}

uint64_t Pipelines::compiled() const {
    const std::lock_guard guard(mutex_);
    return compiled_;
}

Status Pipelines::check(const PipelineDescription& d, std::array<uint32_t, 3>& workgroup) const {
    const Capabilities& c = device_->capabilities();
    const auto refuse = [&](const std::string& why) {
        return unsupported(fmt::format("shader \"{}\" cannot run on {}: {}", d.shader.name(), c.device_name, why));
    };
    for (const uint32_t number : d.shader.capabilities()) {
        const auto* row = std::ranges::find(kNeeded, number, &Needed::number);
        if (row == std::end(kNeeded))
            return refuse(fmt::format("it declares SPIR-V capability {}, which the engine never enables", number));
        if (row->bit && !(c.*(row->bit))) return refuse(fmt::format("it needs {}", row->name));
    }
    if (d.shader.is_spirv_1_6() && !c.spirv_1_6) return refuse("it is SPIR-V 1.6");
    uint64_t invocations = 1;
    for (std::size_t i = 0; i < 3; ++i) {
        const Shader::Extent& extent = d.shader.workgroup()[i];
        const bool given = extent.constant >= 0 && static_cast<uint64_t>(extent.constant) < d.constants.size();
        workgroup[i] = given ? d.constants[static_cast<std::size_t>(extent.constant)] : extent.value;
        if (workgroup[i] == 0 || workgroup[i] > c.max_workgroup_size[i]) {
            return refuse(fmt::format("its workgroup is {} wide in dimension {}; 1 to {} is possible", workgroup[i], i,
                                      c.max_workgroup_size[i]));
        }
        invocations *= workgroup[i];
    }
    if (invocations > c.max_workgroup_invocations) {
        return refuse(
            fmt::format("its workgroup has {} invocations; {} are possible", invocations, c.max_workgroup_invocations));
    }
    if (d.shared_memory_bytes > c.shared_memory_bytes) {
        return refuse(fmt::format("it takes {} bytes of shared memory; {} are there", d.shared_memory_bytes,
                                  c.shared_memory_bytes));
    }
    if (d.subgroup_size != 0) {
        if (!c.subgroup_size_control && d.subgroup_size != c.subgroup_size) {
            return refuse(fmt::format("it needs subgroups of {}; the device's are of {} and cannot be chosen",
                                      d.subgroup_size, c.subgroup_size));
        }
        if (d.subgroup_size < c.min_subgroup_size || d.subgroup_size > c.max_subgroup_size ||
            !std::has_single_bit(d.subgroup_size)) {
            return refuse(fmt::format("it needs subgroups of {}; powers of two from {} to {} are possible",
                                      d.subgroup_size, c.min_subgroup_size, c.max_subgroup_size));
        }
        if (c.subgroup_size_control && invocations > uint64_t{d.subgroup_size} * c.max_subgroups_per_workgroup) {
            return refuse(fmt::format("{} invocations are more than {} subgroups of {}", invocations,
                                      c.max_subgroups_per_workgroup, d.subgroup_size));
        }
    }
    if (d.full_subgroups) {
        if (!c.full_subgroups) return refuse("it needs full subgroups");
        const uint32_t size = d.subgroup_size != 0 ? d.subgroup_size : c.max_subgroup_size;
        if (workgroup[0] % size != 0)
            return refuse(fmt::format("full subgroups of {} need a workgroup that is a multiple of it wide, not {}",
                                      size, workgroup[0]));
    }
    return {};
}

Result<std::shared_ptr<const Pipeline>> Pipelines::get(const PipelineDescription& description) {
    HK_TRY(device_->alive());
    if (description.shader.words().empty()) return invalid_argument("a pipeline was asked for without a shader");
    std::array<uint32_t, 3> workgroup{};
    HK_TRY(check(description, workgroup));
    const std::string key = key_of(description);
    {
        const std::lock_guard guard(mutex_);
        const auto found = pipelines_.find(key);
        if (found != pipelines_.end()) return found->second;
    }
    // Outside the lock, so that several threads compile at once; if two create the same pipeline, the first one is
    // kept.
    HK_ASSIGN(std::shared_ptr<Pipeline> made, compile(description, workgroup));
    const std::lock_guard guard(mutex_);
    compiled_ += 1;
    return pipelines_.emplace(key, std::move(made)).first->second;
}

bool Pipelines::has(const std::string& key) const {
    const std::lock_guard guard(mutex_);
    return pipelines_.contains(key);
}

std::vector<Result<std::shared_ptr<const Pipeline>>> Pipelines::get(std::span<const PipelineDescription> descriptions,
                                                                    unsigned threads) {
    std::vector<Result<std::shared_ptr<const Pipeline>>> results(descriptions.size(),
                                                                 std::shared_ptr<const Pipeline>());
    std::map<std::string, std::size_t> numbers; // of the first description of a pipeline, by its key
    std::vector<std::size_t> firsts, first_of(descriptions.size());
    std::size_t missing = 0;
    for (std::size_t i = 0; i < descriptions.size(); ++i) {
        const auto [found, is_first] = numbers.emplace(key_of(descriptions[i]), i);
        first_of[i] = found->second;
        if (!is_first) continue;
        firsts.push_back(i);
        missing += has(found->first) ? 0 : 1;
    }
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        for (std::size_t i = next++; i < firsts.size(); i = next++) {
            try {
                results[firsts[i]] = get(descriptions[firsts[i]]);
            } catch (const std::bad_alloc&) {
                results[firsts[i]] = Status(Code::out_of_memory, "no memory to compile a kernel");
            }
        }
    };
    std::vector<std::thread> others;
    others.reserve(threads);
    try {
        while (others.size() + 1 < std::min<std::size_t>(threads, missing))
            others.push_back(start_thread("hekla kernels", work));
    } catch (const std::system_error&) {} // no more threads: those that there are do it
    work();
    for (std::thread& other : others) other.join();
    for (std::size_t i = 0; i < results.size(); ++i)
        if (first_of[i] != i) results[i] = results[first_of[i]];
    return results;
}

Result<std::shared_ptr<Pipeline>> Pipelines::compile(const PipelineDescription& d,
                                                     const std::array<uint32_t, 3>& workgroup) {
    const Functions& f = device_->functions();
    VkShaderModuleCreateInfo module_info{};
    module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    std::span<const uint32_t> words = d.shader.words();
    std::vector<uint32_t> rewritten;
    if (!device_->capabilities().int64) {
        auto without = without_int64(words);
        if (!without.ok()) return without.status().with_context(fmt::format("shader \"{}\"", d.shader.name()));
        rewritten = without.take();
        words = rewritten;
    }
    module_info.codeSize = words.size_bytes();
    module_info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    HK_TRY(device_->check(f.vkCreateShaderModule(device_->handle(), &module_info, device_->callbacks(), &module),
                          fmt::format("vkCreateShaderModule ({})", d.shader.name())));

    std::vector<uint32_t> constants = d.constants;
    std::vector<VkSpecializationMapEntry> entries(constants.size());
    for (uint32_t i = 0; i < entries.size(); ++i) {
        entries[i] = {i, static_cast<uint32_t>(i * sizeof(uint32_t)), sizeof(uint32_t)};
    }
    if (device_->capabilities().uniform_loads) {
        entries.push_back({31, static_cast<uint32_t>(constants.size() * sizeof(uint32_t)), sizeof(uint32_t)});
        constants.push_back(1);
    }
    VkSpecializationInfo specialization{};
    specialization.mapEntryCount = static_cast<uint32_t>(entries.size());
    specialization.pMapEntries = entries.data();
    specialization.dataSize = constants.size() * sizeof(uint32_t);
    specialization.pData = constants.data();
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required{};
    required.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    required.requiredSubgroupSize = d.subgroup_size;
    VkComputePipelineCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    create.layout = layout_;
    if (reports())
        create.flags =
            VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    create.stage.module = module;
    create.stage.pName = "main";
    create.stage.pSpecializationInfo = entries.empty() ? nullptr : &specialization;
    if (d.subgroup_size != 0 && device_->capabilities().subgroup_size_control) create.stage.pNext = &required;
    if (d.full_subgroups) create.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;

    auto pipeline = std::shared_ptr<Pipeline>(new Pipeline);
    pipeline->device_ = device_;
    pipeline->layout_ = layout_;
    pipeline->workgroup_ = workgroup;
    pipeline->name_ = d.shader.name();
    const VkResult result =
        f.vkCreateComputePipelines(device_->handle(), cache_, 1, &create, device_->callbacks(), &pipeline->pipeline_);
    f.vkDestroyShaderModule(device_->handle(), module, device_->callbacks());
    const std::string what = fmt::format("vkCreateComputePipelines ({})", d.shader.name());
    HK_TRY(device_->check(result, what));
    // Some drivers return success and no pipeline.
    if (result != VK_SUCCESS || pipeline->pipeline_ == VK_NULL_HANDLE)
        return internal_error(
            fmt::format("{}: the driver answered {} and gave no pipeline", what, result_name(result)));
    device_->set_name(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(pipeline->pipeline_), pipeline->name_);
    return pipeline;
}

} // namespace hekla::gpu
