#include "api/session.hpp"

#include "api/boundary.hpp"
#include "api/capture.hpp"
#include "api/generation.hpp"
#include "api/handles.hpp"
#include "api/training.hpp"
#include "base/thread_name.hpp"
#include "infer/forward.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <map>

namespace hekla::api {
namespace {

constexpr double kFinest = 250; // microseconds
constexpr uint64_t kStagingBytes = uint64_t{1} << 20;
constexpr std::chrono::microseconds kAgain(100); // until what waits is looked at again

std::vector<gpu::TimelinePoint> points(const hk_timeline* timelines, uint64_t count) {
    std::vector<gpu::TimelinePoint> result;
    for (uint64_t i = 0; i < count; ++i) {
        gpu::TimelinePoint point;
        static_assert(sizeof point.semaphore == sizeof timelines[i].semaphore);
        std::memcpy(&point.semaphore, &timelines[i].semaphore, sizeof point.semaphore);
        point.value = timelines[i].value;
        result.push_back(point);
    }
    return result;
}

std::chrono::steady_clock::time_point long_from_now() {
    return std::chrono::steady_clock::now() + std::chrono::hours(24 * 365);
}

Status check_points(const hk_timeline* timelines, uint64_t count, const char* name) {
    if (count > 0 && timelines == nullptr) return invalid_argument(fmt::format("hk_advance.{} is null", name));
    for (uint64_t i = 0; i < count; ++i)
        if (timelines[i].semaphore == 0)
            return invalid_argument(fmt::format("hk_advance.{}[{}].semaphore is null", name, i));
    return {};
}

} // namespace

Status Session::open(const std::shared_ptr<Context>& context, const hk_session_options* own) {
    double finest = kFinest;
    if (own != nullptr) {
        HK_TRY(complete(own, "hk_session_options"));
        if (!(own->microseconds >= 0 && own->microseconds <= 1e9))
            return invalid_argument(
                fmt::format("hk_session_options.microseconds is {}, expected 0 (250) to 1e9", own->microseconds));
        if (own->length < 0)
            return invalid_argument(fmt::format("hk_session_options.length is {}, expected 0 or more", own->length));
        if (own->microseconds > 0) finest = own->microseconds;
        length_ = own->length;
    }
    context_ = context;
    HK_ASSIGN(const Context::Device base, context->device());
    gpu::Context gpu = base.gpu;
    HK_ASSIGN(queue_, gpu::BudgetedQueue::create(gpu.device));
    gpu.queue = queue_;
    HK_ASSIGN(gpu.memory, gpu::Memory::create_beside(*gpu.memory)); // can be given back apart from all others
    HK_ASSIGN(gpu.staging, gpu::Staging::create(gpu.memory, queue_, kStagingBytes));
    program::RuntimeOptions options = base.options;
    options.budget_seconds = finest * 1e-6;
    options.segment_seconds = finest * 1e-6 / 8;
    HK_ASSIGN(runtime_, program::Runtime::create(std::move(gpu), options));
    return {};
}

Session::~Session() {
    if (thread_.joinable()) thread_.detach(); // the thread was the last to hold it, and is about to end
    if (!in_stretches_) return;
    if (const auto queue = this->queue()) queue->cancel(); // a callback of its own destroyed it: the rest of its code
    while (run_on() != Waits::ended) std::this_thread::sleep_for(kAgain);
}

CallEnvironment Session::place() {
    return {context_->registry(),    context_->log(),
            runtime_.get(),          [this] { return stopping_.load(std::memory_order_relaxed); },
            context_->own_threads(), &context_->weights()};
}

void Session::begin(std::function<Status()> body) {
    if (!context_->own_threads()) {
        body_ = std::move(body);
        return;
    }
    thread_ = std::thread([self = shared_from_this(), body = std::move(body)] {
        name_this_thread("hekla session");
        self->work(body);
    });
}

void Session::work(const std::function<Status()>& body) {
    thread_id_ = std::this_thread::get_id();
    Status status;
    try {
        status = body();
    } catch (const std::bad_alloc&) {
        status = Status(Code::out_of_memory, "out of memory");
    } catch (const std::exception& e) { status = internal_error(e.what()); } catch (...) {
        status = internal_error("an exception of an unknown type");
    }
    queue()->cancel(); // nobody submits any more
    if (const std::lock_guard guard(mutex_); status.code() == Code::cancelled && stopping_ && !destroyed_) {
        status = {}; // it was stopped while it waited for another to load the weights
        stopped_ = true;
    }
    end(std::move(status));
}

void Session::end(Status status) {
    runtime_.reset();
    {
        const std::lock_guard guard(mutex_);
        state_ = status.ok() ? HK_SESSION_DONE : HK_SESSION_FAILED;
        failed_ = std::move(status);
        ended_ = true;
        thread_id_ = std::thread::id();
    }
    changed_.notify_all();
}

Context::Client::Waits Session::run_on() {
    const std::lock_guard one_at_a_time(running_);
    if (fiber_ == nullptr) {
        std::function<Status()> body;
        {
            const std::lock_guard guard(mutex_);
            if (!body_) return Waits::ended;
            body = std::exchange(body_, {});
            in_stretches_ = true;
        }
        if (Status begun = make_fiber(std::move(body)); !begun.ok()) {
            end(std::move(begun));
            return Waits::ended;
        }
    }
    thread_id_ = std::this_thread::get_id();
    fiber_->resume();
    if (fiber_->ended()) {
        fiber_.reset();
        return Waits::ended;
    }
    thread_id_ = std::thread::id();
    return waits_for_host_ ? Waits::for_host : Waits::for_device;
}

Status Session::make_fiber(std::function<Status()> body) try {
    queue()->set_pause([this](bool for_advance) { return pause(for_advance); });
    HK_ASSIGN(fiber_, Fiber::create([this, body = std::move(body)] { work(body); }));
    return {};
} catch (const std::bad_alloc&) { return {Code::out_of_memory, "out of memory"}; }

bool Session::pause(bool for_host) {
    if (!in_stretches_ || !is_here()) return false;
    waits_for_host_ = for_host;
    fiber_->pause();
    return true;
}

bool Session::asked_to_stop() {
    return callbacks_.call([](const Callbacks& host) { return host.stop != nullptr && host.stop(host.user) != 0; });
}

Status Session::replace(const hk_session_callbacks& given) {
    if (is_here()) return failed_precondition("a callback cannot replace the callbacks: it would wait for itself");
    callbacks_.replace({.user = given.user,
                        .step = given.step,
                        .evaluation = given.evaluation,
                        .message = given.message,
                        .text = given.text,
                        .done = given.done,
                        .stop = given.stop});
    return {};
}

void Session::announce(uint64_t handle) {
    handle_ = handle;
    ask_for_job();
}

void Session::ask_for_job() {
    if (!context_->gives_jobs() || handle_ == 0 || job_wanted_.exchange(true)) return;
    const auto run = [](void* data) {
        guarded(nullptr, [&]() -> Status {
            HK_ASSIGN(const std::shared_ptr<Session> session,
                      Handles<Session>::all().find(reinterpret_cast<uintptr_t>(data), "session"));
            session->job_wanted_ = false;
            if (session->run_on() == Waits::for_device) session->ask_for_job();
            return {};
        });
    };
    static_assert(sizeof(void*) >= sizeof handle_);
    context_->give_job(run,
                       reinterpret_cast<void*>(handle_.load())); // NOLINT(performance-no-int-to-ptr): back there only
}

void Session::wait_here(std::unique_lock<std::mutex>& lock, const std::function<bool()>& wanted) {
    while (!wanted()) {
        if (!in_stretches_) return changed_.wait(lock, wanted);
        lock.unlock();
        pause(true);
        lock.lock();
    }
}

bool Session::wait_for(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until,
                       const std::function<bool()>& wanted) {
    while (!wanted()) {
        if (!in_stretches_) return changed_.wait_until(lock, until, wanted);
        if (std::chrono::steady_clock::now() >= until) return false;
        lock.unlock();
        run_on();
        std::this_thread::sleep_for(kAgain);
        lock.lock();
    }
    return true;
}

Status Session::run() {
    if (context_->gives_jobs())
        return failed_precondition("the session runs as jobs of the host's (hk_context_options.job)");
    std::function<Status()> body;
    {
        const std::lock_guard guard(mutex_);
        if (!body_)
            return failed_precondition(context_->own_threads()
                                           ? "the session has a thread: make the context with no_threads"
                                           : "the session runs already, or has ended");
        body = std::exchange(body_, {});
    }
    work(body);
    return {};
}

Result<std::shared_ptr<Session>> Session::train(const std::shared_ptr<Context>& context,
                                                const hk_train_options& options, const hk_session_options* own) {
    std::shared_ptr<Session> session(new Session);
    HK_TRY(session->open(context, own));
    session->callbacks_.replace({.user = options.user,
                                 .step = options.step,
                                 .evaluation = options.evaluation,
                                 .message = options.message,
                                 .stop = options.stop});
    std::vector<std::string> kept = texts(options.overrides, options.override_count);
    kept.insert(kept.begin(), string_of(options.recipe));
    HK_TRY(context->add(session, [&] {
        session->begin([s = session.get(), options, kept = std::move(kept)] { return s->run_training(options, kept); });
    }));
    return session;
}

Status Session::run_training(const hk_train_options& given, const std::vector<std::string>& kept) {
    std::vector<hk_string> strings;
    for (const std::string& one : kept) strings.push_back(view(one));
    hk_train_options options = given;
    options.recipe = strings.front();
    options.overrides = strings.data() + 1;
    options.override_count = strings.size() - 1;
    options.user = this;
    options.step = [](void* u, const hk_train_step* step) {
        auto& session = *static_cast<Session*>(u);
        session.step_ = step->step;
        if (const auto capture = session.context_->capture()) capture->loss(session.handle_, step->step, step->loss);
        session.callbacks_.call([&](const Callbacks& host) {
            if (host.step != nullptr) host.step(host.user, step);
        });
    };
    if (given.evaluation != nullptr)
        options.evaluation = [](void* u, const hk_train_evaluation* evaluation) {
            static_cast<Session*>(u)->callbacks_.call([&](const Callbacks& host) {
                if (host.evaluation != nullptr) host.evaluation(host.user, evaluation);
            });
        };
    if (given.message != nullptr)
        options.message = [](void* u, hk_string message) {
            static_cast<Session*>(u)->callbacks_.call([&](const Callbacks& host) {
                if (host.message != nullptr) host.message(host.user, message);
            });
        };
    if (given.stop != nullptr)
        options.stop = [](void* u) -> int32_t { return static_cast<Session*>(u)->asked_to_stop() ? 1 : 0; };
    options.abandoned = nullptr; // the session waits for its plugins
    HK_ASSIGN(const std::unique_ptr<train::TrainingRun> trainer,
              training_run_of(place(), &options, train::Purpose::train));
    step_ = trainer->step();
    set_progress(0.7);
    HK_TRY(measure([&] { return trainer->rehearse(); }));
    HK_TRY(prepared());
    const Shown shown(*this, trainer->store());
    HK_ASSIGN(const train::TrainerResult result, train::TrainingLoop(*trainer).run());
    const std::lock_guard guard(mutex_);
    stopped_ = result.stopped;
    return {};
}

Result<std::shared_ptr<Session>> Session::generate(const std::shared_ptr<Context>& context,
                                                   const hk_generate_options& options, const hk_session_options* own) {
    if (options.reference != 0)
        return invalid_argument("hk_generate_options.reference: a session runs on the device: leave it 0");
    if (options.beams > 1)
        return invalid_argument("hk_generate_options.beams: a session writes token by token: leave it 0");
    std::shared_ptr<Session> session(new Session);
    HK_TRY(session->open(context, own));
    session->writes_ = true;
    session->callbacks_.replace({.user = options.user, .text = options.text, .stop = options.stop});
    session->prompts_ = texts(options.prompts, options.prompt_count);
    session->rows_ = session->prompts_->size();
    HK_TRY(context->add(session, [&] {
        session->begin([s = session.get(), options, model = string_of(options.model)] {
            return s->run_generation(options, model);
        });
    }));
    return session;
}

Status Session::run_generation(const hk_generate_options& given, const std::string& model) {
    hk_generate_options options = given;
    options.model = view(model);
    options.prompts = nullptr;
    options.prompt_count = 0;
    options.user = this;
    options.text = [](void* u, uint64_t row, hk_string text) {
        auto& session = *static_cast<Session*>(u);
        if (const auto capture = session.context_->capture()) capture->text(session.handle_, row, text);
        session.callbacks_.call([&](const Callbacks& host) {
            if (host.text != nullptr) host.text(host.user, row, text);
        });
    };
    options.stop = [](void* u) -> int32_t {
        auto& session = *static_cast<Session*>(u);
        {
            const std::lock_guard guard(session.mutex_);
            if (session.interrupted_) return 1;
        }
        return session.asked_to_stop() ? 1 : 0;
    };
    HK_ASSIGN(const auto generation, Generation::open(place(), options));
    set_progress(0.5);
    Generation::Turn turn;
    turn.length = length_;
    turn.begun = [this](generate::Decoder& decoder) -> Status {
        HK_TRY(measure([&] { return decoder.prepare(); }));
        return prepared();
    };
    turn.token = [this] { ++step_; };
    for (;;) {
        HK_TRY(wait_for_work([&] { return prompts_ || stopping_; }));
        {
            const std::lock_guard guard(mutex_);
            if (stopping_) {
                stopped_ = true;
                return {};
            }
            turn.prompts = std::move(*prompts_);
            prompts_.reset();
            interrupted_ = false;
        }
        HK_ASSIGN(const generate::Output output, generation->say(turn));
        turn.begun = {};
        if (output.stopped && stopping_) continue;
        const std::lock_guard guard(mutex_);
        if (!prompts_) state_ = HK_SESSION_IDLE;
    }
}

// What a session of passes was asked for, and what it has.
struct Session::Passes {
    std::string model;
    std::vector<std::string> ports;
    std::vector<std::pair<std::string, hk_buffer>> bindings;
    bool attention = false, lens = false;
    int64_t rows = 0, length = 0, decoder_length = 0;

    std::map<std::string, hk_tensor> tensors; // once prepared
    std::function<void()> find_tensors;       // where they lie now
    bool reads_mask = false, wanted = false;  // a pass is asked for
    std::vector<int32_t> ids, mask, decoder;  // empty: as the bound buffers are

    bool bound(std::string_view name) const {
        return std::ranges::any_of(bindings, [&](const auto& one) { return one.first == name; });
    }
};

namespace {

// The host's buffer for a tensor of so many bytes, or what is wrong with it.
Result<gpu::Buffer> borrowed(const gpu::Device& device, const std::string& name, const hk_buffer& b, uint64_t bytes) {
    const auto refuse = [&](const std::string& why) {
        return invalid_argument(fmt::format("the buffer of '{}' {}", name, why));
    };
    if (b.buffer == 0) return refuse("is null");
    if ((b.usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) == 0)
        return refuse("lacks VK_BUFFER_USAGE_STORAGE_BUFFER_BIT in VkBufferCreateInfo::usage");
    if ((b.usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) == 0)
        return refuse("lacks VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT in VkBufferCreateInfo::usage");
    if (b.memory_has_address == 0)
        return refuse(
            "lies in memory without VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT in VkMemoryAllocateFlagsInfo::flags");
    if (b.concurrent == 0 && b.queue_family != device.queue_family())
        return refuse(
            fmt::format("belongs to the queue family {}, and Hekla's queue is of {}: share it, or transfer it "
                        "before each pass, and say that it is that family's",
                        b.queue_family, device.queue_family()));
    if (b.bytes < bytes) return refuse(fmt::format("has {} bytes, and {} are needed", b.bytes, bytes));
    VkBuffer handle = VK_NULL_HANDLE;
    static_assert(sizeof handle == sizeof b.buffer);
    std::memcpy(&handle, &b.buffer, sizeof handle);
    uint64_t address = b.address;
    if (address == 0) {
        VkBufferDeviceAddressInfo ask{};
        ask.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
        ask.buffer = handle;
        address = device.functions().vkGetBufferDeviceAddress(device.handle(), &ask);
    }
    if ((address + b.offset) % 256 != 0)
        return refuse(fmt::format("begins at the address {:#x}: a multiple of 256 is needed", address + b.offset));
    return gpu::Buffer::borrow(handle, address + b.offset, bytes, name);
}

} // namespace

Result<std::shared_ptr<Session>> Session::forward(const std::shared_ptr<Context>& context,
                                                  const hk_forward_options& options, const hk_session_options* own) {
    if (options.rows < 1 || options.length < 1)
        return invalid_argument(fmt::format("hk_forward_options: {} rows of {} tokens: expected 1 or more of each",
                                            options.rows, options.length));
    if (options.decoder_length < 0)
        return invalid_argument(
            fmt::format("hk_forward_options.decoder_length is {}, expected 0 or more", options.decoder_length));
    std::shared_ptr<Session> session(new Session);
    HK_TRY(session->open(context, own));
    auto passes = std::make_shared<Passes>();
    passes->model = string_of(options.model);
    passes->ports = texts(options.ports, options.port_count);
    passes->attention = options.attention != 0;
    passes->lens = options.lens != 0;
    passes->rows = options.rows;
    passes->length = options.length;
    passes->decoder_length = options.decoder_length;
    session->callbacks_.replace({.user = options.user, .done = options.done});
    for (uint64_t i = 0; i < options.binding_count; ++i) {
        HK_TRY(complete(&options.bindings[i].buffer, "hk_buffer"));
        passes->bindings.emplace_back(string_of(options.bindings[i].name), options.bindings[i].buffer);
    }
    session->passes_ = passes;
    HK_TRY(context->add(session,
                        [&] { session->begin([s = session.get(), passes] { return s->run_forward(*passes); }); }));
    return session;
}

Status Session::run_forward(Passes& p) {
    const CallEnvironment here = place();
    HK_ASSIGN(infer::Model model, infer::open_model(here.registry, here.runtime, p.model,
                                                    {.tokenizer_required = false,
                                                     .pool = here.weights,
                                                     .may_wait = here.own_threads,
                                                     .stopping = here.stopping},
                                                    here.log));
    set_progress(0.5);
    const graph::Tensor whole{graph::Kind::int32, graph::Shape{p.rows, p.length},
                              std::vector<double>(static_cast<std::size_t>(p.rows * p.length), 1.0)};
    infer::Tensors fields{{"input_ids", whole}, {"attention_mask", whole}};
    HK_ASSIGN(p.reads_mask, infer::reads_field(model, fields, "attention_mask"));
    if (!p.reads_mask) fields.erase("attention_mask");
    if (p.decoder_length > 0) {
        fields["decoder_input_ids"] = {graph::Kind::int32, graph::Shape{p.rows, p.decoder_length},
                                       std::vector<double>(static_cast<std::size_t>(p.rows * p.decoder_length), 1.0)};
        HK_ASSIGN(const bool writes, infer::reads_field(model, fields, "decoder_input_ids"));
        if (!writes)
            return invalid_argument("hk_forward_options.decoder_length is for models with an encoder and a decoder; "
                                    "this one has one stack: leave it 0");
    }
    std::vector<std::string> unused;
    for (const auto& [name, buffer] : p.bindings) unused.push_back(name);
    const auto give = [&](const std::string& name, uint64_t bytes) -> Result<gpu::Buffer> {
        for (const auto& [bound, buffer] : p.bindings) {
            if (bound != name) continue;
            std::erase(unused, name);
            return borrowed(*here.runtime->gpu().device, name, buffer, bytes);
        }
        return gpu::Buffer();
    };
    HK_ASSIGN(const std::unique_ptr<infer::Forward> forward,
              infer::Forward::create_on_device(model, fields, p.ports, p.attention, p.lens, give));
    std::vector<std::string> names = forward->output_names();
    for (const auto& [name, field] : fields) names.push_back(name);
    if (!unused.empty())
        return invalid_argument(fmt::format("there is no field or port '{}' to bind a buffer to; there are: {}",
                                            unused.front(), fmt::join(names, ", ")));
    p.find_tensors = [&, names] {
        p.tensors.clear();
        for (const std::string& name : names) {
            const graph::Value* value = forward->find(name);
            const gpu::Buffer* buffer = model.store->state_buffer(infer::forward_state(name));
            if (value == nullptr || buffer == nullptr) continue;
            hk_tensor t{};
            t.struct_size = sizeof t;
            t.kind = value->kind == graph::Kind::int32 ? HK_TENSOR_INT32 : HK_TENSOR_FLOAT32;
            t.rank = static_cast<uint32_t>(value->shape.rank());
            std::ranges::copy(value->shape.dims(), t.dims);
            for (const graph::AttentionMap& map : forward->attention_maps())
                if (map.output == name) t.decoder_axes = (map.queries_written ? 4U : 0U) | (map.keys_written ? 8U : 0U);
            t.buffer.struct_size = sizeof t.buffer;
            for (const auto& [bound, given] : p.bindings)
                if (bound == name) t.buffer = given;
            if (!p.bound(name)) {
                const VkBuffer handle = buffer->handle();
                std::memcpy(&t.buffer.buffer, &handle, sizeof t.buffer.buffer);
                t.buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
                t.buffer.queue_family = here.runtime->gpu().device->queue_family();
                t.buffer.memory_has_address = 1;
            }
            t.buffer.address = buffer->address() - t.buffer.offset;
            t.buffer.bytes = buffer->bytes();
            p.tensors.emplace(name, t);
        }
    };
    {
        const std::lock_guard guard(mutex_);
        p.find_tensors();
    }
    // Over ids that are there whatever the host's buffers hold.
    const std::vector<int32_t> zeros(static_cast<std::size_t>(p.rows * std::max(p.length, p.decoder_length)), 0);
    const auto put = [&](const std::string& field, std::span<const int32_t> values) -> Status {
        return model.store->upload_state(infer::forward_state(field), std::as_bytes(values));
    };
    const auto put_zeros = [&](const std::string& field, int64_t length) -> Status {
        if (length == 0 || p.bound(field)) return {};
        return put(field, std::span(zeros).first(static_cast<std::size_t>(p.rows * length)));
    };
    HK_TRY(put_zeros("input_ids", p.length));
    HK_TRY(put_zeros("decoder_input_ids", p.decoder_length));
    if (std::ranges::none_of(fields, [&](const auto& field) { return p.bound(field.first); }))
        HK_TRY(measure([&] { return forward->run(); }));
    else // nothing can be measured before the host's ids are there
        HK_TRY(runtime_->gpu().staging->reserve());
    HK_TRY(prepared());
    const Shown shown(*this, *model.store);
    {
        const std::lock_guard guard(mutex_);
        state_ = p.wanted ? HK_SESSION_WORKING : HK_SESSION_IDLE;
    }
    changed_.notify_all();
    for (;;) {
        std::vector<int32_t> ids, mask, decoder;
        HK_TRY(wait_for_work([&] { return p.wanted || stopping_; }));
        {
            const std::lock_guard guard(mutex_);
            if (stopping_) {
                stopped_ = true;
                return {};
            }
            ids = std::move(p.ids);
            mask = std::move(p.mask);
            decoder = std::move(p.decoder);
        }
        if (!ids.empty()) HK_TRY(put("input_ids", ids));
        if (!mask.empty()) HK_TRY(put("attention_mask", mask));
        if (!decoder.empty()) HK_TRY(put("decoder_input_ids", decoder));
        HK_TRY(forward->run());
        ++step_;
        {
            const std::lock_guard guard(mutex_);
            p.wanted = false;
            state_ = HK_SESSION_IDLE;
        }
        changed_.notify_all();
        callbacks_.call([&](const Callbacks& host) {
            if (host.done != nullptr) host.done(host.user, static_cast<uint64_t>(step_.load()));
        });
    }
}

Status Session::pass(const int32_t* ids, const uint64_t* lengths, const int32_t* decoder_ids, bool pair) {
    const std::lock_guard guard(mutex_);
    if (passes_ == nullptr)
        return invalid_argument("the session makes no passes: it was not made by hk_session_forward");
    if (ended_) return failed_precondition("the session has ended");
    Passes& p = *passes_;
    if (state_ == HK_SESSION_PREPARING) return failed_precondition("the session prepares: wait until it is idle");
    if (p.wanted) return failed_precondition("a pass runs: wait until the session is idle");
    const auto count = static_cast<std::size_t>(p.rows * p.length);
    p.ids.clear();
    p.mask.clear();
    p.decoder.clear();
    if (pair != (p.decoder_length > 0))
        return invalid_argument(pair ? "the session has no decoder_length: hk_session_pass begins its passes"
                                     : "the session has a decoder_length: hk_session_pass_pair begins its passes");
    const auto take = [&](const char* name, const char* field, const int32_t* given, int64_t length,
                          std::vector<int32_t>& into) -> Status {
        if ((given == nullptr) != p.bound(field))
            return invalid_argument(
                given == nullptr ? fmt::format("{} is null, and no buffer is bound to {}", name, field)
                                 : fmt::format("{} are given, and a buffer of the host's is bound to {}", name, field));
        if (given != nullptr) into.assign(given, given + p.rows * length);
        return {};
    };
    HK_TRY(take("ids", "input_ids", ids, p.length, p.ids));
    if (pair) HK_TRY(take("decoder_ids", "decoder_input_ids", decoder_ids, p.decoder_length, p.decoder));
    if (p.bound("attention_mask")) {
        if (lengths != nullptr)
            return invalid_argument("lengths are given, and a buffer of the host's is bound to attention_mask");
    } else {
        p.mask.assign(p.reads_mask ? count : 0, 1);
        for (int64_t row = 0; row < p.rows && lengths != nullptr; ++row) {
            const auto length = static_cast<int64_t>(lengths[row]);
            if (length < 1 || length > p.length) {
                return invalid_argument(
                    fmt::format("lengths[{}] is {}, expected 1 to {}", row, lengths[row], p.length));
            }
            if (length < p.length && !p.reads_mask)
                return unsupported("this model reads no attention_mask: rows cannot be shorter than the session's");
            for (int64_t t = length; t < p.length; ++t) p.mask[static_cast<std::size_t>(row * p.length + t)] = 0;
        }
    }
    p.wanted = true;
    state_ = HK_SESSION_WORKING;
    changed_.notify_all();
    return {};
}

std::size_t Session::pass_rows() const { return passes_ != nullptr ? static_cast<std::size_t>(passes_->rows) : 0; }

std::size_t Session::pass_length() const { return passes_ != nullptr ? static_cast<std::size_t>(passes_->length) : 0; }

std::size_t Session::decoder_length() const {
    return passes_ != nullptr ? static_cast<std::size_t>(passes_->decoder_length) : 0;
}

Status Session::has_passes() {
    if (passes_ == nullptr)
        return invalid_argument("the session makes no passes: it was not made by hk_session_forward");
    HK_TRY(failed_);
    if (state_ == HK_SESSION_PREPARING) return failed_precondition("the session prepares: wait until it is idle");
    return {};
}

Status Session::tensor(const std::string& name, hk_tensor& out) {
    const std::lock_guard guard(mutex_);
    HK_TRY(has_passes());
    const auto found = passes_->tensors.find(name);
    if (found != passes_->tensors.end()) {
        out = found->second;
        return {};
    }
    std::vector<std::string> names;
    for (const auto& [one, tensor] : passes_->tensors) names.push_back(one);
    return not_found(fmt::format("there is no field or port '{}'; there are: {}", name, fmt::join(names, ", ")));
}

Status Session::tensors(const std::function<void(const std::string& name, const hk_tensor&)>& give) {
    std::map<std::string, hk_tensor> all;
    {
        const std::lock_guard guard(mutex_);
        HK_TRY(has_passes());
        all = passes_->tensors;
    }
    for (const auto& [name, tensor] : all) give(name, tensor);
    return {};
}

Status Session::measure(const std::function<Status()>& rehearse) {
    HK_TRY(rehearse()); // a driver may compile when something first runs
    HK_TRY(queue_->set_mode(gpu::BudgetedQueue::Mode::measuring));
    HK_TRY(rehearse());
    HK_TRY(runtime_->gpu().staging->reserve()); // before what is left may go to the records of more pieces
    HK_ASSIGN(const bool cut, runtime_->resplit());
    if (!cut) return {};
    queue_->forget();
    return rehearse();
}

Status Session::prepared() {
    HK_TRY(queue_->set_mode(gpu::BudgetedQueue::Mode::metered));
    const double longest = queue_->longest();
    context_->keep_caches(*runtime_);
    if (stopping_) queue_->drain(); // it was left while it prepared
    const std::lock_guard guard(mutex_);
    progress_ = 1.0;
    longest_ = longest;
    if (passes_ == nullptr) state_ = HK_SESSION_WORKING;
    changed_.notify_all();
    return {};
}

void Session::set_progress(double progress) {
    const std::lock_guard guard(mutex_);
    progress_ = progress;
}

Status Session::prompt(std::vector<std::string> prompts) {
    const std::lock_guard guard(mutex_);
    if (ended_) return failed_precondition("the session has ended");
    if (!writes_) return invalid_argument("the session writes nothing: it was not made by hk_session_generate");
    if (prompts.size() != std::max<std::size_t>(rows_, 1))
        return invalid_argument(fmt::format("{} prompts, expected {} as at first: make another session for more",
                                            prompts.size(), std::max<std::size_t>(rows_, 1)));
    prompts_ = std::move(prompts);
    interrupted_ = true;
    if (state_ == HK_SESSION_IDLE) state_ = HK_SESSION_WORKING;
    changed_.notify_all();
    return {};
}

void Session::wait(std::chrono::nanoseconds time, hk_session_info& out) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return state_ != HK_SESSION_PREPARING; });
    const uint32_t size = out.struct_size;
    out = hk_session_info{};
    out.struct_size = size;
    out.state = released_ && !ended_ ? HK_SESSION_RELEASED : state_;
    out.code = static_cast<int32_t>(failed_.code());
    out.stopped = stopped_ ? 1 : 0;
    out.progress = progress_;
    out.step = step_;
    out.longest = longest_ * 1e6;
    out.message = view(failed_.message());
}

Status Session::advance(const hk_advance& a, hk_advanced* out) {
    if (!(a.microseconds >= 0 && a.microseconds <= 1e12))
        return invalid_argument(fmt::format("hk_advance.microseconds is {}, expected 0 or more", a.microseconds));
    HK_TRY(check_points(a.waits, a.wait_count, "waits"));
    HK_TRY(check_points(a.signals, a.signal_count, "signals"));
    gpu::BudgetedQueue::Work work;
    const std::vector<gpu::TimelinePoint> waits = points(a.waits, a.wait_count),
                                          signals = points(a.signals, a.signal_count);
    work.seconds = a.microseconds * 1e-6;
    work.waits = waits;
    work.signals = signals;
    if (a.command_buffer != nullptr) {
        if (!waits.empty() || !signals.empty())
            return invalid_argument("hk_advance: what is recorded into a command buffer neither waits nor signals: the "
                                    "host's submit does");
        HK_TRY(check_points(&a.lease, 1, "lease"));
        work.into = static_cast<VkCommandBuffer>(a.command_buffer);
        work.lease = points(&a.lease, 1).front();
    }
    {
        const std::lock_guard guard(mutex_);
        HK_TRY(failed_);
    }
    const std::shared_ptr<gpu::BudgetedQueue> queue = this->queue();
    if (queue == nullptr) return failed_precondition("the context's device was released");
    HK_ASSIGN(const gpu::BudgetedQueue::Advanced advanced, queue->advance(work));
    ask_for_job();
    const std::lock_guard guard(mutex_);
    longest_ = std::max(longest_, advanced.longest);
    if (out != nullptr) {
        out->state = released_ && !ended_ ? HK_SESSION_RELEASED : state_;
        out->busy = advanced.busy ? 1 : 0;
        out->more = advanced.more ? 1 : 0;
        out->pieces = advanced.segments;
        out->expected = advanced.seconds * 1e6;
        out->measured = advanced.spent * 1e6;
    }
    return {};
}

std::shared_ptr<gpu::BudgetedQueue> Session::queue() {
    const std::lock_guard guard(mutex_);
    return queue_;
}

void Session::stop() {
    {
        const std::lock_guard guard(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    ask_for_job();
}

Status Session::rest() {
    const auto rests = [&]() -> Status {
        if (const Status gone = runtime_->evict_device_memory(); !gone.ok()) {
            if (gone.code() == Code::internal) return gone;
            const std::lock_guard guard(mutex_);
            release_wanted_ = false;
            not_restored_ = gone;
            changed_.notify_all();
            return {};
        }
        std::unique_lock lock(mutex_);
        released_ = true;
        changed_.notify_all();
        for (;;) {
            wait_here(lock, [&] { return !release_wanted_ || destroyed_; });
            if (destroyed_) return Status(Code::cancelled, "the session was destroyed");
            lock.unlock();
            const Status back = runtime_->restore_device_memory();
            lock.lock();
            if (back.ok()) break;
            if (back.code() != Code::out_of_memory || stopping_) return back; // who ends needs it
            not_restored_ = back;
            release_wanted_ = true;
            changed_.notify_all();
        }
        if (passes_ != nullptr && passes_->find_tensors) passes_->find_tensors();
        released_ = false;
        changed_.notify_all();
        return {};
    };
    queue_->set_parked({});
    return queue_->park(rests);
}

Status Session::wait_for_work(const std::function<bool()>& wanted) {
    std::unique_lock lock(mutex_);
    for (;;) {
        wait_here(lock, [&] { return wanted() || release_wanted_; });
        if (!release_wanted_) return {};
        lock.unlock();
        HK_TRY(rest());
        lock.lock();
    }
}

Result<bool> Session::release_memory(std::chrono::nanoseconds time) {
    if (is_here()) return failed_precondition("a callback of a session cannot release its memory");
    const std::shared_ptr<gpu::BudgetedQueue> queue = this->queue();
    std::unique_lock lock(mutex_);
    if (ended_ || queue == nullptr) return failed_precondition("the session has ended: it holds no memory");
    if (state_ == HK_SESSION_PREPARING) return failed_precondition("the session prepares: wait until it is there");
    if (released_) return true;
    release_wanted_ = true;
    not_restored_ = {};
    queue->set_parked([this] { return rest(); });
    changed_.notify_all();
    wait_for(lock, std::chrono::steady_clock::now() + time, [&] { return released_ || ended_ || !release_wanted_; });
    if (released_) return true;
    const bool refused = !release_wanted_;
    release_wanted_ = false;
    queue->set_parked({});
    changed_.notify_all();
    if (ended_) return failed_precondition("the session has ended: it holds no memory");
    if (refused) return not_restored_;
    return false;
}

Status Session::restore_memory() {
    if (is_here()) return failed_precondition("a callback of a session cannot restore its memory");
    std::unique_lock lock(mutex_);
    if (!released_ || ended_) return {};
    not_restored_ = {};
    release_wanted_ = false;
    changed_.notify_all();
    wait_for(lock, long_from_now(), [&] { return !released_ || ended_ || release_wanted_; });
    return release_wanted_ ? not_restored_ : failed_;
}

bool Session::leave(std::chrono::steady_clock::time_point until) {
    stop();
    {
        const std::lock_guard guard(mutex_);
        release_wanted_ = false; // what it still has to do needs its memory
        changed_.notify_all();
    }
    if (const auto queue = this->queue()) {
        queue->set_parked({});
        queue->drain();
    }
    drop_unbegun();
    std::unique_lock lock(mutex_);
    if (!wait_for(lock, until, [&] { return ended_; })) return false;
    const std::shared_ptr<gpu::BudgetedQueue> last = std::move(queue_); // may wait for the host's queue, and lock it
    lock.unlock();
    return true;
}

void Session::destroy() {
    {
        const std::lock_guard guard(mutex_);
        destroyed_ = true;
    }
    stop();
    if (const auto queue = this->queue()) queue->cancel();
    drop_unbegun();
    if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
    if (thread_.joinable() || is_here()) return;
    std::unique_lock lock(mutex_); // a thread of the host's runs it
    wait_for(lock, long_from_now(), [&] { return ended_; });
}

void Session::drop_unbegun() {
    {
        const std::lock_guard guard(mutex_);
        if (!body_) return;
        body_ = {};
    }
    end(Status(Code::cancelled, "the session ended before anybody ran it"));
}

} // namespace hekla::api
