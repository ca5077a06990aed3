#include "program/program.hpp"

#include "base/resource_allocator.hpp"
#include "base/resource_array.hpp"
#include "base/within_memory.hpp"
#include "program/gradient_reader.hpp"
#include "program/hazards.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/records.hpp"
#include "program/ordering_check.hpp"
#include "program/parameter_store.hpp"
#include "program/resource_locations.hpp"
#include "program/runtime.hpp"
#include "program/speed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace hekla::program {

namespace {

constexpr std::size_t kRecordings = 2;

// A dispatch, or a part of its groups.
struct DispatchSlice {
    uint32_t dispatch = 0;
    uint32_t first_group = 0;
    uint32_t end_group = 0;
    uint64_t record = 0; // offset in the argument buffer
    bool barrier = false;
    double seconds = 0;      // estimated; after a resplit, measured where possible
    std::size_t segment = 0; // in which it was recorded
};

// A value that the host writes before a replay: a field of the batch or a step scalar.
struct Input {
    std::string_view name;
    ResourceId resource = 0;
    bool set = false; // fields only
};

// A state that is copied to the host at the end of each replay.
struct CopiedState {
    ResourceId resource = 0;
    uint64_t at = 0; // offset in Recording::readback
};

struct Recording {
    ResourceVector<gpu::CommandBuffer> commands;
    ResourceVector<gpu::Segment> segments;
    std::size_t copies = 0; // of them, at the beginning: the copy of fields, if the program writes fields itself
    gpu::Buffer upload;     // inputs from the host
    gpu::Buffer readback;   // small outputs, then states
    std::unique_ptr<gpu::Timer> timer;
    uint64_t value = 0; // of the queue's timeline when its last replay is done; 0: never submitted
};

// Converts "matmul in block.3/attention" to "hekla / block.3 / attention / matmul", for captures.
std::string shown(std::string_view label) {
    const std::size_t in = label.find(" in ");
    std::string path = "hekla / ";
    for (const char c : in == std::string_view::npos ? std::string_view() : label.substr(in + 4))
        path += c == '/' ? std::string(" / ") : std::string(1, c);
    return path.append(in == std::string_view::npos ? "" : " / ").append(label.substr(0, in));
}

Input* find_input(ResourceVector<Input>& inputs, std::string_view name) {
    const auto found = std::ranges::find(inputs, name, &Input::name);
    return found != inputs.end() ? &*found : nullptr;
}

} // namespace

struct Program::State {
    Runtime* runtime = nullptr;
    ParameterStore* store = nullptr;
    std::pmr::memory_resource* memory = nullptr; // the host's, for data that lives as long as this
    bool timings = false, serialized = false;    // CompileOptions
    bool writes_fields = false;                  // CompileOptions::choose
    ProgramMetadata kept;
    MemoryPlan plan; // without its placements
    ResourceLocations locations;
    uint64_t generation = 0; // of the arena, when the argument records were written

    gpu::Buffer constants;
    gpu::Buffer inputs;
    gpu::Buffer outputs;
    gpu::Buffer arguments;
    uint64_t small_outputs = 0; // bytes at the beginning of `outputs` that are copied after each replay
    ResourceVector<DispatchSlice> slices;
    ResourceVector<double> took;                                    // seconds by dispatch, 0: not measured; or empty
    ResourceVector<std::shared_ptr<const gpu::Pipeline>> pipelines; // by dispatch
    std::shared_ptr<gpu::CommandPool> pool;
    Recording recordings[kRecordings];
    std::shared_ptr<ResourceVector<double>> measured; // by segment, of both recordings
    std::size_t barriers = 0;

    std::optional<std::pmr::vector<std::byte>> image; // of `inputs`; once prepared
    ResourceVector<Input> fields, scalars;            // by name
    ResourceVector<CopiedState> copied_states;
    ResourceId runtime_record = 0;
    ResourceVector<const ParameterEntry*> gradients; // that this program writes
    uint64_t replays = 0;
    uint64_t last_value = 0;

    State(Runtime& with, ParameterStore& from, const CompileOptions& options, const Lowering& lowering);
    Status prepare(const Lowering& lowering, std::span<const std::string> read_states);
    Status find_store_locations(const Lowering& lowering);
    Status make_buffers(const Lowering& lowering, std::span<const std::string> read_states);
    Status compile_pipelines(const Lowering& lowering);
    void slice_dispatches();
    void reset_measurements();
    Result<bool> resplit(); // Runtime::resplit
    Status write_arguments(gpu::Staging& staging);
    Status record(Recording& recording);
    Status renew(gpu::Staging& staging); // after all buffers have moved
    Status wait_for(uint64_t value) const { return value == 0 ? Status() : runtime->gpu().queue->wait(value); }
    Recording& latest(std::size_t age = 0) { return recordings[(replays - 1 - age) % kRecordings]; }
    Result<const KeptOutput*> find_output(std::string_view name) const;
    Status read(const KeptOutput& output, std::span<std::byte> to, std::size_t age);
    Status read_floats(const KeptOutput& output, std::span<float> to, std::size_t age);
    Result<Recording*> begin_replay(const Replay& replay); // ready to be submitted
    std::vector<std::size_t> segments_until(std::span<const ElementRange> ranges) const;
    bool ignores(std::string_view input) const {
        return std::ranges::find(kept.ignored_inputs, input) != kept.ignored_inputs.end();
    }
};

Program::State::State(Runtime& with, ParameterStore& from, const CompileOptions& options, const Lowering& lowering)
    : runtime(&with), store(&from), memory(with.gpu().device->host_memory()), timings(options.timings),
      serialized(options.serialized), writes_fields(options.choose.has_value()), kept(lowering, memory),
      locations(lowering.resources.size(), memory), slices(memory), took(memory), pipelines(memory), fields(memory),
      scalars(memory), copied_states(memory), gradients(memory) {}

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}

Program::~Program() {
    if (state_->last_value != 0) state_->runtime->gpu().queue->settle_after(state_->wait_for(state_->last_value));
    state_->runtime->programs_.erase(state_.get());
}

Result<std::unique_ptr<Program>> Program::compile(Runtime& runtime, const Lowering& lowering, ParameterStore& store,
                                                  const CompileOptions& options) {
    std::unique_ptr<Program> program(new Program(std::make_unique<State>(runtime, store, options, lowering)));
    HK_TRY(program->state_->prepare(lowering, options.read_states));
    return program;
}

Status Program::State::prepare(const Lowering& lowering, std::span<const std::string> read_states) {
    HK_ASSIGN(plan, plan_memory(lowering, runtime->options().max_block_bytes));
    for (const Placement& placement : std::exchange(plan.placements, {}))
        locations[placement.resource] = {nullptr, placement.block, placement.offset};
    HK_TRY(find_store_locations(lowering));
    HK_TRY(compile_pipelines(lowering));
    HK_TRY(runtime->reserve_arena(plan.blocks));
    HK_TRY(make_buffers(lowering, read_states));
    slice_dispatches();
    reset_measurements();
    HK_TRY(write_arguments(*runtime->gpu().staging));
    HK_ASSIGN(pool, gpu::CommandPool::create(runtime->gpu().device));
    for (Recording& recording : recordings) HK_TRY(record(recording));
    runtime->programs_.emplace(this, Runtime::ProgramHooks{[this](gpu::Staging& staging) { return renew(staging); },
                                                           [this] { return resplit(); }});
    return {};
}

Status Program::State::renew(gpu::Staging& staging) {
    HK_TRY(write_arguments(staging));
    for (Recording& recording : recordings) HK_TRY(record(recording));
    return {};
}

Status Program::State::find_store_locations(const Lowering& lowering) {
    std::set<std::string_view> written;
    const auto without = [&](StoreArena arena, const std::string& name) {
        return failed_precondition(
            store->has(arena)
                ? fmt::format("'{}' is frozen in the parameter store, and this program trains it", name)
                : fmt::format("'{}' needs an arena that the parameter store was made without: ask for gradients and "
                              "moments in StoreOptions",
                              name));
    };
    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        const Resource& resource = lowering.resources[id];
        StoreArena arena = StoreArena::parameters;
        switch (resource.kind) {
        case ResourceKind::parameter: break;
        case ResourceKind::gradient: arena = StoreArena::gradients; break;
        case ResourceKind::moment1: arena = StoreArena::moment1; break;
        case ResourceKind::moment2: arena = StoreArena::moment2; break;
        case ResourceKind::state: {
            const bool fresh = !store->has_state(resource.name);
            HK_TRY(store->make_state(resource.name, resource.bytes));
            if (fresh && !resource.content.empty()) HK_TRY(store->upload_state(resource.name, resource.content));
            locations[id] = {store->state_buffer(resource.name), 0, 0};
            plan.states += resource.bytes;
            continue;
        }
        case ResourceKind::arena:
        case ResourceKind::constant:
        case ResourceKind::input:
        case ResourceKind::output: continue;
        }
        if (const std::optional<uint32_t> chunk = chunk_of(resource.name)) {
            if (*chunk >= store->chunks().size() || !store->has(arena, *chunk)) return without(arena, resource.name);
            locations[id] = {&store->buffer(arena, *chunk), 0, 0};
            continue;
        }
        const ParameterEntry* entry = store->find(resource.name);
        if (!entry) return not_found(fmt::format("the parameter store has no '{}'", resource.name));
        if (!store->has(arena, entry->chunk)) return without(arena, resource.name);
        const uint64_t size = resource.kind == ResourceKind::parameter ? bytes_of(entry->storage) : sizeof(float);
        if (std::max<uint64_t>(4, static_cast<uint64_t>(entry->shape.elements()) * size) != resource.bytes)
            return invalid_argument(
                fmt::format("the parameter '{}' has the shape {} in the store and {} bytes in the graph", entry->name,
                            entry->shape.text(), resource.bytes));
        locations[id] = {&store->buffer(arena, entry->chunk), 0, entry->offset * size};
        if (resource.kind == ResourceKind::gradient) written.insert(resource.name);
    }
    for (const ParameterEntry& entry : store->table())
        if (written.contains(entry.name)) gradients.push_back(&entry);
    plan.parameters = store->bytes(StoreArena::parameters);
    plan.gradients = store->bytes(StoreArena::gradients);
    plan.moments = store->bytes(StoreArena::moment1) + store->bytes(StoreArena::moment2);
    return {};
}

Status Program::State::make_buffers(const Lowering& lowering, std::span<const std::string> read_states) {
    gpu::Memory& device = *runtime->gpu().memory;
    gpu::Staging& staging = *runtime->gpu().staging;
    std::vector<uint64_t> offsets;

    uint64_t bytes = ResourceLocations::pack(lowering, ResourceKind::constant, offsets);
    HK_ASSIGN(constants, device.create_buffer(std::max(bytes, kAlignment), gpu::Residence::device, "constants"));
    std::vector<std::byte> content(static_cast<std::size_t>(bytes));
    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        const Resource& resource = lowering.resources[id];
        if (resource.kind != ResourceKind::constant) continue;
        locations[id] = {&constants, 0, offsets[id]};
        std::copy(resource.content.begin(), resource.content.end(),
                  content.begin() + static_cast<std::ptrdiff_t>(offsets[id]));
    }
    if (bytes > 0) HK_TRY(staging.upload(constants, 0, std::span<const std::byte>(content)));

    bytes = ResourceLocations::pack(lowering, ResourceKind::input, offsets);
    image.emplace(static_cast<std::size_t>(bytes), memory);
    HK_ASSIGN(inputs, device.create_buffer(std::max(bytes, kAlignment), gpu::Residence::device, "inputs"));
    const std::string_view prefix = kScalarPrefix;
    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        const KeptResource& resource = kept.resources[id];
        if (resource.kind != ResourceKind::input) continue;
        locations[id] = {&inputs, 0, offsets[id]};
        if (resource.name == kRuntimeInput) {
            runtime_record = id;
        } else if (resource.name.starts_with(prefix)) {
            const std::string_view name = resource.name.substr(prefix.size());
            scalars.push_back({name, id});
            const float initial = lowering.scalar_initials.at(std::string(name));
            std::memcpy(image->data() + offsets[id], &initial, sizeof initial);
        } else {
            fields.push_back({resource.name, id});
        }
    }
    std::ranges::sort(fields, {}, &Input::name);
    std::ranges::sort(scalars, {}, &Input::name);

    const ProgramOutputs placed = place_outputs(lowering, offsets);
    for (ResourceId id = 1; id < lowering.resources.size(); ++id)
        if (lowering.resources[id].kind == ResourceKind::output) locations[id] = {&outputs, 0, offsets[id]};
    small_outputs = placed.small;
    HK_ASSIGN(outputs, device.create_buffer(std::max(placed.bytes, kAlignment), gpu::Residence::device, "outputs"));

    uint64_t copied = (small_outputs + kAlignment - 1) / kAlignment * kAlignment;
    for (const std::string& name : read_states) {
        const auto found = std::ranges::find_if(kept.resources, [&](const KeptResource& resource) {
            return resource.kind == ResourceKind::state && resource.name == name;
        });
        if (found == kept.resources.end())
            return invalid_argument(fmt::format("the program has no state '{}' to read", name));
        copied_states.push_back({static_cast<ResourceId>(found - kept.resources.begin()), copied});
        copied += (found->bytes + kAlignment - 1) / kAlignment * kAlignment;
    }

    for (Recording& recording : recordings) {
        recording.commands = ResourceVector<gpu::CommandBuffer>(memory);
        recording.segments = ResourceVector<gpu::Segment>(memory);
        HK_ASSIGN(recording.upload,
                  device.create_buffer(inputs.bytes(), gpu::Residence::upload, "inputs on their way"));
        HK_ASSIGN(recording.readback,
                  device.create_buffer(std::max(copied, kAlignment), gpu::Residence::readback, "outputs on their way"));
        if (timings) {
            if (!runtime->gpu().capabilities().timestamps)
                return unsupported("this device has no timestamps; compile without timings");
            HK_ASSIGN(recording.timer,
                      gpu::Timer::create(runtime->gpu().device, static_cast<uint32_t>(kept.dispatches.size()) + 1));
        }
    }
    return {};
}

Status Program::State::compile_pipelines(const Lowering& lowering) {
    auto made = runtime->pipelines(lowering.dispatches, store->kernels());
    for (std::size_t d = 0; d < made.size(); ++d) {
        if (!made[d].ok()) return made[d].status().with_context(std::string(kept.dispatches[d].label));
        pipelines.push_back(made[d].take());
    }
    return {};
}

void Program::State::slice_dispatches() {
    const Speed speed = speed_of(runtime->device_limits());
    std::vector<std::vector<ByteRange>> ranges;
    for (const DispatchInfo& dispatch : kept.dispatches) ranges.push_back(locations.ranges(dispatch, runtime->arena()));
    std::vector<bool> before = place_barriers(ranges);
    if (serialized || timings) before.assign(before.size(), true);

    const double budget = timings ? 0 : runtime->options().budget_seconds;
    uint64_t end = 0;
    slices.clear();
    for (uint32_t d = 0; d < kept.dispatches.size(); ++d) {
        const DispatchInfo& dispatch = kept.dispatches[d];
        const bool known = d < took.size() && took[d] > 0;
        const double seconds = known ? took[d] : seconds_of(dispatch.flops, dispatch.bytes, speed, dispatch.seconds);
        const uint64_t groups = dispatch.groups;
        // A dispatch that alone would take longer than a submit may is split by groups; with a measured time into one
        // more slice, since slices do not take equally long.
        const uint64_t parts = parts_of(groups, known && seconds > budget ? seconds + budget : seconds, budget);
        for (uint64_t p = 0; p < parts; ++p) {
            DispatchSlice slice;
            slice.dispatch = d;
            slice.first_group = static_cast<uint32_t>(groups * p / parts);
            slice.end_group = static_cast<uint32_t>(groups * (p + 1) / parts);
            slice.record = end;
            slice.barrier = p == 0 && before[d];
            slice.seconds = seconds / static_cast<double>(parts);
            slices.push_back(slice);
            end += (dispatch.record.size() + 63) / 64 * 64;
        }
    }
    plan.arguments = end;
}

void Program::State::reset_measurements() {
    using Seconds = ResourceVector<double>;
    measured = std::allocate_shared<Seconds>(ResourceAllocator<Seconds>(memory), memory);
    measured->reserve(slices.size() + 1); // at least as many as segments, which point into it
}

Result<bool> Program::State::resplit() {
    const double budget = runtime->options().budget_seconds;
    if (budget <= 0 || timings) return false;
    std::vector<double> estimated(measured->size());
    for (const DispatchSlice& slice : slices) estimated[slice.segment] += slice.seconds;
    ResourceVector<double> found(kept.dispatches.size(), memory);
    bool shorter = false;
    for (const DispatchSlice& slice : slices) {
        if (estimated[slice.segment] <= 0) continue;
        const double seconds = (*measured)[slice.segment] * slice.seconds / estimated[slice.segment];
        found[slice.dispatch] += seconds;
        shorter = shorter || (seconds > budget && slice.end_group - slice.first_group > 1);
    }
    if (!shorter) return false;
    HK_TRY(wait_for(last_value));
    const ResourceVector<DispatchSlice> before = slices;
    const uint64_t size = plan.arguments;
    took = std::move(found);
    gpu::Buffer records = std::exchange(arguments, {});
    const Status written = within_memory("for argument records", [&] {
        slice_dispatches();
        return write_arguments(*runtime->gpu().staging);
    });
    if (!written.ok()) {
        if (written.code() != Code::out_of_memory) return written;
        slices = before; // no space for more records: keep the old slices
        plan.arguments = size;
        arguments = std::move(records);
        return false;
    }
    reset_measurements();
    for (Recording& recording : recordings) {
        recording.commands.clear();
        recording.segments.clear();
        HK_TRY(record(recording));
    }
    return true;
}

Status Program::State::write_arguments(gpu::Staging& staging) {
    if (!arguments) {
        const uint64_t size = std::max(plan.arguments, kAlignment);
        HK_ASSIGN(arguments, runtime->gpu().memory->create_buffer(size, gpu::Residence::device, "arguments"));
    }
    std::pmr::vector<std::byte> bytes(static_cast<std::size_t>(plan.arguments), memory);
    for (const DispatchSlice& slice : slices)
        locations.record(kept.dispatches[slice.dispatch], slice.first_group, slice.end_group, runtime->arena(),
                         bytes.data() + slice.record);
    if (!bytes.empty()) HK_TRY(staging.upload(arguments, 0, std::span<const std::byte>(bytes)));
    generation = runtime->arena().generation();
    return {};
}

Status Program::State::record(Recording& recording) {
    const bool traced = runtime->options().keep_traces;
    const bool again = !recording.commands.empty(); // re-records into the same buffers, which may be queued
    ResourceVector<double> durations(memory);
    for (const DispatchSlice& slice : slices) durations.push_back(slice.seconds);
    const std::vector<std::size_t> first = segments_of(durations, runtime->options().segment_seconds);
    double seconds = 0;
    std::size_t segment = 0;
    gpu::CommandBuffer* commands = nullptr;
    barriers = 0;
    const auto open = [&]() -> Status {
        if (!again) {
            HK_ASSIGN(gpu::CommandBuffer fresh, pool->allocate(gpu::Level::secondary));
            recording.commands.push_back(std::move(fresh));
        }
        commands = &recording.commands[segment];
        seconds = 0;
        return commands->begin(traced, writes_fields);
    };
    const auto close = [&]() -> Status {
        HK_TRY(commands->end());
        if (again) {
            ++segment;
            return {};
        }
        if (segment == measured->size()) measured->push_back(0.0);
        recording.segments.push_back({nullptr, seconds, {measured, measured->data() + segment++}, true});
        return {};
    };
    const auto barrier = [&] {
        commands->barrier();
        ++barriers;
    };
    HK_TRY(open());
    barrier(); // against the previous replay, of this or another program
    if (!image->empty()) {
        commands->copy(recording.upload, 0, inputs, 0, image->size());
        if (writes_fields) {
            HK_TRY(close());
            HK_TRY(open());
            recording.copies = 1;
        }
        barrier();
    }
    if (recording.timer) {
        commands->reset_timer(*recording.timer);
        commands->timestamp(*recording.timer, 0);
    }
    auto next = first.begin() + 1;
    for (std::size_t p = 0; p < slices.size(); ++p) {
        DispatchSlice& slice = slices[p];
        if (next != first.end() && *next == p) {
            ++next;
            HK_TRY(close());
            HK_TRY(open());
        }
        if (!again) slice.segment = recording.segments.size();
        if (slice.barrier && p > 0) barrier();
        const bool labelled = runtime->gpu().device->labels();
        if (labelled) commands->begin_label(shown(kept.dispatches[slice.dispatch].label));
        commands->dispatch(*pipelines[slice.dispatch], arguments.address() + slice.record,
                           slice.end_group - slice.first_group, p);
        if (labelled) commands->end_label();
        seconds += slice.seconds;
        if (recording.timer) commands->timestamp(*recording.timer, static_cast<uint32_t>(p) + 1);
    }
    if (small_outputs > 0 || !copied_states.empty()) barrier();
    if (small_outputs > 0) commands->copy(outputs, 0, recording.readback, 0, small_outputs);
    for (const CopiedState& state : copied_states) {
        const ResourceLocation& from = locations[state.resource];
        commands->copy(*from.buffer, from.offset, recording.readback, state.at, kept.resources[state.resource].bytes);
    }
    HK_TRY(close());
    for (std::size_t i = 0; i < recording.segments.size(); ++i) recording.segments[i].commands = &recording.commands[i];
    return {};
}

Status Program::set_input(std::string_view field, std::span<const std::byte> bytes) {
    State& state = *state_;
    Input* input = find_input(state.fields, field);
    if (input == nullptr) {
        if (state.ignores(field)) return {};
        std::string known;
        for (const Input& one : state.fields) known.append(known.empty() ? "" : ", ").append(one.name);
        return not_found(
            fmt::format("the program reads no field '{}'; it reads: {}", field, known.empty() ? "none" : known));
    }
    const KeptResource& resource = state.kept.resources[input->resource];
    if (bytes.size() != resource.bytes)
        return invalid_argument(
            fmt::format("the field '{}' takes {} bytes; {} were given", field, resource.bytes, bytes.size()));
    std::copy(bytes.begin(), bytes.end(),
              state.image->begin() + static_cast<std::ptrdiff_t>(state.locations[input->resource].offset));
    input->set = true;
    return {};
}

bool Program::has_input(std::string_view field) const { return find_input(state_->fields, field) != nullptr; }

Status Program::set_scalar(std::string_view name, float value) {
    State& state = *state_;
    const Input* input = find_input(state.scalars, name);
    if (input == nullptr) {
        if (state.ignores(kScalarPrefix + std::string(name))) return {};
        return not_found(fmt::format("the program reads no step scalar '{}'", name));
    }
    std::memcpy(state.image->data() + state.locations[input->resource].offset, &value, sizeof value);
    return {};
}

bool Program::has_scalar(std::string_view name) const { return find_input(state_->scalars, name) != nullptr; }

Result<Recording*> Program::State::begin_replay(const Replay& replay) {
    const RunScalars& run = replay.scalars;
    if (replay.times != 1 && !writes_fields)
        return failed_precondition("only a program that writes its own fields can be repeated");
    if (const auto unset = std::ranges::find(fields, false, &Input::set); unset != fields.end())
        return failed_precondition(fmt::format("the field '{}' was never set", unset->name));
    Recording& recording = recordings[replays % kRecordings];
    HK_TRY(wait_for(recording.value));
    if (generation != runtime->arena().generation()) {
        HK_TRY(wait_for(last_value));
        const std::vector<gpu::Buffer>& blocks = runtime->arena().blocks();
        for (std::size_t b = 0; b < plan.blocks.size(); ++b)
            if (b >= blocks.size() || blocks[b].bytes() < plan.blocks[b])
                return failed_precondition("the activation arena was lost when growing it for another program failed");
        HK_TRY(write_arguments(*runtime->gpu().staging));
    }
    if (runtime_record != 0) {
        RuntimeRecord record;
        record.seed_low = static_cast<uint32_t>(run.seed);
        record.seed_high = static_cast<uint32_t>(run.seed >> 32);
        record.step = run.step;
        record.first_example = run.first_example;
        record.accumulate = run.accumulate ? 1 : 0;
        std::memcpy(image->data() + locations[runtime_record].offset, &record, sizeof record);
    }
    if (!image->empty()) {
        std::copy(image->begin(), image->end(), recording.upload.host().begin());
        HK_TRY(recording.upload.flush(0, image->size()));
    }
    return &recording;
}

Status Program::submit(const RunScalars& scalars) {
    const Replay replay{this, scalars};
    return submit(std::span(&replay, 1));
}

Status Program::submit(std::span<const Replay> replays) {
    if (replays.empty()) return {};
    const Runtime& runtime = *replays[0].program->state_->runtime;
    ResourceVector<Recording*> recordings(replays[0].program->state_->memory);
    ResourceVector<gpu::Segment> segments(replays[0].program->state_->memory);
    const bool whole = replays.size() == 1 && replays[0].times == 1;
    for (const Replay& replay : replays) {
        HK_ASSIGN(Recording * recording, replay.program->state_->begin_replay(replay));
        recordings.push_back(recording);
        if (whole) break;
        const auto body = recording->segments.begin() + static_cast<std::ptrdiff_t>(recording->copies);
        segments.insert(segments.end(), recording->segments.begin(), body);
        for (uint32_t time = 0; time < replay.times; ++time)
            segments.insert(segments.end(), body, recording->segments.end());
    }
    gpu::SubmitOptions options;
    options.budget_seconds = runtime.options().budget_seconds;
    HK_ASSIGN(const uint64_t value, runtime.gpu().queue->submit(whole ? recordings[0]->segments : segments, options));
    for (std::size_t i = 0; i < replays.size(); ++i) {
        State& state = *replays[i].program->state_;
        recordings[i]->value = state.last_value = value;
        ++state.replays;
    }
    return {};
}

// Returns, for each range of gradients, the number of segments that must have run before it has its values.
std::vector<std::size_t> Program::State::segments_until(std::span<const ElementRange> ranges) const {
    std::vector<std::size_t> until(ranges.size());
    for (const DispatchSlice& slice : slices) {
        for (const Access& access : kept.dispatches[slice.dispatch].accesses) {
            if (!access.write || kept.resources[access.resource].kind != ResourceKind::gradient) continue;
            const ResourceLocation& location = locations[access.resource];
            for (std::size_t i = 0; i < ranges.size(); ++i)
                if (location.buffer == &store->buffer(StoreArena::gradients, ranges[i].chunk) &&
                    location.offset + access.begin < ranges[i].end() * sizeof(float) &&
                    location.offset + access.end > ranges[i].first * sizeof(float))
                    until[i] = std::max(until[i], slice.segment + 1);
        }
    }
    return until;
}

Result<std::vector<uint64_t>> Program::submit_by_range(const RunScalars& scalars, const GradientReader& reader) {
    State& state = *state_;
    gpu::Queue& queue = *state.runtime->gpu().queue;
    HK_ASSIGN(Recording * recording, state.begin_replay({this, scalars}));
    const std::vector<std::size_t> until = state.segments_until(reader.ranges());
    gpu::SubmitOptions options;
    options.budget_seconds = state.runtime->options().budget_seconds;
    std::vector<uint64_t> values;
    ResourceVector<gpu::Segment> segments(state.memory);
    std::size_t done = 0;
    for (std::size_t i = 0; i < until.size(); ++i) {
        const std::size_t end = i + 1 < until.size() ? std::max(done, until[i]) : recording->segments.size();
        segments.assign(recording->segments.begin() + static_cast<std::ptrdiff_t>(done),
                        recording->segments.begin() + static_cast<std::ptrdiff_t>(end));
        done = end;
        if (const gpu::CommandBuffer* copy = reader.copy(i)) segments.push_back({copy});
        if (!segments.empty()) {
            HK_ASSIGN(const uint64_t value, queue.submit(segments, options));
            recording->value = state.last_value = value;
        }
        values.push_back(queue.last_submitted());
    }
    ++state.replays;
    return values;
}

Status Program::wait() { return state_->wait_for(state_->last_value); }

Status Program::run(const RunScalars& scalars) {
    HK_TRY(submit(scalars));
    return wait();
}

Result<const KeptOutput*> Program::State::find_output(std::string_view name) const {
    if (const KeptOutput* output = kept.output(name)) return output;
    std::string known;
    for (const KeptOutput& one : kept.outputs) known.append(known.empty() ? "" : ", ").append(one.name);
    return not_found(
        fmt::format("the program keeps no output '{}'; it keeps: {}", name, known.empty() ? "none" : known));
}

// Copies an output as it is stored.
Status Program::State::read(const KeptOutput& output, std::span<std::byte> to, std::size_t age) {
    if (replays <= age || age >= kRecordings)
        return failed_precondition(replays == 0 ? "the program has not run yet"
                                                : "only outputs of the last two replays can be read");
    const Recording& recording = latest(age);
    HK_TRY(wait_for(recording.value));
    if (to.empty()) return {};
    const ResourceLocation& location = locations[output.view.resource];
    if (location.offset >= small_outputs) {
        if (age != 0)
            return failed_precondition(fmt::format("the output '{}' was overwritten by a replay", output.name));
        return runtime->gpu().staging->download(outputs, location.offset, to);
    }
    HK_TRY(recording.readback.invalidate(location.offset, to.size()));
    std::memcpy(to.data(), recording.readback.host().data() + location.offset, to.size());
    return {};
}

Result<HostTensor> Program::read_output(std::string_view name, std::size_t age) {
    State& state = *state_;
    HK_ASSIGN(const KeptOutput* const output, state.find_output(name));
    const View& view = output->view;
    HostTensor tensor;
    tensor.kind = view.storage == Storage::i32 ? graph::Kind::int32 : graph::Kind::float32;
    tensor.shape = view.shape;
    tensor.bytes = ResourceArray<std::byte>(static_cast<std::size_t>(view.elements()) * 4, state.memory);
    if (view.storage == Storage::i32) {
        HK_TRY(state.read(*output, tensor.bytes, age));
    } else {
        HK_TRY(state.read_floats(
            *output, {reinterpret_cast<float*>(tensor.bytes.data()), static_cast<std::size_t>(view.elements())}, age));
    }
    return tensor;
}

Status Program::State::read_floats(const KeptOutput& output, std::span<float> to, std::size_t age) {
    if (bytes_of(output.view.storage) == 4) return read(output, std::as_writable_bytes(to), age);
    ResourceArray<uint16_t> halves(to.size(), memory);
    HK_TRY(read(output, std::as_writable_bytes(std::span(halves.data(), halves.size())), age));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from_half(output.view.storage, halves[i]);
    return {};
}

Status Program::read_floats(std::string_view name, std::span<float> to) {
    HK_ASSIGN(const KeptOutput* const output, state_->find_output(name));
    const View& view = output->view;
    if (view.storage == Storage::i32 || to.size() != static_cast<std::size_t>(view.elements()))
        return invalid_argument(fmt::format("the output '{}' has {} {} elements; {} floats were expected", name,
                                            view.elements(), storage_name(view.storage), to.size()));
    return state_->read_floats(*output, to, 0);
}

Result<ResourceArray<std::byte>> Program::read_state(std::string_view name) {
    State& state = *state_;
    if (state.replays == 0) return failed_precondition("the program has not run yet");
    const auto found = std::ranges::find_if(
        state.copied_states, [&](const CopiedState& one) { return state.kept.resources[one.resource].name == name; });
    if (found == state.copied_states.end())
        return not_found(fmt::format("the program does not copy the state '{}' to the host", name));
    HK_TRY(wait());
    const uint64_t bytes = state.kept.resources[found->resource].bytes;
    const gpu::Buffer& readback = state.latest().readback;
    HK_TRY(readback.invalidate(found->at, bytes));
    const auto from = readback.host().subspan(static_cast<std::size_t>(found->at), static_cast<std::size_t>(bytes));
    return ResourceArray<std::byte>(std::span<const std::byte>(from), state.memory);
}

Result<float> Program::read_scalar_output(std::string_view name, std::size_t age) {
    HK_ASSIGN(const KeptOutput* const output, state_->find_output(name));
    if (output->view.elements() != 1)
        return invalid_argument(fmt::format("the output '{}' is {}, not one number", name, output->view.shape.text()));
    if (output->view.storage == Storage::i32) {
        int32_t integer = 0;
        HK_TRY(state_->read(*output, std::as_writable_bytes(std::span(&integer, 1)), age));
        return static_cast<float>(integer);
    }
    float value = 0;
    HK_TRY(state_->read_floats(*output, std::span(&value, 1), age));
    return value;
}

std::vector<std::string> Program::output_names() const {
    std::vector<std::string> names;
    for (const KeptOutput& output : state_->kept.outputs)
        if (!output.name.starts_with(kAccessPrefix)) names.emplace_back(output.name);
    return names;
}

std::vector<std::string> Program::gradient_names() const {
    std::vector<std::string> names;
    for (const ParameterEntry* entry : state_->gradients) names.push_back(entry->name);
    return names;
}

const MemoryPlan& Program::memory_plan() const { return state_->plan; }

double Program::flops() const {
    double sum = 0;
    for (const DispatchInfo& dispatch : state_->kept.dispatches) sum += dispatch.flops;
    return sum;
}

std::vector<DispatchTiming> Program::timings() {
    State& state = *state_;
    if (!state.timings || state.replays == 0 || !wait().ok()) return {};
    const auto ticks = state.latest().timer->read(0, static_cast<uint32_t>(state.slices.size()) + 1);
    if (!ticks.ok()) return {};
    std::vector<DispatchTiming> result;
    for (std::size_t p = 0; p < state.slices.size(); ++p) {
        const DispatchInfo& dispatch = state.kept.dispatches[state.slices[p].dispatch];
        result.push_back({std::string(dispatch.label), std::string(dispatch.shader),
                          (ticks.value()[p + 1] - ticks.value()[p]) * 1e-9, dispatch.flops, dispatch.bytes});
    }
    return result;
}

Result<std::vector<AccessCounts>> Program::access_counts() {
    std::vector<AccessCounts> result;
    for (const auto& [label, output] : state_->kept.access_counts) {
        HK_ASSIGN(const HostTensor counted, read_output(output));
        const std::span<const int32_t> words = counted.ints();
        result.push_back({std::string(label), static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1])});
    }
    return result;
}

std::string Program::dump() const {
    const State& state = *state_;
    std::string out;
    for (std::size_t p = 0; p < state.slices.size(); ++p) {
        const DispatchSlice& slice = state.slices[p];
        const DispatchInfo& dispatch = state.kept.dispatches[slice.dispatch];
        if (slice.barrier && p > 0) out += "      ----\n";
        out += fmt::format("{:5} {} [{}", p, dispatch.label, dispatch.shader);
        for (const uint32_t constant : dispatch.constants) out += fmt::format(" {}", constant);
        out += fmt::format("] groups {} to {}", slice.first_group, slice.end_group);
        for (const Access& access : dispatch.accesses)
            out += fmt::format(" {}{}[{}..{}]", access.write ? ">" : "<", state.kept.resources[access.resource].name,
                               access.begin, access.end);
        out += '\n';
    }
    return out;
}

std::vector<std::string> Program::kernel_choices() const {
    std::vector<std::string> result;
    for (const auto& [key, choice] : state_->kept.choices) result.push_back(fmt::format("{}: {}", key, choice));
    return result;
}

std::size_t Program::barriers() const { return state_->barriers; }

std::size_t Program::dispatches() const { return state_->slices.size(); }

std::size_t Program::command_buffers() const { return state_->recordings[0].commands.size(); }

Result<std::vector<OrderingEvent>> Program::ordering_events(std::size_t replays) const {
    const State& state = *state_;
    if (!state.runtime->options().keep_traces)
        return failed_precondition("what was recorded was not kept; set RuntimeOptions::keep_traces");
    std::vector<OrderingEvent> events;
    for (std::size_t replay = 0; replay < replays; ++replay) {
        for (const gpu::CommandBuffer& commands : state.recordings[replay % kRecordings].commands) {
            for (const gpu::RecordedCommand& command : commands.trace()) {
                OrderingEvent event;
                switch (command.kind) {
                case gpu::RecordedCommand::Kind::barrier: {
                    event.kind = OrderingEvent::Kind::barrier;
                    const auto covers = [](uint64_t stages, uint64_t stage, uint64_t access, uint64_t wanted,
                                           uint64_t any) {
                        const bool stage_ok = (stages & (stage | VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT)) != 0;
                        return stage_ok && ((access & wanted) == wanted || (access & any) == any);
                    };
                    const uint64_t stages[] = {VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT,
                                               VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT};
                    const uint64_t reads[] = {VK_ACCESS_2_SHADER_STORAGE_READ_BIT, VK_ACCESS_2_TRANSFER_READ_BIT};
                    const uint64_t writes[] = {VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT, VK_ACCESS_2_TRANSFER_WRITE_BIT};
                    for (int s = 0; s < 2; ++s) {
                        event.from[s] = covers(command.from_stages, stages[s], command.from_access, writes[s],
                                               VK_ACCESS_2_MEMORY_WRITE_BIT);
                        event.to[s] = covers(command.to_stages, stages[s], command.to_access, reads[s] | writes[s],
                                             VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT);
                    }
                    break;
                }
                case gpu::RecordedCommand::Kind::dispatch: {
                    const DispatchSlice& slice = state.slices[static_cast<std::size_t>(command.tag)];
                    const DispatchInfo& dispatch = state.kept.dispatches[slice.dispatch];
                    event.group = replay * state.kept.dispatches.size() + slice.dispatch + 1;
                    event.name = dispatch.label;
                    for (const ByteRange& range : state.locations.ranges(dispatch, state.runtime->arena()))
                        event.bytes.push_back({range.begin, range.end, range.write});
                    event.bytes.push_back({command.arguments, command.arguments + dispatch.record.size(), false});
                    break;
                }
                case gpu::RecordedCommand::Kind::copy:
                    event.bytes.push_back({command.source, command.source + command.bytes, false});
                    [[fallthrough]];
                case gpu::RecordedCommand::Kind::fill:
                case gpu::RecordedCommand::Kind::update:
                    event.stage = Stage::transfer;
                    event.name = "transfer";
                    event.bytes.push_back({command.destination, command.destination + command.bytes, true});
                    break;
                case gpu::RecordedCommand::Kind::timestamp: continue;
                }
                events.push_back(std::move(event));
            }
        }
    }
    return events;
}

Status Program::check_ordering() const {
    HK_ASSIGN(const std::vector<OrderingEvent> events, ordering_events(3));
    const OrderingReport report = program::check_ordering(events);
    if (report.faults.empty()) return {};
    std::string text = fmt::format("{} unordered accesses:", report.faults.size());
    for (const std::string& fault : report.faults) text += "\n  " + fault;
    return internal_error(text);
}

} // namespace hekla::program
