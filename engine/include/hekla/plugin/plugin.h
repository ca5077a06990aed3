// All of the plugin ABI.
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
#ifndef HEKLA_PLUGIN_PLUGIN_H
#define HEKLA_PLUGIN_PLUGIN_H

#include "abi.h"
#include "error.h"
#include "log.h"
#include "config.h"
#include "tokenizer.h"
#include "graph.h"
#include "entry.h"
#include "drafts.h"
#include "field.h"
#include "example.h"
#include "architecture.h"
#include "objective.h"
#include "head.h"
#include "operation.h"
#include "adapter.h"
#include "combiner.h"
#include "optimizer.h"
#include "operations.h"

#endif
