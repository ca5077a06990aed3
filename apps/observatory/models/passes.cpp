#include "models/passes.hpp"

#include "failure.hpp"

namespace observatory {

Passes::Passes(Engine& engine, const PassesOptions& options) : engine_(engine) {
    std::vector<hk_string> ports;
    for (const std::string& port : options.ports) ports.push_back(hk::view(port));
    hk_forward_options forward{};
    forward.struct_size = sizeof forward;
    forward.model = hk::view(options.model);
    forward.rows = 1;
    forward.length = options.length;
    forward.decoder_length = options.decoder_length;
    forward.ports = ports.data();
    forward.port_count = ports.size();
    forward.attention = options.attention ? 1 : 0;
    forward.lens = options.lens ? 1 : 0;
    hk_session session{};
    hk::Error error;
    if (!error.take(hk_session_forward(engine.context(), &forward, nullptr, &session, error.c())))
        throw Failure(error.message());
    session_ = hk::Session(session);
    engine.add(session, Engine::Kind::passes);
}

Passes::~Passes() { engine_.remove(session_.c()); }

std::string Passes::problem() const { return std::string(hk::view(session_.wait(0).message)); }

void Passes::begin(const std::vector<int32_t>& ids, const std::vector<int32_t>& written) const {
    hk::Error error;
    if (!error.take(written.empty()
                        ? hk_session_pass(session_.c(), ids.data(), nullptr, error.c())
                        : hk_session_pass_pair(session_.c(), ids.data(), nullptr, written.data(), error.c())))
        throw Failure(error.message());
}

const std::map<std::string, hk_tensor>& Passes::tensors() const {
    if (tensors_.empty()) {
        const auto give = [](void* user, hk_string name, const hk_tensor* tensor) {
            static_cast<std::map<std::string, hk_tensor>*>(user)->emplace(hk::view(name), *tensor);
        };
        hk_session_tensors(session_.c(), &tensors_, give, nullptr);
    }
    return tensors_;
}

const hk_tensor* Passes::find(const std::string& name) const {
    const auto found = tensors().find(name);
    return found != tensors().end() ? &found->second : nullptr;
}

std::vector<hk_tensor> Passes::all(const std::string& prefix) const {
    std::vector<hk_tensor> result;
    while (const hk_tensor* tensor = find(prefix + std::to_string(result.size()))) result.push_back(*tensor);
    return result;
}

} // namespace observatory
