// The purpose of a worker process.
#pragma once

namespace hekla::plugin {

enum class WorkerPurpose {
    describing, // one process; a plugin that ends it or exceeds the time limit is reported (Registry::disable_plugin)
    working,    // collate, decode and example_length: one process per calling thread, restarted when it ends
};

} // namespace hekla::plugin
