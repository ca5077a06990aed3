// A session of Hekla's that looks at rows of one length: what it makes stays on the device, at addresses.
#pragma once

#include "models/engine.hpp"

#include <hekla/model.h>
#include <map>
#include <string>
#include <vector>

namespace observatory {

struct PassesOptions {
    std::string model;
    int64_t length = 1, decoder_length = 0; // 0: it writes nothing
    std::vector<std::string> ports;
    bool attention = false, lens = false;
};

// What is destroyed may not be read by a frame any more: whoever owns one lets go of it between frames, once all that
// were submitted have been executed.
class Passes {
public:
    // Returns at once. Throws a Failure for options that cannot be.
    Passes(Engine& engine, const PassesOptions& options);
    ~Passes();
    Passes(const Passes&) = delete;
    Passes& operator=(const Passes&) = delete;

    hk::State state() const { return session_.state(); }
    double progress() const { return session_.wait(0).progress; }
    std::string problem() const; // of State::failed
    // One row of ids, as many as options.length, and as many as options.decoder_length of what is written. Once it is
    // idle. Throws a Failure.
    void begin(const std::vector<int32_t>& ids, const std::vector<int32_t>& written) const;
    // Once prepared. Null where there is none of that name.
    const hk_tensor* find(const std::string& name) const;
    // "attention.0" and its like, in their order.
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
