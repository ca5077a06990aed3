// The host's side of the exchange with a worker process (hekla-describe): one request, the questions that the process
// asks meanwhile, and its answer, or the reason why it ended. messages.hpp has the format.
#pragma once

#include "base/child_process.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "plugin/process/messages.hpp"
#include "plugin/process/worker_purpose.hpp"
#include "plugin/registry/registry.hpp"

#include <memory>
#include <string>

namespace hekla::plugin {

// A process with its plugins.
struct Worker {
    std::unique_ptr<ChildProcess> process;
    const Manifest* running = nullptr; // the plugin whose function runs; null: none
    std::string function;
};

struct Exchange {
    Result<Message> answer = internal_error("no request was sent");
    std::string exit_reason; // why the process ended: "crashed with SIGSEGV (Segmentation fault)"; empty: it answered
    const Manifest* plugin = nullptr; // the plugin whose function ran when the process ended; null: none
    std::string function;
};

// Sends requests to worker processes. Thread: any, for different workers.
class WorkerClient {
public:
    // registry and tokenizer (may be null) must outlive this.
    WorkerClient(const Registry& registry, const hk_tokenizer* tokenizer, WorkerPurpose purpose)
        : registry_(registry), tokenizer_(tokenizer), purpose_(purpose) {}

    // Sends one request and waits for its answer. corpus: the source of examples that the process may request; may be
    // null.
    Exchange exchange(Worker& worker, MessageKind kind, const MessageWriter& request, const hk_corpus* corpus) const;

    // Returns a reader of a successful answer, after its flag.
    MessageReader answer_of(const Message& message) const;

    // Returns which plugin failed, and how: "plugin 'mixer' (/lib/mixer.so) crashed with SIGSEGV in build()".
    static std::string failure_text(const Exchange& failed);
    // Returns failure_text() as an error and reports the failure to the registry, which may disable the plugin.
    Status failure_status(const Exchange& failed) const;

private:
    std::string exit_reason(Worker& worker, Code why) const;
    Result<Message> checked(Message message, const std::string& function) const;
    MessageWriter reply_to(MessageKind kind, MessageReader& in, const hk_corpus* corpus) const;

    const Registry& registry_;
    const hk_tokenizer* tokenizer_;
    WorkerPurpose purpose_;
};

} // namespace hekla::plugin
