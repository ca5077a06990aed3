#include "models/table.hpp"

#include "failure.hpp"

namespace observatory {

void Table::keep(const Model& model, uint64_t number) {
    const bool failed = passes_ != nullptr && passes_->state() == hk::State::failed;
    if (number == number_ && !failed) return;
    if (number != number_) embedding_ = true;
    if (failed && number == number_) {
        problem_ = passes_->problem();
        passes_.reset();
        if (!embedding_) return;
        embedding_ = false; // a network without this port still has parameters
    }
    number_ = number;
    passes_.reset();
    if (embedding_) problem_.clear();
    try {
        PassesOptions options;
        options.model = model.path();
        options.ports = {"hidden"};
        if (embedding_) options.ports.emplace_back("embedding.weight");
        passes_ = std::make_unique<Passes>(engine_, options);
    } catch (const Failure& failure) { problem_ = failure.what(); }
}

void Table::forget() {
    passes_.reset();
    number_ = 0;
    problem_.clear();
}

std::optional<hk_tensor> Table::parameter(const std::string& name) const {
    hk_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    if (hk_session_parameter(passes_->session(), hk::view(name), HK_PARAMETER_VALUE, &tensor, nullptr) != HK_OK)
        return {};
    return tensor;
}

} // namespace observatory
