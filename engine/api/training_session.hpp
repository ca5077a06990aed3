// A session that trains.
#pragma once

#include "api/owned.hpp"
#include "api/session.hpp"

namespace hekla::api {

class TrainingSession final : public Session {
public:
    static Result<std::shared_ptr<Session>> create(const std::shared_ptr<Context>& context,
                                                   const hk_train_options& options, const hk_session_options* own);

private:
    friend class Session;
    explicit TrainingSession(const hk_train_options& options);
    Status work() override;
    // Returns the options with callbacks that call the host's current ones.
    hk_train_options own_options();

    Owned<hk_train_options> given_;
};

} // namespace hekla::api
