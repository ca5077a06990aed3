#include "plugin/process/worker.hpp"

#include "base/last_line.hpp"
#include "plugin/host/host_error.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin {
MessageReader WorkerClient::answer_of(const Message& message) const {
    MessageReader in(message.bytes, &registry_);
    in.flag();
    return in;
}

// Returns how a process that does not answer ended.
std::string WorkerClient::exit_reason(Worker& worker, Code why) const {
    const ProcessEnd end = worker.process->end();
    const Processes& limits = registry_.processes();
    std::string text;
    if (why == Code::cancelled)
        text = fmt::format("timed out after {:g} s", limits.seconds);
    else if (why == Code::out_of_memory)
        text = fmt::format("exceeded the memory limit of its process ({} MiB)", limits.memory_bytes >> 20);
    else if (why == Code::corrupt)
        text = "wrote to the pipe reserved for Hekla";
    else if (end.signal != 0)
        text = fmt::format("crashed with {}", signal_text(end.signal));
    else if (end.status < 0)
        text = "ended its process with a status that this program took: it waits for child processes of others";
    else
        text = fmt::format("ended its process with status {}", end.status);
    return text;
}

Exchange WorkerClient::exchange(Worker& worker, MessageKind kind, const MessageWriter& request,
                                const hk_corpus* corpus) const {
    Exchange result;
    Channel& channel = worker.process->channel();
    worker.running = nullptr;
    worker.function.clear();
    const auto deadline = Channel::Clock::now() + std::chrono::duration_cast<Channel::Clock::duration>(
                                                      std::chrono::duration<double>(registry_.processes().seconds));
    const auto failed = [&](Code why) {
        result.exit_reason = exit_reason(worker, why);
        result.plugin = worker.running;
        result.function = worker.function;
        if (worker.running == nullptr && !worker.process->last_words().empty())
            result.exit_reason += fmt::format(" ({})", last_line(worker.process->last_words()));
        return std::move(result);
    };
    if (const Status sent = channel.send(static_cast<uint32_t>(kind), request.bytes(), deadline); !sent.ok()) {
        if (sent.code() == Code::unsupported) {
            result.answer = sent;
            return result;
        }
        return failed(sent.code());
    }
    bool no_memory = false;
    while (true) {
        Result<Message> message = channel.receive(deadline);
        if (!message.ok())
            return failed(no_memory && message.code() == Code::io ? Code::out_of_memory : message.code());
        MessageReader in(message.value().bytes);
        switch (static_cast<MessageKind>(message.value().kind)) {
        case MessageKind::doing: {
            worker.running = registry_.manifest_at(in.text());
            worker.function = in.text().substr(0, 64);
            break;
        }
        case MessageKind::out_of_memory: no_memory = true; break;
        case MessageKind::log: {
            const int64_t severity = std::clamp<int64_t>(in.integer(), 0, static_cast<int64_t>(Severity::error));
            registry_.log().write(static_cast<Severity>(severity), in.text());
            break;
        }
        case MessageKind::ask_special:
        case MessageKind::ask_words:
        case MessageKind::ask_decode:
        case MessageKind::ask_example: {
            const MessageWriter reply = reply_to(static_cast<MessageKind>(message.value().kind), in, corpus);
            if (const Status sent = channel.send(static_cast<uint32_t>(MessageKind::reply), reply.bytes(), deadline);
                !sent.ok())
                return failed(sent.code());
            break;
        }
        case MessageKind::answer: {
            result.answer = checked(message.take(), worker.function);
            return result;
        }
        default: return failed(Code::corrupt);
        }
        if (!in.ok()) return failed(Code::corrupt);
    }
}

// Returns the answer, or the error that it contains.
Result<Message> WorkerClient::checked(Message message, const std::string& function) const {
    MessageReader in(message.bytes);
    if (in.flag()) return message;
    const int64_t code = in.integer();
    std::string text(in.text());
    const std::string_view at_fault = in.text();
    HK_TRY(in.finish("the worker process"));
    if (code < static_cast<int64_t>(Code::invalid_argument) || code > static_cast<int64_t>(Code::internal))
        return internal_error(text);
    if (const Manifest* manifest = registry_.manifest_at(at_fault);
        manifest != nullptr && purpose_ == WorkerPurpose::describing)
        registry_.disable_plugin(*manifest, fmt::format("it threw an exception in {}()", function));
    if (static_cast<Code>(code) == Code::out_of_memory && registry_.processes().memory_bytes > 0)
        text += fmt::format(" (the memory limit of its process is {} MiB)", registry_.processes().memory_bytes >> 20);
    return Status(static_cast<Code>(code), text);
}

MessageWriter WorkerClient::reply_to(MessageKind kind, MessageReader& in, const hk_corpus* corpus) const {
    MessageWriter out;
    const TokenizerView* tokens = tokenizer_ != nullptr ? tokenizer_->view : nullptr;
    if (kind == MessageKind::ask_special) {
        out.integer(tokens != nullptr ? tokens->special(in.text()) : -1);
    } else if (kind == MessageKind::ask_words) {
        std::vector<uint8_t> bytes;
        for (int64_t id = 0; tokens != nullptr && id < tokens->size(); ++id)
            bytes.push_back(
                static_cast<uint8_t>((tokens->begins_word(id) ? 1 : 0) | (tokens->ends_sentence(id) ? 2 : 0)));
        out.array(std::span<const uint8_t>(bytes));
    } else if (kind == MessageKind::ask_decode) {
        const std::span<const int64_t> ids = in.array<int64_t>();
        out.text(tokens != nullptr ? tokens->decode(ids) : std::string());
    } else {
        const uint64_t index = in.number();
        hk_example example{};
        example.struct_size = sizeof example;
        hk_error error;
        int32_t code = HK_NOT_FOUND;
        if (corpus != nullptr) code = corpus->get(corpus->context, index, &example, &error);
        out.integer(code);
        if (code == HK_OK)
            put(out, example);
        else
            out.text(error.message);
    }
    return out;
}

std::string WorkerClient::failure_text(const Exchange& failed) {
    if (failed.plugin == nullptr) return fmt::format("hekla-describe {}", failed.exit_reason);
    return fmt::format("plugin '{}' ({}) {} in {}()", failed.plugin->plugin, failed.plugin->library, failed.exit_reason,
                       failed.function);
}

Status WorkerClient::failure_status(const Exchange& failed) const {
    if (failed.plugin != nullptr)
        registry_.disable_plugin(*failed.plugin, fmt::format("it {} in {}()", failed.exit_reason, failed.function));
    return internal_error(failure_text(failed));
}

} // namespace hekla::plugin
