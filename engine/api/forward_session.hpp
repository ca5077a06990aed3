// A session that runs passes of a model over rows of one length. Its outputs stay on the device.
#pragma once

#include "api/session.hpp"

#include <map>

namespace hekla::gpu {
class Buffer;
}
namespace hekla::graph {
struct Value;
}

namespace hekla::api {

class ForwardSession final : public Session {
public:
    static Result<std::shared_ptr<Session>> create(const std::shared_ptr<Context>& context,
                                                   const hk_forward_options& options, const hk_session_options* own);
    PassShape pass_shape() const override;
    Status pass(const int32_t* ids, const uint64_t* lengths, const int32_t* decoder_ids, bool pair) override;
    Status tensor(const std::string& name, hk_tensor& out) override;
    Status tensors(const std::function<void(const std::string& name, const hk_tensor&)>& give) override;

private:
    friend class Session;
    // The token ids of one pass; empty if a buffer of the host holds them.
    struct Ids {
        std::vector<int32_t> encoder, mask, decoder;
    };
    struct Loaded; // objects created by work()
    explicit ForwardSession(const hk_forward_options& options);
    Status work() override;
    void memory_restored() override { find_tensors(); }
    Status load(Loaded& loaded);
    Status make_fields(Loaded& loaded);
    Status write(const Loaded& loaded, const std::string& field, std::span<const int32_t> values) const;
    Status write_zeros(const Loaded& loaded) const;
    Status run_pass(const Loaded& loaded);
    void find_tensors(); // mutex_ is held
    hk_tensor describe_tensor(const std::string& name, const graph::Value& value, const gpu::Buffer& buffer) const;
    Status prepared() const; // mutex_ is held
    Result<Ids> ids_of(const int32_t* ids, const uint64_t* lengths, const int32_t* decoder_ids, bool pair) const;
    const hk_buffer* bound(std::string_view name) const; // null: it is in a buffer of Hekla's

    const std::string model_;
    const std::vector<std::string> ports_;
    std::vector<std::pair<std::string, hk_buffer>> bindings_;
    const bool attention_, lens_;
    const int64_t rows_, row_length_, decoder_length_;

    // Guarded by mutex_.
    Loaded* loaded_ = nullptr; // while work() runs
    std::map<std::string, hk_tensor> tensors_;
    bool reads_mask_ = false;
    int64_t id_range_ = 0, decoder_id_range_ = 0; // ids are 0 to these - 1; 0: any
    bool wanted_ = false;                         // a pass was begun and has not ended
    Ids ids_;                                     // of that pass
};

} // namespace hekla::api
