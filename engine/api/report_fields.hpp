// Fill reports of hekla.h from structs of the engine that have members of the same names, which must outlive them.
// arrays: makes the arrays that they point to (report_arrays.hpp).
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
#pragma once

#include "api/boundary.hpp"

// clang-format off
namespace hekla::api {

template<class R>
void fill(hk_tap& to, const R& from) {
    to.struct_size = sizeof to;
    to.name = view(from.name);
    to.elements = from.elements;
    to.nans = from.nans;
    to.infinities = from.infinities;
    to.mean = from.mean;
    to.deviation = from.deviation;
    to.minimum = from.minimum;
    to.maximum = from.maximum;
    to.zeros = from.zeros;
}

template<class R, class A>
void fill(hk_train_step& to, const R& from, A& arrays) {
    to.struct_size = sizeof to;
    to.skipped = static_cast<int32_t>(from.skipped);
    to.step = from.step;
    to.max_steps = from.max_steps;
    to.loss = from.loss;
    to.loss_z = from.loss_z;
    to.gradient_norm = from.gradient_norm;
    to.learning_rate = from.learning_rate;
    to.seconds = from.seconds;
    to.tokens_per_second = from.tokens_per_second;
    to.share_of_peak = from.share_of_peak;
    to.remaining_seconds = from.remaining_seconds;
    to.losses = arrays.of(from.losses);
    to.loss_count = from.losses.size();
    to.metrics = arrays.of(from.metrics);
    to.metric_count = from.metrics.size();
    to.scalars = arrays.of(from.scalars);
    to.scalar_count = from.scalars.size();
    to.exchanged_bytes = from.exchanged_bytes;
    to.exchange_seconds = from.exchange_seconds;
    to.taps = arrays.of(from.taps);
    to.tap_count = from.taps.size();
    to.epoch = from.epoch;
    to.device_bytes = from.device_bytes;
    to.label_tokens = from.label_tokens;
}

template<class R, class A>
void fill(hk_train_evaluation& to, const R& from, A& arrays) {
    to.struct_size = sizeof to;
    to.best = static_cast<int32_t>(from.best);
    to.step = from.step;
    to.loss = from.loss;
    to.seconds = from.seconds;
    to.scores = arrays.of(from.scores);
    to.score_count = from.scores.size();
}

} // namespace hekla::api
