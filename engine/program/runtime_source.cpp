#include "program/runtime_source.hpp"

#include "program/program.hpp"
#include "program/runtime.hpp"

namespace hekla::program {

RuntimeSource::RuntimeSource(Runtime* runtime) {
    if (runtime == nullptr) return;
    create_ = [runtime]() -> Result<Runtime*> { return runtime; };
    memory_ = runtime->gpu().device->host_memory();
}

} // namespace hekla::program
