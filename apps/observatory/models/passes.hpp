// A Hekla session that runs forward passes over rows of one length. Its outputs stay on the device, at fixed addresses.
#pragma once

#include "models/engine.hpp"

#include <hekla/model.h>
#include <map>
#include <string>
#include <vector>

namespace observatory {

struct PassesOptions {
    std::string model;
    int64_t length = 1, decoder_length = 0; // 0: no decoder input
    std::vector<std::string> ports;
    bool attention = false, lens = false;
};

// Destroy it only between frames, after all submitted frames have completed, since they may read its outputs.
class Passes {
public:
    // Returns immediately. Throws a Failure for invalid options.
    Passes(Engine& engine, const PassesOptions& options);
    ~Passes();
    Passes(const Passes&) = delete;
    Passes& operator=(const Passes&) = delete;

    hk::State state() const { return session_.state(); }
    double progress() const { return session_.wait(0).progress; }
    std::string problem() const; // the message for State::failed
    // Starts a pass over one row: options.length ids, and options.decoder_length ids for the decoder. The session must
    // be idle. Throws a Failure.
    void begin(const std::vector<int32_t>& ids, const std::vector<int32_t>& written) const;
    // Returns the named output, or null if there is none. Must be prepared.
    const hk_tensor* find(const std::string& name) const;
    // Returns the outputs "attention.0" and so on, in order.
    std::vector<hk_tensor> all(const std::string& prefix) const;
    hk_session session() const { return session_.c(); }

private:
    const std::map<std::string, hk_tensor>& tensors() const;
    Engine& engine_;
    hk::Session session_;
    mutable std::map<std::string, hk_tensor> tensors_;
};

inline VkDeviceAddress address_of(const hk_tensor& tensor) { return tensor.buffer.address + tensor.buffer.offset; }

} // namespace observatory
