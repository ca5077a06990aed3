// Checks of the structs that a host fills in, with everything that they point to. Null is an error.
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
#pragma once

#include "base/status.hpp"
#include "hekla/communicator.h"
#include "hekla/device.h"
#include "hekla/hekla.h"
#include "hekla/session.h"
#include "hekla/model.h"
#include "hekla/plan.h"
#include "hekla/capture.h"

namespace hekla::api {

Status check(const hk_communicator* given);
Status check(const hk_physical_device* given);
Status check(const hk_memory_range* given);
Status check(const hk_vulkan_device* given);
Status check(const hk_cache* given);
Status check(const hk_allocator* given);
Status check(const hk_context_options* given);
Status check(const hk_context_callbacks* given);
Status check(const hk_train_options* given);
Status check(const hk_evaluate_options* given);
Status check(const hk_predict_options* given);
Status check(const hk_generate_options* given);
Status check(const hk_embed_options* given);
Status check(const hk_session_options* given);
Status check(const hk_buffer* given);
Status check(const hk_forward_options* given);
Status check(const hk_advance* given);
Status check(const hk_session_callbacks* given);
Status check(const hk_device_limits* given);
Status check(const hk_plan_options* given);

// Check an element of an array; `place` is its name in messages.
Status check_element(const std::string& place, const hk_timeline& o);
Status check_element(const std::string& place, const hk_binding& o);

// Check what depends on several members, at the end of check().
Status check_relations(const hk_communicator& o);
Status check_relations(const hk_memory_range& o);
Status check_relations(const hk_vulkan_device& o);
Status check_relations(const hk_context_options& o);
Status check_relations(const hk_predict_options& o);
Status check_relations(const hk_generate_options& o);
Status check_relations(const hk_embed_options& o);
Status check_relations(const hk_advance& o);
Status check_relations(const hk_device_limits& o);
Status check_relations(const hk_plan_options& o);

} // namespace hekla::api
